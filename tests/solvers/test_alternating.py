"""One step of the alternation, against the gradient of the dense objective."""

import numpy as np
import pytest

from offdiag.solvers import alternating
from tests.fixtures.low_rank_problems import DATA, every_kept_weight, product
from tests.laws import oracles
from tests.laws import oracles_low_rank as slow


@every_kept_weight
@pytest.mark.parametrize("refresh", [False, True])
def test_a_step_of_the_encoder_goes_down_the_slope_as_far_as_it_should(b, refresh):
    """Along the preconditioned gradient; J is a parabola there, whose minimum gives the length."""
    rng, dropout, l2 = np.random.default_rng(0), 0.4, 3.0
    G, P = oracles.gram(DATA["tastes"]), product(DATA["tastes"])
    lam, w = oracles.penalty(G, dropout, l2), dropout + b * (1 - dropout)
    problem = alternating.Problem(P, lam, 1 - b / w, (b - b**2) / w**2 * lam, np.zeros(12))
    U = rng.standard_normal((12, 3))
    state = alternating.v_step(problem, U, problem.times_h(U))
    H = G + np.diag(lam)
    np.testing.assert_allclose(state.U.T @ H @ state.U, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(state.V, slow.best_decoder(G, state.U, dropout, l2, b), atol=1e-9)
    value = slow.objective(G, state.U, state.V, dropout, l2, b)
    assert value == pytest.approx(state.J, rel=1e-12)

    moved, H_moved = alternating.u_step(problem, state, refresh=refresh)
    np.testing.assert_allclose(H_moved, H @ moved, atol=1e-9)
    step = moved - state.U
    slope = slow.gradients(G, state.U, state.V, dropout, l2, b)[0]
    downhill = -slope @ np.linalg.inv(state.V.T @ state.V) / np.diag(H)[:, None]
    length = (step * downhill).sum() / (downhill**2).sum()
    np.testing.assert_allclose(step, length * downhill, atol=1e-9)
    at = [slow.objective(G, state.U + x * step, state.V, dropout, l2, b) for x in (0.0, 0.5, 1.0)]
    bend, fall = 2 * (at[2] - 2 * at[1] + at[0]), 4 * at[1] - at[2] - 3 * at[0]
    assert -fall / (2 * bend) == pytest.approx(1 / alternating.RELAX, rel=1e-6)
