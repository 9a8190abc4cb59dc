"""The computations on [Mianjy18], with another seed and on wrong formulas."""

import numpy as np
import pytest

from offdiag.lab import dropout
from offdiag.papers import claims
from offdiag.papers.mianjy2018 import measure, surface

pytestmark = pytest.mark.slow


def test_another_seed_meets_the_expectations_of_the_theorems_too():
    bounds = claims.expected("mianjy2018", "small")
    numbers = measure.regulariser(1) | measure.optima(1)[0] | surface.surface(4, 1)[0]
    del numbers["white_formula_on_skewed_inputs"]
    assert [c.name for c in claims.check(numbers, bounds) if not c.ok] == []


def test_the_searched_minimum_is_not_the_closed_form_in_disguise():
    """A search on a wrong objective must not agree: the comparison of Theorem 3.6 can fail."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((4, 3))
    value = measure._search(M, 2, 1.0, False, rng)[2]
    assert value == pytest.approx(dropout.optimum(M, 2, 0.5).value, rel=1e-9)
    assert abs(value / dropout.optimum(M, 2, 0.45).value - 1) > 1e-3
