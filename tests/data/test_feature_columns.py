"""Columns become rows of unit length: rare tags and words count for more, close numbers are alike."""

import os
import subprocess
import sys

import numpy as np

from offdiag.data.read_features import read_features


def dense(features, *items):
    return features.rows(items).toarray()


def test_rare_tags_count_for_more():
    features = read_features({"item": range(9), "tag": ["all|rare"] + ["all"] * 7 + ["none"]}, categories=["tag"])
    row = dict(zip(features.names, dense(features, 0)[0], strict=True))
    assert row["tag=rare"] > row["tag=all"] > 0


def test_words_that_most_texts_have_are_left_out():
    texts = [f"the word{i} word{i // 2}" for i in range(30)]
    features = read_features({"item": range(30), "t": texts}, text=["t"])
    assert "t=the" not in features.names
    assert "t: words that most texts have left out: 'the'" in features.notes


def test_a_projection_of_texts_is_small_and_deterministic():
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(80)])
    texts = [" ".join(rng.choice(words[:40] if i % 2 else words[40:], 8)) for i in range(60)]
    first, second = (read_features({"item": range(60), "t": texts}, text=["t"], text_rank=5) for _ in range(2))
    assert first.matrix.shape == (60, 5)
    assert (first.matrix != second.matrix).nnz == 0
    likeness = (first.matrix @ first.matrix.T).toarray()
    assert likeness[1, 3::2].mean() > likeness[1, 2::2].mean() + 0.1


def test_features_are_the_same_in_every_process():
    code = (
        "import offdiag as od, sys\n"
        "f = od.read_features({'item': ['a', 'b'], 't': ['one two three', 'two four']}, text=['t'])\n"
        "print(f.names, f.matrix.toarray().tolist())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        for env in (_environment("1"), _environment("2"))
    ]
    assert runs[0] == runs[1]
    assert "t=four" in runs[0]


def _environment(seed):
    return os.environ | {"PYTHONHASHSEED": seed}


def test_close_numbers_are_alike_whatever_their_unit():
    years = np.arange(1900, 2000)
    features = read_features({"item": years, "year": years, "seconds": years * 1e9}, numbers=["year", "seconds"])
    a, b, c = dense(features, 1950, 1952, 1990)
    assert a @ b > 0.9 > 0.1 > a @ c
    half = features.matrix.shape[1] // 2
    np.testing.assert_allclose(a[:half], a[half:], atol=1e-9)
