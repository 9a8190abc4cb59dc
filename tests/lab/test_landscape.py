"""The surface under dropout: derivatives against finite differences, critical points against searches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import root

from offdiag.errors import OffdiagError
from offdiag.lab import dropout, landscape
from tests.fixtures.mistakes import rejects

seeds = st.integers(0, 2**32 - 1)


def problem(seed, d1, d2, width, tied):
    rng = np.random.default_rng(seed)
    if tied:
        A = rng.standard_normal((d1, d1))
        return A @ A.T / d1, rng.standard_normal((d1, width)), None
    return rng.standard_normal((d1, d2)), rng.standard_normal((d1, width)), rng.standard_normal((d2, width))


def unpacked(theta, U, V):
    return theta[: U.size].reshape(U.shape), None if V is None else theta[U.size :].reshape(V.shape)


def flat(slope):
    return np.concatenate([part.ravel() for part in slope]) if isinstance(slope, tuple) else slope.ravel()


@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.4]), st.booleans())
def test_gradient_and_hessian_are_those_of_finite_differences(seed, d1, d2, width, drop, tied):
    M, U, V = problem(seed, d1, d2, width, tied)
    theta = flat((U,) if tied else (U, V))
    slope, H = flat(landscape.gradient(M, U, drop, V)), landscape.hessian(M, U, drop, V)
    h = 1e-5
    for k in range(theta.size):
        step = np.zeros_like(theta)
        step[k] = h
        (a, b), (c, d) = unpacked(theta + step, U, V), unpacked(theta - step, U, V)
        up, down = landscape.value(M, a, drop, b), landscape.value(M, c, drop, d)
        assert slope[k] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)
        change = flat(landscape.gradient(M, a, drop, b)) - flat(landscape.gradient(M, c, drop, d))
        assert np.allclose(H[k], change / (2 * h), rtol=1e-5, atol=1e-5)


def test_the_value_is_the_objective_of_dropout():
    M, U, V = problem(0, 3, 2, 4, tied=False)
    assert landscape.value(M, U, 0.3, V) == pytest.approx(dropout.objective(M, U, V, 0.3), rel=1e-13)
    M, U, _ = problem(0, 3, 3, 4, tied=True)
    assert landscape.value(M, U, 0.3) == pytest.approx(dropout.objective(M, U, U, 0.3), rel=1e-13)


@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.3, 0.9]), st.booleans())
def test_all_critical_points_but_the_optimum_are_strict_saddles(seed, d1, d2, width, drop, tied):
    M, _, _ = problem(seed, d1, d2, width, tied)
    points = landscape.critical_points(M, width, drop, tied)
    best = dropout.optimum(M, width, drop, tied)
    assert points[0].value == pytest.approx(best.value, rel=1e-9, abs=1e-12)
    scale = np.abs(M).max()
    for point in points:
        V = None if tied else point.V
        assert np.abs(flat(landscape.gradient(M, point.U, drop, V))).max() < 1e-10 * max(scale**2, scale)
        assert point.value == pytest.approx(landscape.value(M, point.U, drop, V), rel=1e-12)
        assert point.kind in ("global minimum", "strict saddle")
        assert (point.signature.negative > 0) == (point.kind == "strict saddle")
        if point.kind == "global minimum":
            assert point.equalised
    assert [p.value for p in points] == sorted(p.value for p in points)


@pytest.mark.parametrize("drop", [0.2, 0.6])
def test_no_root_of_the_gradient_is_missing_from_the_list(drop):
    """Newton from many starts ends at a listed value: the enumeration is complete."""
    M = np.diag([3.0, 2.0, 1.0])
    values = np.array([p.value for p in landscape.critical_points(M, 2, drop)])
    rng, met = np.random.default_rng(0), set()
    for _ in range(150):
        found = root(
            lambda theta: flat(landscape.gradient(M, theta.reshape(3, 2), drop)),
            rng.standard_normal(6) * 1.5,
            jac=lambda theta: landscape.hessian(M, theta.reshape(3, 2), drop),
            tol=1e-13,
        )
        U = found.x.reshape(3, 2)
        if np.abs(landscape.gradient(M, U, drop)).max() > 1e-8:
            continue
        gaps = np.abs(values - landscape.value(M, U, drop))
        assert gaps.min() < 1e-8
        met.add(int(gaps.argmin()))
    assert len(met) >= 5  # saddles among them


def test_a_scalar_with_two_units_has_nine_points_in_three_families():
    points = landscape.critical_points([[2.0]], 2, 0.5)
    assert [p.groups for p in points] == [(((0,), 2),), (((0,), 1),), ()]
    assert [p.kind for p in points] == ["global minimum", "strict saddle", "strict saddle"]
    assert [(p.signature.negative, p.signature.positive) for p in points] == [(0, 2), (1, 1), (2, 0)]
    assert [p.equalised for p in points] == [True, False, True]
    assert np.allclose(np.abs(points[0].U), np.sqrt(2 / 3))


@pytest.mark.parametrize("lam", [0.3, 2.0])
def test_a_new_direction_leads_down_from_an_equalised_saddle(lam):
    """Why the condition of the theorem is unnecessary: the curvature along t·w·aᵀ is 4(λn − σ)."""
    sigma, width, drop = np.array([5.0, 4.0, 3.0]), 3, lam / (1 + lam)
    M, rank = np.diag(sigma), dropout.optimum(np.diag(sigma), 3, drop, tied=True).rank
    assert rank > 1
    for point in landscape.critical_points(M, width, drop):
        used = len(point.groups[0][0]) if point.groups else 0
        if point.groups == ((tuple(range(used)), width),) and used < rank:
            a = np.linalg.svd(point.U)[2][-1]  # orthogonal to the rows of U
            step = np.outer(np.eye(3)[used], a).ravel()
            curvature = step @ landscape.hessian(M, point.U, drop) @ step
            n = float(np.sum(point.U**2)) / width
            assert curvature == pytest.approx(4 * (lam * n - sigma[used]), rel=1e-9)
            assert curvature < 0
            break
    else:
        pytest.fail("no such point was listed")


def test_zero_and_negative_matrices_have_the_origin_only():
    for M in (np.zeros((2, 2)), -np.eye(2)):
        (only,) = landscape.critical_points(M, 2, 0.3)
        assert only.kind == "global minimum"
        assert not only.U.any()


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=6), st.integers(1, 6), st.sampled_from([0.05, 0.3, 0.7]))
def test_the_condition_of_the_theorem_is_full_rank_of_the_optimum(spectrum, width, drop):
    M = np.diag(sorted(spectrum, reverse=True))
    condition = landscape.all_minima_global(M, width, drop)
    lam = drop / (1 - drop)
    if abs(lam - condition.bound) > 1e-6 * lam:
        assert condition.holds == bool(condition) == (dropout.optimum(M, width, drop, tied=True).rank == width)


def test_the_bound_has_its_edges():
    holds, bound = landscape.all_minima_global(np.diag([3.0, 2.0, 1.0]), 3, 0.1)
    assert (holds, bound) == (True, pytest.approx(3 * 1 / 3))
    assert landscape.all_minima_global(np.eye(3), 3, 0.999) == (True, np.inf)
    assert landscape.all_minima_global(np.eye(3), 4, 0.1) == (False, 0.0)
    assert not landscape.all_minima_global(np.zeros((2, 2)), 1, 0.1)
    assert landscape.all_minima_global([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]], 2, 0.1).bound == pytest.approx(2)
    assert landscape.all_minima_global(np.diag([1.0, -2.0]), 2, 0.1, tied=True).bound == 0
    assert landscape.all_minima_global(np.diag([2.0, -2.0]), 2, 0.1) == (True, np.inf)  # singular values, untied
    assert landscape.all_minima_global(np.diag([1.0, -2.0]), 2, 0.1).bound == pytest.approx(2)


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_contours_and_their_critical_points(lam):
    drop = lam / (1 + lam)
    found = landscape.contours(2.0, drop, points=41)
    assert found.values.shape == (41, 41)
    U = np.array([[found.w[7], found.w[30]]])
    assert found.values[30, 7] == pytest.approx(landscape.value([[2.0]], U, drop), rel=1e-12)
    best = dropout.optimum([[2.0]], 2, drop, tied=True).value
    assert found.values.min() >= best
    for points, signs in ((found.minima, (0, 2)), (found.saddles, (1, 1)), (found.maxima, (2, 0))):
        assert len(points) in (1, 4)
        for w in points:
            assert np.abs(landscape.gradient([[2.0]], w[None], drop)).max() < 1e-12
            s = landscape.signature(landscape.hessian([[2.0]], w[None], drop))
            assert (s.negative, s.positive) == signs
    assert all(landscape.value([[2.0]], w[None], drop) == pytest.approx(best) for w in found.minima)


def test_contours_without_dropout_have_a_circle_of_minima():
    ring = landscape.contours(2.0, 0.0)
    assert np.allclose(np.linalg.norm(ring.minima, axis=1), np.sqrt(2))
    assert len(ring.saddles) == 0
    assert np.array_equal(landscape.contours(-1.0, 0.3).minima, np.zeros((1, 2)))
    assert np.array_equal(landscape.contours(0.0, 0.3, reach=2.0).w[[0, -1]], [-2.0, 2.0])


def test_the_signature_counts_signs():
    found = landscape.signature(np.diag([-2.0, 1e-13, 3.0, 4.0]))
    assert (found.negative, found.zero, found.positive, found.smallest) == (1, 1, 2, -2.0)
    assert landscape.signature(np.zeros((2, 2))).zero == 2


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: landscape.value([[1.0, 2.0], [0.0, 1.0]], np.ones((2, 1)), 0.5), "symmetric"),
    (lambda: landscape.gradient(np.eye(2), np.ones((3, 1)), 0.5), "U must be 2×any"),
    (lambda: landscape.hessian(np.eye(2), np.ones((2, 1)), 1.0), "drop"),
    (lambda: landscape.critical_points(np.eye(2), 0, 0.5), "width"),
    (lambda: landscape.all_minima_global([[np.nan]], 1, 0.5), "NaN"),
    (lambda: landscape.contours(float("nan"), 0.5), "NaN"),
    (lambda: landscape.all_minima_global([[0.0, 1.0], [0.0, 0.0]], 1, 0.5, tied=True), "symmetric"),
    (lambda: landscape.contours(1.0, 0.5, reach=0.0), "reach"),
    (lambda: landscape.contours(1.0, 0.5, reach="a"), "reach, the half width of the grid, .* received 'a'"),
    (lambda: landscape.contours("a", 0.5), "m must be a matrix of numbers"),
    (lambda: landscape.value(np.eye(2), [[1.0], [1.0, 2.0]], 0.5), "U must be a matrix .* equal length"),
    (lambda: landscape.value(np.eye(1), [[1e90]], 0.5), "beyond the range"),
    (lambda: landscape.contours(1.0, 0.5, points=1), "points"),
    (lambda: landscape.signature(np.ones((2, 3))), "symmetric"),
)


def test_too_many_critical_points_are_an_error(monkeypatch):
    monkeypatch.setattr(landscape, "MOST_POINTS", 5)
    with pytest.raises(OffdiagError, match="more than 5.*smaller"):
        landscape.critical_points(np.diag([3.0, 2.0, 1.0]), 3, 0.1)


def test_points_are_listed_at_any_scale_whose_squares_fit():
    M = np.diag([3.0, 2.0, 1.0])
    kinds = [[p.kind for p in landscape.critical_points(M * c, 2, 0.3)] for c in (1.0, 1e-60, 3e99)]
    assert kinds[0] == kinds[1] == kinds[2]
