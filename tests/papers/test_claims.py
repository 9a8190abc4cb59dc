"""Numbers against their expected values."""

import math

import pytest

import offdiag as od
from offdiag.papers import claims

PAPERS = ("mianjy2018", "pal2020", "pretorius2018")


@pytest.mark.parametrize(
    ("bound", "inside", "outside"),
    [
        ({"value": 2.0, "tolerance": 0.5}, [1.5, 2.5, 2.0], [1.49, 2.51, math.nan, math.inf]),
        ({"at_most": 1.0}, [1.0, -5.0], [1.001, math.nan, -math.inf]),
        ({"at_least": 1.0}, [1.0, 7.0], [0.999, math.nan, math.inf]),
    ],
)
def test_a_number_is_met_inside_its_bound_only(bound, inside, outside):
    bounds = {"x": {"why": "because"} | bound}
    assert all(claims.check({"x": value}, bounds)[0].ok for value in inside)
    assert not any(claims.check({"x": value}, bounds)[0].ok for value in outside)


def test_an_unexpected_number_is_an_error():
    with pytest.raises(od.OffdiagError, match="no expectation is written down for other"):
        claims.check({"other": 1.0}, {})


def test_a_number_that_was_not_computed_is_marked_as_not_run():
    (check,) = claims.check({}, {"x": {"why": "because", "at_most": 1.0}})
    assert (check.verdict, check.shown, check.value) == ("not run", "–", None)
    assert claims.check({"x": 2.0}, {"x": {"why": "because", "at_most": 1.0}})[0].verdict == "NO"


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("size", ["small", "paper"])
def test_every_expectation_says_what_and_why(paper, size):
    bounds = claims.expected(paper, size)
    assert len(bounds) > 5
    for name, bound in bounds.items():
        assert len(bound["why"]) >= 8, name
        kinds = [set(bound) >= {"value", "tolerance"}, "at_most" in bound, "at_least" in bound]
        assert sum(kinds) == 1, name


def test_two_paired_standard_errors_decide():
    assert claims.alike(claims.Gap(0.0199, 0.01)) == claims.alike(claims.Gap(-0.0199, 0.01)) == "holds"
    assert claims.alike(claims.Gap(0.0201, 0.01)) == claims.alike(claims.Gap(-0.0201, 0.01)) == "does not hold"
