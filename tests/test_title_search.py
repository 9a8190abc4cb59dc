"""Titles are found in spite of typing errors, and the fast distances are those of the textbook."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag import title_search
from offdiag.title_search import CANDIDATES, TitleIndex, fold

FILMS = [
    "Alien", "Aliens", "Brazil", "Fullmetal Alchemist: Brotherhood", "The Matrix", "The Matrix Reloaded", "Amélie",
    "鋼の錬金術師", None, "", "300", "1984", "Crouching Tiger, Hidden Dragon", "Se7en", "***",
]  # fmt: skip


def found(text, limit=3):
    return [FILMS[place] for place, _ in TitleIndex(FILMS).find(text, limit)]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("alien", "Alien"), ("ALIENS", "Aliens"), ("amelie", "Amélie"), ("brasil", "Brazil"), ("barzil", "Brazil"),
        ("fulmetal alchemst", "Fullmetal Alchemist: Brotherhood"), ("alchemist", "Fullmetal Alchemist: Brotherhood"),
        ("brotherhood fullmetal", "Fullmetal Alchemist: Brotherhood"), ("matrix", "The Matrix"),
        ("matrix reloadde", "The Matrix Reloaded"), ("錬金術師", "鋼の錬金術師"), ("300", "300"), ("198", "1984"),
        ("hiden dragn", "Crouching Tiger, Hidden Dragon"), ("b", "Brazil"), ("se7en!", "Se7en"),
    ],
)  # fmt: skip
def test_the_title_that_is_meant_comes_first(text, title):
    assert found(text)[0] == title


@pytest.mark.parametrize("text", ["", "   ", "!?", "xyzxyz", "q", "\ud800"])
def test_nothing_is_found_for_other_text(text):
    assert found(text) == []


def test_only_the_same_words_score_one():
    index = TitleIndex(FILMS)
    assert index.find("the matrix!", 2)[0] == (4, 1.0)
    assert index.find("alien", 2)[1][1] < 1
    assert all(0.4 <= score < 1 for _, score in index.find("matrix", 9))
    assert index.find("alien", 0) == []


def test_equal_titles_are_in_the_order_given():
    index = TitleIndex(["Emma", "Alien", "Emma"])
    assert index.find("emma", 5) == [(0, 1.0), (2, 1.0)]


def test_an_index_of_nothing_finds_nothing():
    assert TitleIndex([]).find("alien", 3) == []
    assert TitleIndex([None, ""]).find("alien", 3) == []


def test_of_many_alike_the_nearest_is_among_the_candidates():
    many = [f"Star Trek {number:04} the longer name of an episode" for number in range(4 * CANDIDATES)]
    index = TitleIndex([*many, "Star Trek"])
    assert index.find("star trk", 1)[0][0] == len(many)
    assert index.find("Star Trek 0123 the longer nme of an episode", 1)[0][0] == 123


def test_long_queries_and_titles_are_cut():
    index = TitleIndex(["word " * 10_000, "Alien"])
    assert index.find("alien " * 10_000, 1)[0][0] == 1
    assert index.find("word", 1)[0][0] == 0


@given(st.lists(st.text("ab é", max_size=8), min_size=1, max_size=6), st.text("ab é", min_size=1, max_size=8))
def test_a_title_typed_in_full_is_found(titles, more):
    index = TitleIndex([*titles, more])
    best = index.find(more, 1)
    assert best == [] if not fold(more) else best[0][1] == 1.0 and fold([*titles, more][best[0][0]]) == fold(more)


def slow_distance(word, text):
    """Optimal string alignment to the best part of the text, from its definition."""
    table = np.zeros((len(word) + 1, len(text) + 1), dtype=int)
    table[:, 0] = np.arange(len(word) + 1)
    for i in range(1, len(word) + 1):
        for j in range(1, len(text) + 1):
            choices = [
                table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (word[i - 1] != text[j - 1]),
            ]  # fmt: skip
            if i > 1 and j > 1 and word[i - 1] == text[j - 2] and word[i - 2] == text[j - 1]:
                choices.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(choices)
    return table[-1].min()


@given(st.text("abc ", min_size=1, max_size=6), st.lists(st.text("abc ", max_size=9), min_size=1, max_size=4))
def test_distances_are_those_of_the_definition(word, texts):
    width = max(map(len, texts))
    letters = np.array([[ord(c) for c in text] + [0] * (width - len(text)) for text in texts], dtype=np.uint32)
    fast = title_search._distances(word, letters.reshape(len(texts), width))
    assert fast.tolist() == [slow_distance(word, text.ljust(width, "\0")) for text in texts]
