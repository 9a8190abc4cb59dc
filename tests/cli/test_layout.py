"""Text in the width of a terminal: whole words, hanging indents, aligned columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from offdiag.cli import layout

words = st.text(st.sampled_from("abc–映é"), min_size=1, max_size=9)
texts = st.lists(words, max_size=12).map(" ".join)


@given(texts, st.integers(1, 40), st.integers(0, 8), st.integers(0, 4))
def test_wrapped_text_has_the_same_words_in_lines_that_fit(text, width, hang, indent):
    lines = layout.fill(" " * indent + text, width, hang)
    assert " ".join(lines).split() == text.split(), "every word is whole and in its place"
    for line in lines:
        assert cell_len(line) <= width or len(line.split()) <= 1, "only a word that is too long sticks out"
    assert all(line.startswith(" " * hang) for line in lines[1:])


def test_words_kept_together_are_not_separated_by_a_line():
    parts = ", ".join(map(layout.together, ["dropout 0.65 (auto)", "l2 177.8 (auto)", "user_power 0.5 (auto)"]))
    assert layout.fill(parts, 40) == ["dropout 0.65 (auto), l2 177.8 (auto),", "user_power 0.5 (auto)"]
    assert layout.together("a " * 30) == "a " * 30, "more words than a line may be broken"


def test_pairs_hang_below_their_values_and_a_long_name_stands_alone():
    rows = [("model", "EDLAE"), ("settings", "one two three"), ("a very long name", "x")]
    assert layout.pairs(rows, 20, most=8) == [
        "model     EDLAE",
        "settings  one two",
        "          three",
        "a very long name",
        "          x",
    ]


def test_a_table_is_aligned_and_wraps_its_widest_column():
    head, body = layout.table(["name", "score"], [["The Amber Promise", "1.5"], ["Zed", "-10.25"]], [False, True], 18)
    assert head == ["name         score"]
    assert body == ["─" * 18, "The Amber      1.5", "Promise", "Zed         -10.25"]


def test_a_table_without_room_becomes_blocks_of_pairs():
    head, body = layout.table(["id", "score"], [["abcdefghijkl", "1.5"], ["b", "2"]], [False, True], 14)
    assert head == []
    assert body == ["id", *["       abcdefghijkl"], "score  1.5", "", "id     b", "score  2"]


@given(st.lists(st.tuples(texts, texts, words), min_size=1, max_size=6), st.integers(58, 80))
def test_no_cell_of_a_table_is_lost_or_broken(rows, width):
    head, body = layout.table(["name", "what", "x"], rows, [False, False, True], width)
    shown = sorted(word for line in [*head, *body] for word in line.split() if "─" not in word)
    assert shown == sorted(word for row in [("name", "what", "x"), *rows] for cell in row for word in cell.split())
    assert all(cell_len(line) <= width for line in [*head, *body])


@pytest.mark.parametrize(("width", "room"), [(9, True), (8, False)])
def test_a_table_fits_if_nothing_must_be_wrapped(width, room):
    assert layout.fits(["a", "b"], [["abcd", "c d"]], width) is room
