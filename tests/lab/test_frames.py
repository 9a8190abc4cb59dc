"""Projections that average to a diagonal matrix: found where they exist."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offdiag.lab import frames


@pytest.mark.parametrize(("n", "s", "k"), [(4, 1, 4), (5, 1, 9), (60, 1, 60), (5, 2, 6), (6, 3, 7)])
def test_projections_average_to_the_diagonal(n, s, k):
    t = np.random.default_rng(n).random(n) + (0.5 if s > 1 else 1e-6)
    t *= s / t.sum()
    Q, residual = frames.averaging(t, s, k)
    assert residual < 1e-12
    assert Q @ Q.T / k == pytest.approx(np.diag(t), abs=1e-11)
    for block in np.split(Q, k, axis=1):
        assert block.T @ block == pytest.approx(np.eye(s), abs=1e-11)


def weights(rng, n, s):
    """Random t with 0 < t < 1 and sum s."""
    t = rng.random(n) + 0.05
    while True:
        t *= s / t.sum()
        if t.max() < 0.99:
            return t
        t = np.minimum(t, 0.9)


def test_two_projections_cannot_average_to_any_diagonal():
    t = np.array([0.9, 0.5, 0.35, 0.25])
    assert not frames.attainable(t, 2, 2)
    assert frames.averaging(t, 2, 2)[1] > 1e-3


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_two_projections_need_eigenvalues_in_pairs(seed, paired):
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.05, 0.45, 3)
    t = np.concatenate([0.5 + c, 0.5 - c])
    if not paired:
        t[[0, 1]] += [0.04, -0.04]
    assert frames.attainable(t, 3, 2) is paired


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_what_is_attainable_is_found_and_what_is_not_is_not(seed):
    """The rule against the search by alternating projections."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    s = int(rng.integers(1, n))
    t = weights(rng, n, s)
    residual = frames.averaging(t, s, k, iterations=1000, patient=True)[1] if n <= k * s else np.inf
    if frames.attainable(t, s, k):
        assert residual < 3e-3  # slow near the border
    else:
        assert residual > 1e-9


@pytest.mark.parametrize(("n", "s", "k"), [(5, 1, 3), (5, 2, 2), (5, 4, 4), (7, 5, 3)])
def test_too_few_blocks_for_the_dimension_are_refused(n, s, k):
    assert frames.attainable(np.full(n, s / n), s, k) is False  # n > k·s, or n > k·(n − s)


def test_whole_and_absent_directions_are_split_off():
    t = np.array([1.0, 0.0, 0.5, 0.3, 0.2])
    assert frames.attainable(t, 2, 3)
    assert not frames.attainable(t, 2, 2)
    assert frames.attainable(np.array([1.0, 1.0, 0.0]), 2, 1)
    assert not frames.attainable(np.array([1.0, 0.0]), 2, 1)


def test_beyond_the_size_of_the_program_the_rule_is_silent():
    assert frames.attainable(np.full(100, 0.1), 10, 30) is None
    assert frames.attainable(np.full(100, 0.01), 1, 100) is True
    assert frames.attainable(np.full(100, 0.1), 10, 9) is False


def test_complements_are_built_by_the_same_rotation():
    t = 1 - np.array([0.4, 0.3, 0.2, 0.07, 0.03])
    Q, residual = frames.averaging(t, 4, 5)  # alternating projections would stall here
    assert residual < 1e-12
    for block in np.split(Q, 5, axis=1):
        assert block.T @ block == pytest.approx(np.eye(4), abs=1e-12)
