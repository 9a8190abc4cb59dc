"""Kinds of features are guessed from the names, types and contents of columns."""

import numpy as np

from offdiag.data.read_features import read_features


def test_kinds_are_guessed_from_names_types_and_contents():
    rng, n = np.random.default_rng(0), 60
    table = {
        "sku": range(n), "title": [f"film {i}" for i in range(n)], "brand_id": rng.integers(0, 5, n),
        "colour": rng.choice(["red", "blue"], n), "price": rng.random(n), "url": [f"https://x/{i}" for i in range(n)],
        "about": [" ".join(rng.choice([f"w{j}" for j in range(50)], 12)) for _ in range(n)],
        "embedding": rng.random((n, 3)).tolist(), "tags": [["a", "b"][: i % 3] for i in range(n)],
        "code": [f"x{i}" for i in range(n)], **{f"v_{i}": rng.random(n) for i in range(8)},
    }  # fmt: skip
    features = read_features(table)
    kinds = {block.name: block.kind for block in features.blocks}
    assert kinds == {
        "v_0": "vector", "title": "text", "brand_id": "category", "colour": "category", "price": "number",
        "about": "text", "embedding": "vector", "tags": "category",
    }  # fmt: skip
    assert "item ids found in the column 'sku'" in features.notes
    assert any(note.endswith("not used: url, code") for note in features.notes)
