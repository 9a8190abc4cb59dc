"""Texts as bytes and offsets come back as they were, and arrays that are no texts are rejected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.data.texts import Texts


@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=8), max_size=10))
def test_texts_come_back_as_they_were(texts):
    packed = Texts.of(texts)
    packed.check(len(texts), "titles")
    assert packed.to_list() == texts
    assert [packed.at(place) for place in range(len(texts))] == texts


@pytest.mark.parametrize(
    ("offsets", "utf8", "words"),
    [
        ([0, 1], b"ab", "offsets"),
        ([1, 2], b"ab", "offsets"),
        ([0, 2, 1, 2], b"ab", "offsets"),
        ([0, 1, 2], "é".encode(), "begins within a character"),
        ([0, 1], b"\xff", "utf-8"),
        ([0], b"", "not 1 texts"),
        ([], b"", "not 0 texts"),
    ],
)
def test_arrays_that_are_no_texts_are_rejected(offsets, utf8, words):
    n = {("not 1 texts"): 1, ("not 0 texts"): 0}.get(words, len(offsets) - 1)
    made = Texts(np.array(offsets, dtype=np.int64), np.frombuffer(utf8, dtype=np.uint8))
    with pytest.raises(ValueError, match=words):
        made.check(n, "titles")


def test_arrays_of_another_type_are_rejected():
    whole = Texts.of(["a"])
    for wrong in (whole._replace(offsets=whole.offsets.astype(np.int32)), whole._replace(utf8=whole.utf8.view("i1"))):
        with pytest.raises(ValueError, match="texts"):
            wrong.check(1, "titles")
