"""The error on users left out, against refitting without each of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.solvers import leave_one_out


def refit_loss(X, weight, l2):
    """The definition: for each user, EASE weights without that user predict each of their items from the others."""
    m = X.shape[1]
    total = []
    for u, x in enumerate(X):
        others = np.arange(len(X)) != u
        G = (X[others].T * weight[others]) @ X[others]
        error = 0.0
        for i in range(m):
            rest = np.arange(m) != i
            b = np.linalg.solve(G[np.ix_(rest, rest)] + l2 * np.eye(m - 1), G[rest, i])
            error += (x[i] - x[rest] @ b) ** 2
        total.append(error / (x @ x))
    return float(np.mean(total))


@pytest.mark.parametrize("l2", [0.5, 4.0, 60.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_equals_refitting_without_each_user(l2, weighted):
    rng = np.random.default_rng(0)
    X = (rng.random((25, 6)) < 0.5).astype(np.float64)
    X[:, 0] = 1  # no empty row
    weight = rng.random(25) + 0.5 if weighted else np.ones(25)
    G = (X.T * weight) @ X
    assert leave_one_out.user_loss(G, X.astype(np.float32), weight)(l2) == pytest.approx(
        refit_loss(X, weight, l2), rel=1e-4
    )


@given(st.floats(-3.4, 11.4))  # half a step from either end two grid points tie, and the end itself is the answer
def test_the_minimum_of_a_parabola_in_log_l2_is_found(where):
    found = leave_one_out.minimum(lambda l2: (np.log2(l2 / 7.0) - where) ** 2, 7.0)
    assert found == pytest.approx(7.0 * 2.0**where, rel=1e-6)


def test_a_loss_that_only_falls_ends_at_the_edge():
    assert leave_one_out.minimum(lambda l2: -l2, 1.0) == 2.0**12
    assert leave_one_out.minimum(lambda l2: l2, 1.0) == 2.0**-4
