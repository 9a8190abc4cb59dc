"""The theorems of Steck (2020): the comparisons can fail."""

import numpy as np
import pytest

from offdiag.papers import claims
from offdiag.papers.steck2020 import theorem_chapters as theorems
from tests.laws import oracles

RNG = np.random.default_rng(3)
X = (RNG.random((9, theorems.ITEMS)) < 0.5).astype(float)
B = RNG.standard_normal((theorems.ITEMS, theorems.ITEMS))


@pytest.mark.parametrize(("dropout", "kept_weight"), [(0.3, 0.0), (0.3, 0.4), (0.6, 1.0)])
def test_the_formula_is_that_of_the_oracle(dropout, kept_weight):
    expected = oracles.objective(X.T @ X, B, dropout, 0.5, kept_weight)
    assert theorems.formula(X, B, dropout, kept_weight, 0.5) == pytest.approx(expected, rel=1e-12)


def test_another_dropout_or_weight_is_noticed():
    at = theorems.enumerated(X, B, 0.3, 0.4)
    assert at == pytest.approx(theorems.formula(X, B, 0.3, 0.4), rel=1e-12)
    assert abs(at / theorems.formula(X, B, 0.31, 0.4) - 1) > 1e-3
    assert abs(at / theorems.formula(X, B, 0.3, 0.5) - 1) > 1e-3


def test_no_matrix_is_below_the_minimum():
    best = theorems.minimum(X, 0.4, 0.3)
    low = theorems.formula(X, best, 0.4, 0.3, theorems.L2)
    for _ in range(20):
        other = best + 0.01 * RNG.standard_normal(best.shape)
        assert theorems.formula(X, other, 0.4, 0.3, theorems.L2) > low


@pytest.mark.slow
def test_another_seed_meets_the_expectations_too():
    numbers = theorems.theorems(7).numbers
    bounds = claims.expected("steck2020", "small")
    assert [c.name for c in claims.check(numbers, bounds) if not c.ok] == []
