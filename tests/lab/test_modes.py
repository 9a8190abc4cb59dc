"""Learning curves of one mode: closed forms against ODE solvers and arithmetic with many digits."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from offdiag.errors import OffdiagError
from offdiag.lab import dynamics, modes

GOOD = 1e-9  # relative to max(1, |w|)


def equations(lam, eps, decay, tau):
    """The definition: two weights, each pulled by the other."""

    def slope(_, w):
        pull = lam - w[0] * w[1] * (lam + eps)
        return [(w[1] * pull - decay * w[0]) / tau, (w[0] * pull - decay * w[1]) / tau]

    def jacobian(_, w):
        L, both = lam + eps, lam - 2 * w[0] * w[1] * (lam + eps)
        return np.array([[-(w[1] ** 2) * L - decay, both], [both, -(w[0] ** 2) * L - decay]]) / tau

    return slope, jacobian


def by_ode(t, w1, w2, lam, *, eps=0.0, decay=0.0, tau=1.0):
    """w1·w2 at time t; if t is many times the fastest time scale, by an implicit method in log(1 + rate·t)."""
    slope, jacobian = equations(lam, eps, decay, tau)
    if t == 0:
        return w1 * w2
    rate = (lam + eps + decay) * max(1, w1 * w1 + w2 * w2) / tau
    if rate * t < 500:
        found = solve_ivp(slope, (0, t), [w1, w2], method="DOP853", rtol=1e-13, atol=1e-16)
    else:
        found = solve_ivp(
            lambda s, w: np.exp(s) / rate * np.array(slope(0, w)),
            (0, np.log1p(rate * t)),
            [w1, w2],
            method="Radau",
            jac=lambda s, w: np.exp(s) / rate * jacobian(0, w),
            rtol=1e-10,
            atol=1e-13,
        )
    assert found.success
    return found.y[0, -1] * found.y[1, -1]


def as_printed(t, w1, w2, lam, eps, tau):
    """[Pretorius18 sec. B] literally, with enough digits that neither overflow nor cancellation matters."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(60):
        t, w1, w2, lam, eps, tau = map(mp.mpf, (t, w1, w2, lam, eps, tau))
        w0, c0 = w1 * w2, abs(w2**2 - w1**2)
        if lam * t / tau > 5000 and w0 > 0:
            return float(lam / (lam + eps))
        if c0 == 0 and w0 >= 0:  # undefined in the paper; separate the variables of τw′ = 2w(λ − wL)
            grown = mp.exp(2 * lam * t / tau)
            return float(w0 * grown / (1 + (lam + eps) / lam * w0 * (grown - 1)))
        if c0 == 0:
            left = mp.exp(-2 * lam * t / tau)
            return float(w0 * left / (1 - (lam + eps) / lam * w0 * (1 - left)))
        beta = c0 * (1 + eps / lam)
        exponent = lam * mp.sqrt(beta**2 + 4) * t / tau
        if exponent > 5000:
            return float(lam / (lam + eps))
    with mp.workdps(80 + int(exponent) + 2 * abs(int(mp.log10(c0)))):
        beta = c0 * (1 + eps / lam)
        zeta, delta = mp.sqrt(beta**2 + 4), mp.tanh(mp.asinh(2 * w0 / c0) / 2)
        E = mp.exp(lam * zeta * t / tau)
        top = (1 - E) * (zeta**2 - beta**2 - 2 * beta * delta) - 2 * (1 + E) * zeta * delta
        bottom = (1 - E) * (2 * beta + 4 * delta) - 2 * (1 + E) * zeta
        return float(c0 / 2 * mp.sinh(2 * mp.atanh(top / bottom)))


def near(found, truth):
    return abs(found - truth) <= GOOD * max(1, abs(truth))


weights = st.one_of(st.floats(-3, 3), st.floats(-1e-3, 1e-3), st.sampled_from([0.0, 0.5, -0.5, 1.0, -1.0]))


positive = st.floats(-6, 6).map(lambda power: 10.0**power)


times = st.one_of(st.just(0.0), positive)


kinds = st.sampled_from(["free", "equal", "opposite", "nearly equal", "nearly opposite"])


@st.composite
def starts(draw):
    w1, kind = draw(weights), draw(kinds)
    if kind == "free":
        return w1, draw(weights)
    near_one = 1 + 10.0 ** -draw(st.integers(1, 16)) * draw(st.floats(-1, 1)) if kind.startswith("nearly") else 1.0
    return w1, w1 * near_one * (-1 if kind.endswith("opposite") else 1)


@pytest.mark.parametrize("eps", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("lam", [0.0, 0.3, 2.5])
@pytest.mark.parametrize(
    ("w1", "w2"),
    [(0.01, 0.01), (0.1, 0.4), (0.4, 0.1), (-0.3, 0.5), (0.5, -0.5), (0.0, 0.6), (2.0, 1.5), (-1.2, -1.3), (0.0, 0.0)],
)
def test_the_denoising_curve_is_that_of_an_ode_solver(w1, w2, lam, eps):
    for t in (0.0, 0.1, 1.0, 5.0, 40.0):
        assert near(dynamics.dae(t, w1, w2, lam, eps, 1.7), by_ode(t, w1, w2, lam, eps=eps, tau=1.7))


@pytest.mark.parametrize(("lam", "t"), [(1e-6, 1e6), (1.0, 1e3), (1e3, 1.0), (1e6, 1e-6), (1e6, 1e-5), (1e6, 1e6)])
@pytest.mark.parametrize(("w1", "w2"), [(0.1, 0.1), (0.3, -0.3), (0.2, 0.5), (1.5, 1.0)])
def test_the_denoising_curve_is_that_of_a_stiff_ode_solver_at_extremes(lam, t, w1, w2):
    assert near(dynamics.dae(t, w1, w2, lam, 0.4 * lam, 1.0), by_ode(t, w1, w2, lam, eps=0.4 * lam))


@given(times, starts(), positive, st.one_of(st.just(0.0), positive), positive)
@settings(max_examples=300, deadline=None)
def test_the_denoising_curve_is_the_printed_one_with_many_digits(t, start, lam, eps, tau):
    assume(lam * t / tau < 1e5)  # beyond it both have converged; Radau above covers that
    found = dynamics.dae(t, *start, lam, eps, tau)
    assert abs(found - as_printed(t, *start, lam, eps, tau)) <= 1e-12 * max(1, abs(found))


@given(times, starts(), st.one_of(st.just(0.0), positive), st.one_of(st.just(0.0), positive))
@settings(max_examples=300)
def test_the_curve_is_a_finite_flow_towards_the_fixed_point(t, start, lam, eps):
    w1, w2 = start
    first = dynamics.dae(t, w1, w2, lam, eps, 1.0)
    assert np.isfinite(first)
    end = dynamics.dae_fixed_point(lam, eps)
    if lam + eps:
        low, high = sorted([w1 * w2, end])
        assert low - 1e-12 <= first <= high + 1e-12 * max(1, high)
    if w1 == -w2:
        assert first <= 0  # it can only creep up to the saddle
    # A flow: time t followed by time t equals time 2t. The second start has the same w2² − w1².
    c = w2 * w2 - w1 * w1
    total = np.hypot(c, 2 * first)
    bigger = np.sqrt((total + abs(c)) / 2)
    if bigger > 1e-3 and abs(c) > 1e-3:
        again = dynamics.dae(t, bigger, first / bigger, lam, eps, 1.0)
        assert again == pytest.approx(dynamics.dae(2 * t, w1, w2, lam, eps, 1.0), rel=1e-7, abs=1e-7)


def test_starts_whose_product_underflows_still_grow():
    for w in (1e-70, 1e-200, 1e-300):
        t = np.log(0.3 / w**2) / 2 if w > 1e-150 else (np.log(0.3) - 2 * np.log(w)) / 2  # w²e^(2t) = 0.3, λ = τ = 1
        assert dynamics.dae(t, w, w, 1.0, 0.0, 1.0) == pytest.approx(0.3 / 1.3, rel=1e-9)
        assert dynamics.dae(t, w, -w, 1.0, 0.0, 1.0) == pytest.approx(0, abs=1e-100)
        # One weight alone is half of w1 = w2: (w1 + w2)/2 grows, the rest decays.
        assert dynamics.dae(t, w, 0.0, 1.0, 0.0, 1.0) == pytest.approx(0.3 / 4 / (1 + 0.3 / 4), rel=1e-9)


def test_extreme_arguments_neither_overflow_nor_divide_by_zero():
    assert dynamics.dae(1e6, 0.1, 0.2, 1e6, 1e6, 1.0) == pytest.approx(0.5, abs=1e-15)
    assert dynamics.dae(1e4, 0.1, 0.1, 0.8, 0.2, 1.0) == pytest.approx(0.8, abs=1e-15)
    assert dynamics.dae(1e308, 0.1, 0.3, 1e6, 0.0, 1.0) == 1.0
    assert dynamics.dae(5.0, 0.3, 0.4, 0.0, 0.0, 1.0) == pytest.approx(0.12, rel=1e-15)  # no gradient
    assert dynamics.dae(5.0, 0.5, -0.5, 0.0, 2.0, 1.0) == pytest.approx(-0.25 / (1 + 2 * 2 * 0.25 * 5), rel=1e-14)


def test_curves_broadcast_and_numbers_stay_numbers():
    t, lam = np.linspace(0, 9, 5)[:, None], np.array([0.0, 1.0, 3.0])
    table = dynamics.dae(t, 0.1, 0.2, lam, 0.5, 2.0)
    assert table.shape == (5, 3)
    assert table[3, 2] == dynamics.dae(float(t[3, 0]), 0.1, 0.2, 3.0, 0.5, 2.0)
    assert isinstance(dynamics.dae(1, 1, 1, 1, 1, 1), float)
    decayed = dynamics.wdae(t, 0.02, lam, 0.5, 2.0)
    assert decayed[3, 2] == dynamics.wdae(float(t[3, 0]), 0.02, 3.0, 0.5, 2.0)
    assert isinstance(dynamics.wdae_fixed_point(2, 1), float)


@pytest.mark.parametrize("decay", [0.0, 0.4, 2.5, 4.0])
@pytest.mark.parametrize("lam", [0.0, 0.4, 2.5])
@pytest.mark.parametrize("w", [0.0, 1e-4, 0.3, 1.0, 2.2, -0.3, -2.0])
def test_the_weight_decay_curve_is_that_of_an_ode_solver(w, lam, decay):
    side = np.sqrt(abs(w))
    for t in (0.0, 0.2, 2.0, 30.0):
        truth = by_ode(t, side, side * np.sign(w), lam, decay=decay, tau=1.3)
        assert near(dynamics.wdae(t, w, lam, decay, 1.3), truth)


@pytest.mark.parametrize(("lam", "t"), [(1e-6, 1e6), (1.0, 1e3), (1e6, 1e-5), (1e6, 1e6)])
@pytest.mark.parametrize("w", [0.01, -0.2, 1.7])
@pytest.mark.parametrize("share", [0.3, 1.0, 2.0])
def test_the_weight_decay_curve_is_that_of_a_stiff_ode_solver_at_extremes(lam, t, w, share):
    if share == 1:
        t = min(t, 1e3 / lam)  # w falls only as 1/t, too slowly for the solver
    side = np.sqrt(abs(w))
    truth = by_ode(t, side, side * np.sign(w), lam, decay=share * lam)
    assert near(dynamics.wdae(t, w, lam, share * lam, 1.0), truth)


@given(times, st.floats(-5, 5), st.one_of(st.just(0.0), positive), st.one_of(st.just(0.0), positive), st.booleans())
@settings(max_examples=300)
def test_the_weight_decay_curve_is_the_corrected_print_with_many_digits(t, w, lam, decay, tied):
    mp = pytest.importorskip("mpmath")
    decay = lam if tied else decay
    found = dynamics.wdae(t, w, lam, decay, 1.0)
    assert np.isfinite(found)
    with mp.workdps(400):
        mu = mp.mpf(lam) + decay if w < 0 else mp.mpf(lam) - decay
        sign = -1 if w < 0 else 1
        if abs(mu) * t > 1e5:
            truth = mp.mpf(max(mu / lam, 0)) if lam and w > 0 else mp.mpf(0)
        elif mu == 0:
            truth = w / (1 + 2 * mp.mpf(lam) * abs(w) * t)
        else:
            E = mp.exp(2 * sign * mu * t)
            truth = w * E / (1 + lam * mp.mpf(w) * (E - 1) / mu * (1 if w > 0 else -1) * sign)
    if w:
        assert abs(found - truth) <= 1e-12 * max(1, abs(truth))
    else:
        assert found == 0


def test_weight_decay_from_unequal_weights_is_integrated():
    w1, w2, lam, decay, t = 0.05, 0.9, 1.0, 0.2, np.array([0.0, 0.5, 1.0, 3.0, 50.0])
    one, two = dynamics.simulate(t, w1, w2, lam, decay=decay, tau=1.0)
    np.testing.assert_allclose(two**2 - one**2, (w2**2 - w1**2) * np.exp(-2 * decay * t), atol=1e-9)
    for time, product in zip(t, one * two, strict=True):
        assert near(product, by_ode(time, w1, w2, lam, decay=decay))
    assert np.abs(dynamics.wdae(t, w1 * w2, lam, decay, 1.0) - one * two).max() > 0.05
    assert (one * two)[-1] == pytest.approx(dynamics.wdae_fixed_point(lam, decay), abs=1e-8)


def test_simulation_agrees_with_the_denoising_curve():
    t = np.array([0.0, 1.0, 10.0, 1e5])
    one, two = dynamics.simulate(t, -0.3, 0.5, 1.4, noise=0.3, tau=2.0)
    np.testing.assert_allclose(one * two, dynamics.dae(t, -0.3, 0.5, 1.4, 0.3, 2.0), atol=1e-9)
    np.testing.assert_array_equal(dynamics.simulate(0, 0.2, 0.3, 1, tau=1), [[0.2], [0.3]])


@given(st.one_of(st.just(0.0), positive), st.one_of(st.just(0.0), positive))
def test_the_fixed_points_rest_and_the_equivalent_decay_meets_them(lam, eps):
    end = dynamics.dae_fixed_point(lam, eps)
    assert dynamics.dae(1e6, np.sqrt(end), np.sqrt(end), lam, eps, 1.0) == pytest.approx(end, rel=1e-12, abs=1e-12)
    decay = dynamics.equivalent_decay(lam, eps)
    assert dynamics.wdae_fixed_point(lam, decay) == pytest.approx(end if lam else 0, abs=1e-9)
    assert dynamics.wdae_fixed_point(lam, 2 * lam) == 0


def test_a_mode_at_rest_has_no_slope():
    lam, eps, decay = 2.5, 0.7, 0.9
    for w, slope in (
        (dynamics.dae_fixed_point(lam, eps), equations(lam, eps, 0, 1)[0]),
        (dynamics.wdae_fixed_point(lam, decay), equations(lam, 0, decay, 1)[0]),
    ):
        assert np.abs(slope(0, [np.sqrt(w)] * 2)).max() < 1e-14


def losses(w1, w2, lam, eps, decay, tau):
    w = w1 * w2
    return (lam * (1 - w) ** 2 + eps * w**2 + decay * (w1**2 + w2**2)) / (2 * tau)


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 3), st.floats(0, 3), st.floats(0.5, 2))
def test_the_hessians_are_second_differences_of_the_losses(w1, w2, lam, other, tau):
    step = 1e-4
    moves = np.eye(2) * step
    for found, eps, decay in (
        (dynamics.dae_hessian(w1, w2, lam, other, tau), other, 0),
        (dynamics.wdae_hessian(w1, w2, lam, other, tau), 0, other),
    ):
        at = np.array([w1, w2])
        for i in range(2):
            for j in range(2):
                both = sum(
                    p * q * losses(*(at + p * moves[i] + q * moves[j]), lam, eps, decay, tau)
                    for p in (-1, 1)
                    for q in (-1, 1)
                )
                assert found[i, j] == pytest.approx(both / (4 * step**2), abs=1e-5 * (1 + lam + other))


def test_the_learning_rates_are_one_over_the_curvature_at_one():
    lam, eps, decay, n = np.array([0.3, 2.5]), 0.7, 1.1, 40
    top = np.linalg.eigvalsh(dynamics.dae_hessian(1, 1, lam, eps, n))[..., -1]
    np.testing.assert_allclose(dynamics.dae_learning_rate(lam, eps, n), 1 / top)
    np.testing.assert_allclose(1 / top, n / (2 * lam + 3 * eps))
    top = np.linalg.eigvalsh(dynamics.wdae_hessian(1, 1, lam, decay, n))[..., -1]
    np.testing.assert_allclose(dynamics.wdae_learning_rate(lam, decay, n), 1 / top)
    ratio = dynamics.dae_learning_rate(lam, eps) / dynamics.wdae_learning_rate(lam, decay)
    np.testing.assert_allclose(dynamics.learning_rate_ratio(lam, eps, decay), ratio)
    assert dynamics.dae_learning_rate(0, 0) == np.inf
    # On the way up the curvature is highest at the end, 2λ, so the printed rate is smaller than necessary.
    path = dynamics.dae(np.linspace(0, 50, 400), 0.01, 0.01, 2.5, 0.7, 1.0)
    curvature = np.linalg.eigvalsh(dynamics.dae_hessian(np.sqrt(path), np.sqrt(path), 2.5, 0.7, 1.0))[:, -1]
    assert curvature.max() == pytest.approx(5.0, rel=1e-9)


@pytest.mark.parametrize("w", [1e-4, 0.3, 1.4])
@pytest.mark.parametrize("fraction", [0.5, 0.9, 1.1])
def test_the_time_to_a_fraction_is_where_the_curve_gets_there(w, fraction):
    lam, eps, decay, tau = 2.0, 0.5, 0.6, 3.0
    for time, curve, end in (
        (dynamics.dae_time(fraction, w, lam, eps, tau), lambda t: dynamics.dae(t, w**0.5, w**0.5, lam, eps, tau), 0.8),
        (dynamics.wdae_time(fraction, w, lam, decay, tau), lambda t: dynamics.wdae(t, w, lam, decay, tau), 0.7),
    ):
        passes = (w <= fraction * end) if fraction < 1 else (w >= fraction * end)
        assert np.isfinite(time) == passes
        if passes:
            assert curve(time) == pytest.approx(fraction * end, rel=1e-12)
    assert dynamics.wdae_time(0.5, w, 1.0, 1.5, 1.0) == np.inf  # switched off
    assert dynamics.dae_time(0.5, 0.0, 1.0, 1.5, 1.0) == np.inf


@pytest.mark.parametrize(("w1", "w2"), [(1e78, 1.0), (1.0, 1e78), (1e99, -1.0), (1e90, 1e-90), (1e78, -1e-70)])
@pytest.mark.parametrize("t", [0.0, 1e-160, 1e-3, 2.0])
def test_the_denoising_curve_from_huge_starts(w1, w2, t):
    for lam, eps in ((1.0, 0.5), (1e6, 0.0), (1e-6, 1e3)):
        assert dynamics.dae(t, w1, w2, lam, eps, 1.0) == pytest.approx(as_printed(t, w1, w2, lam, eps, 1.0), rel=1e-9)


def test_an_integration_that_does_not_end_is_stopped(monkeypatch):
    w1, w2 = dynamics.simulate(2.0, 1e12, 5e11, 1.0, noise=0.1, tau=1.0)
    assert w1[0] * w2[0] == pytest.approx(dynamics.dae(2.0, 1e12, 5e11, 1.0, 0.1, 1.0), rel=1e-7)
    monkeypatch.setattr(modes, "_PATIENCE", 20)
    with pytest.raises(OffdiagError, match="more than 20 steps .* larger tau"):
        dynamics.simulate(2.0, 0.1, 0.5, 1.0, tau=1.0)
