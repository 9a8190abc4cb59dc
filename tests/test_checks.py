"""Checks of single values: what passes, what is rejected, and what the message says."""

import math

import numpy as np
import pytest

from offdiag import checks
from offdiag.errors import OffdiagError


@pytest.mark.parametrize("value", [0, 3, np.int64(3), np.uint8(3)])
def test_whole_numbers_pass_as_plain_integers(value):
    assert checks.whole("k", value) == int(value)
    assert type(checks.whole("k", value)) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, -1, math.nan])
def test_other_values_are_not_whole_numbers(value):
    with pytest.raises(OffdiagError, match=r"k must be a whole number of at least 0, received "):
        checks.whole("k", value)


def test_a_whole_number_stays_below_its_limit():
    assert checks.whole("k", 5, 1, 5) == 5
    with pytest.raises(OffdiagError, match="k must be a whole number from 1 to 5, received 6"):
        checks.whole("k", 6, 1, 5)


@pytest.mark.parametrize(
    ("bounds", "good", "bad", "expected"),
    [
        ({"low": 0, "high": 1}, [0, 1, 0.5, np.float32(0.5)], [-0.1, 1.1], r"number in \[0, 1\]"),
        ({"low": 0, "high": 1, "below": True}, [0], [1], r"number in \[0, 1\)"),
        ({"low": 0, "high": 1, "above": True}, [1], [0], r"number in \(0, 1\]"),
        ({"low": 0}, [0, 1e300], [math.inf, -1], r"number in \[0, inf\)"),
        ({}, [-1e300, 1e300], [math.inf, -math.inf], "finite number"),
        ({"low": 0, "auto": True}, [2], ["Auto", -1], r"number in \[0, inf\) or 'auto'"),
    ],
)
def test_numbers_lie_between_their_bounds(bounds, good, bad, expected):
    for value in good:
        assert checks.number("x", value, **bounds) == value
        assert type(checks.number("x", value, **bounds)) is float
    for value in [*bad, math.nan, True, "1", None]:
        with pytest.raises(OffdiagError, match=f"x must be a {expected}, received "):
            checks.number("x", value, **bounds)


def test_auto_passes_only_where_it_may():
    assert checks.number("x", "auto", auto=True) == "auto"
    with pytest.raises(OffdiagError):
        checks.number("x", "auto")


def test_words_and_flags():
    assert checks.choice("dtype", "float32", ("float32", "float64")) == "float32"
    with pytest.raises(OffdiagError, match="dtype must be 'float32' or 'float64', received 'f4'"):
        checks.choice("dtype", "f4", ("float32", "float64"))
    assert checks.flag("on", np.True_) is True
    with pytest.raises(OffdiagError, match="on must be True or False, received 1"):
        checks.flag("on", 1)


def test_a_message_may_name_another_value_and_end_in_a_hint():
    with pytest.raises(OffdiagError, match="keep must be a whole number of at least 1 or None, received 0; e.g. 5"):
        checks.whole("keep", 0, 1, other=" or None", hint="; e.g. 5")
    with pytest.raises(OffdiagError, match=r"share must be a number in \[0, 1\], received 2; e.g. 0.5"):
        checks.number("share", 2, 0, 1, hint="; e.g. 0.5")


def test_a_bound_may_be_beyond_the_type_of_the_number():
    assert checks.number("x", np.float32(2), 0, 1e100) == 2.0
