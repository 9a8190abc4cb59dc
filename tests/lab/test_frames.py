"""Projections that average to a diagonal matrix: found where they exist."""

import numpy as np
import pytest

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


def test_two_projections_cannot_average_to_any_diagonal():
    _, residual = frames.averaging(np.array([0.9, 0.5, 0.35, 0.25]), 2, 2)
    assert residual > 1e-3
