"""Theorem 4.3 without its condition: every critical point that is not optimal has a direction of descent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import root

from offdiag.lab import dropout, landscape, saddles
from tests.fixtures.mistakes import rejects

seeds = st.integers(0, 2**32 - 1)
drops = st.sampled_from([0.05, 0.3, 0.6, 0.9, 0.99])


def flat(F, K=None):
    return np.concatenate([part.ravel() for part in ((F,) if K is None else (F, K))])


def assert_escape_or_optimum(M, U, V, drop, best):
    """What the theorem says of a critical point; ``V`` is None for tied weights. Returns whether it is a saddle."""
    value = landscape.value(M, U, drop, V)
    found = saddles.escape(M, U, drop, V)
    H = landscape.hessian(M, U, drop, V)
    if found is None:
        assert value == pytest.approx(best, rel=1e-7, abs=1e-7 * float(np.sum(np.square(M))))
        return False
    step = flat(found.F, None if V is None else found.K)
    assert np.linalg.norm(step) == pytest.approx(1, rel=1e-12)
    assert found.curvature == pytest.approx(step @ H @ step, rel=1e-8, abs=1e-12 * np.abs(H).max())
    assert found.curvature < 0
    assert value > best
    return True


@given(seeds, st.integers(1, 4), st.integers(1, 3), drops, st.booleans())
def test_every_listed_tied_point_but_the_optimum_has_an_escape(seed, d, width, drop, indefinite):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    M = A + A.T if indefinite else A @ A.T
    best = dropout.optimum(M, width, drop, tied=True).value
    for point in landscape.critical_points(M, width, drop):
        sign = rng.choice([-1.0, 1.0], width)
        saddle = assert_escape_or_optimum(M, (point.U * sign)[:, rng.permutation(width)], None, drop, best)
        assert saddle == (point.kind == "strict saddle")


@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), drops)
def test_every_listed_untied_point_but_the_optimum_has_an_escape(seed, d1, d2, width, drop):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((d1, d2))
    best = dropout.optimum(M, width, drop).value
    for point in landscape.critical_points(M, width, drop, tied=False):
        c = np.exp(rng.standard_normal(width))  # u·c and v/c are the same net
        saddle = assert_escape_or_optimum(M, point.U * c, point.V / c, drop, best)
        assert saddle == (point.kind == "strict saddle")


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("side", ["U", "V"])
def test_units_that_only_read_or_only_write_do_not_block_the_way(length, side):
    """u = 0 with v in the null space of M − UVᵀ is critical, however long v is; M is 3×4 or 4×3, of rank 2."""
    M = np.zeros((3, 4) if side == "V" else (4, 3))
    M[0, 0], M[1, 1] = 3.0, 2.0
    for learnt in (False, True):
        U, V = np.zeros((M.shape[0], 2)), np.zeros((M.shape[1], 2))
        if learnt:
            U[0, 0] = V[0, 0] = np.sqrt(3 / (1 + 1))  # alone in its group: σ/(1 + λ)
        (V if side == "V" else U)[-1, 1] = length
        assert max(np.abs(part).max() for part in landscape.gradient(M, U, 0.5, V)) < 1e-12
        assert assert_escape_or_optimum(M, U, V, 0.5, dropout.optimum(M, 2, 0.5).value)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
def test_every_root_of_the_gradient_found_by_newton_obeys_the_theorem(tied):
    """An independent way to critical points: Newton from random starts, dropout far beyond the paper's condition."""
    rng, met = np.random.default_rng(0), 0
    for _ in range(150):
        d1, d2, width = rng.integers(1, 4, size=3)
        M = rng.standard_normal((d1, d1 if tied else d2))
        M = M + M.T if tied else M
        drop = rng.choice([0.1, 0.5, 0.9])
        best = dropout.optimum(M, int(width), drop, tied=tied).value

        def parts(theta, rows=d1, width=width, tied=tied):
            U = theta[: rows * width].reshape(rows, width)
            return U, None if tied else theta[rows * width :].reshape(-1, width)

        def slope(theta, M=M, drop=drop, parts=parts, tied=tied):
            found = landscape.gradient(M, parts(theta)[0], drop, parts(theta)[1])
            return flat(found) if tied else flat(*found)

        def jacobian(theta, M=M, drop=drop, parts=parts):
            return landscape.hessian(M, parts(theta)[0], drop, parts(theta)[1])

        start = rng.standard_normal(d1 * width if tied else (d1 + d2) * width)
        found = root(slope, start, jac=jacobian, method="lm", tol=1e-15)
        if np.abs(slope(found.x)).max() < 1e-10:
            met += assert_escape_or_optimum(M, *parts(found.x), drop, best)
    assert met > 20  # saddles among them


def test_the_three_steps_of_the_proof_have_the_curvature_it_says():
    M, lam = np.diag([5.0, 4.0, 3.0]), 0.5
    drop = lam / (1 + lam)
    U = np.zeros((3, 2))
    U[0, 0], U[1, 1] = np.sqrt(5 / (1 + lam)), np.sqrt(4 / (1 + lam))
    found = saddles.escape(M, U, drop)
    n = np.sum(U**2, axis=0)
    assert found.reason == "unequal units"
    assert found.curvature == pytest.approx(-4 * lam * (n[0] - n[1]) ** 2 / n.sum())
    n = 5 / (2 + lam)  # two units share the first direction
    U = np.sqrt(n) * np.array([[1.0, 1.0], [0, 0], [0, 0]])
    found = saddles.escape(M, U, drop)
    assert found.reason == "unused unit"
    assert found.curvature == pytest.approx(4 * (lam * n - 4))
    U = np.sqrt(3 / (1 + lam)) * np.array([[0.0], [0], [1]])  # one unit, on the worst direction
    found = saddles.escape(M, U, drop)
    assert found.reason == "better direction"
    assert found.curvature == pytest.approx(-4 * (5 - 3))


def test_without_dropout_tied_nets_have_an_escape_too():
    M = np.diag([2.0, 1.0])
    assert saddles.escape(M, [[0.0], [1.0]], 0.0).reason == "better direction"
    assert saddles.escape(M, [[np.sqrt(2)], [0.0]], 0.0) is None
    assert saddles.escape(np.diag([2.0, 1.0, -3.0]), np.zeros((3, 2)), 0.0).reason == "unused unit"


def test_zero_and_negative_targets_are_met_by_the_empty_net():
    assert saddles.escape(-np.eye(2), np.zeros((2, 2)), 0.5) is None
    assert saddles.escape(np.zeros((2, 3)), np.zeros((2, 2)), 0.5, np.zeros((3, 2))) is None


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_escape_does_not_depend_on_the_unit_of_measurement(scale):
    M = np.diag([5.0, 4.0, 3.0])
    kinds = [saddles.escape(scale * M, p.U, 0.4) for p in landscape.critical_points(scale * M, 2, 0.4)]
    assert [k and k.reason for k in kinds] == [
        k and k.reason for k in (saddles.escape(M, p.U, 0.4) for p in landscape.critical_points(M, 2, 0.4))
    ]


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: saddles.escape(np.eye(2), np.ones((2, 1)), 0.5), "not a critical point"),
    (lambda: saddles.escape(np.eye(2), np.zeros((2, 1)), 0.0, np.zeros((2, 1))), "drop > 0"),
    (lambda: saddles.curvature(np.eye(2), np.zeros((2, 1)), 0.5, np.zeros((2, 2))), "F must be 2×1"),
)
