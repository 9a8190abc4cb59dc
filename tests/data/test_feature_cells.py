"""Cells of tags, words, numbers and vectors are read in every form that tables give them."""

import numpy as np

from offdiag.data.read_features import read_features
from tests.fixtures.mistakes import refused


def dense(features, *items):
    return features.rows(items).toarray()


def test_tags_may_be_lists_or_text_with_any_mark():
    cells = {
        "|": ["a|b", " b ", ""],
        ",": ["a, b", "b", None],
        ";": ["a;b;b", "b", None],
        None: [["a", "b"], ["b"], []],
    }
    for mark, column in cells.items():
        features = read_features({"item": [1, 2, 3], "tags": column}, categories=["tags"])
        assert features.names == ["tags=a", "tags=b"]
        assert (dense(features, 1, 2, 3) > 0).tolist() == [[True, True], [False, True], [False, False]]
        assert any(f"mark between tags is {mark!r}" in note for note in features.notes) == (mark is not None)


def test_commas_within_names_are_no_separators():
    shop = {"item": [1, 2, 3], "department": ["Toys, Games", "Home, Garden", "Toys, Games"]}
    assert len(read_features(shop, categories=["department"]).names) == 2
    assert len(read_features(shop, categories=["department"], tag_separator=",").names) == 4
    noted = "department: cells such as 'Toys, Games' are one tag each; if they are several, give tag_separator=','"
    assert noted in read_features(shop, categories=["department"]).notes
    for separator in (",", ""):
        assert not any("one tag each" in note for note in
                       read_features(shop, categories=["department"], tag_separator=separator).notes)  # fmt: skip
    plain = read_features({"item": [1, 2], "tag": ["a|b", "c"]}, categories=["tag"], tag_separator="")
    assert plain.names == ["tag=a|b", "tag=c"]


def test_words_fold_case_and_accents():
    features = read_features({"item": [1, 2, 3], "t": ["Amélie CAFÉ", "amelie cafe", "ﬁlm Straße 東京"]}, text=["t"])
    first, second, third = dense(features, 1, 2, 3)
    assert (first == second).all()
    assert first @ third == 0
    assert "t=film" in features.names
    assert "t=東京" in features.names


def test_what_is_no_number_is_missing_and_noted():
    features = read_features({"item": [1, 2, 3, 4], "n": ["1", "2", "many", "nan"]}, numbers=["n"])
    assert (features.matrix.toarray().sum(axis=1) > 0).tolist() == [True, True, False, False]
    assert features.notes == ("n: 1 cell is no number", "n: 2 of 4 items have none")


def test_embeddings_of_different_lengths_are_an_error():
    table = {"item": ["a", "b", "c"], "e": [[1.0, 2.0], [2.0, 1.0], [1.0]]}
    with refused("received 2 numbers for most items and 1 for"):
        read_features(table, vectors=["e"])
    features = read_features({"item": [1, 2], "e": [[1.0, 2.0], [2.0, 1.0]]}, vectors=["e"])
    with refused("expected vectors of 2 numbers"):
        read_features({"item": [3, 4], "e": [[1.0], [2.0]]}, like=features)
    holes = {"item": [1, 2, 3], "e": [[1.0, 2.0], [2.0, float("nan")], [3.0, float("inf")]]}
    features = read_features({**holes, "item": [1, 2, 3, 4], "e": [*holes["e"], [0.0, 5.0]]}, vectors=["e"])
    assert (np.abs(features.matrix).sum(axis=1) > 0).tolist() == [True, False, False, True]
    assert "e: 2 of 4 items have none" in features.notes
    with refused("received other text"):
        read_features({"item": [3, 4], "e": ["one", "two"]}, vectors=["e"])


def test_columns_of_numbers_make_one_vector():
    table = {"item": [1, 2, 3], "e0": [1.0, 2.0, np.nan], "e1": [0.0, 1.0, 1.0], "e2": [5.0, 5.0, 5.0]}
    features = read_features(table, vectors=["e0", "e1", "e2"])
    assert [block.name for block in features.blocks] == ["e0"]
    assert features.notes == ("e0: 1 of 3 numbers are the same for all items", "e0: 1 of 3 items has none")
    a, b, c = dense(features, 1, 2, 3)
    np.testing.assert_allclose(a, -b)  # less their mean
    assert not c.any()


def test_vectors_with_gaps_are_missing_and_noted():
    vectors = [[1.0, 2.0], [float("nan"), 1.0], [2.0, float("inf")], [0.5, 1.0]]
    features = read_features({"item": [1, 2, 3, 4], "v": vectors}, vectors=["v"])
    assert "v: 2 of 4 items have none" in features.notes
    assert np.diff(features.matrix.indptr).tolist() == [2, 0, 0, 2]
