"""How values are written, wherever they are printed."""

import numpy as np
import pytest

from offdiag import wording


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (12_345, "12.3 kB"),
        (999_700, "1 MB"),
        (1_620_000_000, "1.62 GB"),
        (3e15, "3e+03 TB"),
    ],
)
def test_sizes_have_three_digits_and_a_unit(n_bytes, text):
    assert wording.size(n_bytes) == text


def test_an_error_is_written_only_where_there_is_one():
    assert wording.with_error(0.12345, 0.00123) == "0.1235 ± 0.0012"
    assert wording.with_error(0.12345, None) == wording.with_error(0.12345, float("nan")) == "0.1235"
    assert wording.with_error(0.5, 0.1, "+") == "+0.5000 ± 0.1000"


def test_a_p_value_is_never_zero():
    assert wording.p_value(0.0123) == "p = 0.012"
    assert wording.p_value(0.0) == "p < 0.0001"
    assert wording.p_value(float("nan")) == "no test possible"


def test_long_lists_and_texts_are_cut():
    assert wording.shorten(["a", 1]) == "'a', 1"
    assert wording.shorten(list(range(12)), 3) == "0, 1, 2 and 9 more"
    assert wording.cut("x" * 10, 10) == "x" * 10
    assert wording.cut("x" * 11, 10) == "x" * 7 + "…"


def test_an_error_of_another_library_becomes_one_line():
    assert wording.one_line(ValueError("a\n  b")) == "a b"
    assert wording.one_line(KeyError()) == "KeyError"
    assert len(wording.one_line(ValueError("word " * 100))) == 200


def test_plain_values_are_what_json_can_write():
    value = {1: np.float32(0.5), "a": np.arange(2), "b": (np.inf, None, True), "c": object}
    assert wording.plain(value, lambda text: "text") == {"1": 0.5, "a": [0, 1], "b": [None, None, True], "c": "text"}


def test_a_mistyped_word_is_answered_with_the_nearest_names():
    known = ["edlae", "dlae", "ease", "slim"]
    assert wording.suggestion("edlea", known) == "; did you mean 'edlae'?"
    assert wording.suggestion("EDLAE", known).startswith("; did you mean 'edlae'")
    assert wording.suggestion("magic", known) == ""
