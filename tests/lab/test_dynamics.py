"""Learning curves of linear autoencoders: closed forms against ODE solvers, many digits, and whole nets in training."""

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
def test_the_curve_is_finite_moves_towards_the_fixed_point_and_can_be_continued(t, start, lam, eps):
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


def test_the_printed_form_overflows_and_divides_by_zero_where_ours_does_not():
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


def test_weight_decay_from_unequal_weights_has_no_such_curve_and_is_integrated():
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


shapes = st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))


def net(n, features, hidden, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, features))
    return X, rng.standard_normal((hidden, features)), rng.standard_normal((features, hidden))


@given(shapes, st.floats(0, 4))
def test_the_expected_loss_is_the_mean_over_noise(shape, variance):
    """Two-point noise ±s in every entry has the same mean and variance, so all signs of a row can be enumerated."""
    X, W1, W2 = net(*shape)
    M = W2 @ W1
    signs = np.array(np.meshgrid(*[[-1, 1]] * X.shape[1])).reshape(X.shape[1], -1).T * np.sqrt(variance)
    truth = np.mean([np.sum((x - (x + signs) @ M.T) ** 2, axis=1).mean() for x in X]) / 2
    assert dynamics.expected_loss(X, W1, W2, variance) == pytest.approx(truth, rel=1e-10)


def test_the_expected_loss_is_the_mean_over_gaussian_draws():
    X, W1, W2 = net(20, 6, 3, 5)
    found = dynamics.sample_loss(X, W1, W2, 1.7, draws=4000, seed=1)
    assert abs(found.mean - dynamics.expected_loss(X, W1, W2, 1.7)) < 4 * found.standard_error
    assert found.standard_error < 0.01 * found.mean
    assert dynamics.sample_loss(X, W1, W2, 0.0, draws=2).mean == pytest.approx(dynamics.expected_loss(X, W1, W2, 0))


@pytest.mark.parametrize(("variance", "gamma"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.2)])
@pytest.mark.parametrize("n", [30, 4])
def test_a_whole_net_started_aligned_follows_the_curve_of_each_mode(variance, gamma, n):
    X = np.random.default_rng(3).standard_normal((n, 6)) * np.array([2, 1.5, 1.2, 1, 0.7, 0.4])
    hidden, rate = 4, 1e-3
    W1, W2 = dynamics.aligned_start(X, hidden, 0.1, 0.1, seed=2)
    found = dynamics.gradient_descent(
        X, W1, W2, rate=rate, steps=4000, variance=variance, weight_decay=gamma, record=500
    )
    t, tau, lam = found.steps[:, None], n / rate, found.eigenvalues[:hidden]
    theory = dynamics.dae(t, 0.1, 0.1, lam, n * variance, tau)
    if gamma:
        theory = dynamics.wdae(t, 0.01, lam, n * gamma, tau)
    assert found.values.shape == (9, 6)
    assert np.abs(found.values[:, :hidden] - theory).max() < 3e-3  # the step size
    assert np.abs(found.values[:, hidden:]).max() < 1e-12
    modes = dynamics.estimate(X, lambda rows: rows @ (found.W2 @ found.W1).T)
    np.testing.assert_allclose(modes.eigenvalues, found.eigenvalues)
    present = ~np.isnan(modes.values)
    assert present.sum() == min(n, 6)
    np.testing.assert_allclose(modes.values[present], found.values[-1][present], atol=1e-10)


def test_smaller_steps_come_closer_to_the_curve():
    X = np.random.default_rng(3).standard_normal((12, 3))
    errors = []
    for rate in (2e-2, 1e-2, 5e-3):
        W1, W2 = dynamics.aligned_start(X, 3, 0.1, 0.3)
        found = dynamics.gradient_descent(X, W1, W2, rate=rate, steps=int(8 / rate), variance=0.3)
        theory = dynamics.dae(found.steps[:, None], 0.1, 0.3, found.eigenvalues, 3.6, 12 / rate)
        errors.append(np.abs(found.values - theory).max())
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.15)  # first order in the step
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.15)


def test_gradient_descent_steps_along_the_gradient_of_the_expected_loss():
    X, W1, W2 = net(9, 4, 3, 8)
    rate, variance, gamma = 1e-3, 0.6, 0.3
    found = dynamics.gradient_descent(X, W1, W2, rate=rate, steps=1, variance=variance, weight_decay=gamma)

    def loss(A, B):
        return dynamics.expected_loss(X, A, B, variance) + gamma / 2 * (np.sum(A**2) + np.sum(B**2))

    for before, after, at in ((W1, found.W1, lambda A: loss(A, W2)), (W2, found.W2, lambda B: loss(W1, B))):
        for place in np.ndindex(before.shape):
            move = np.zeros_like(before)
            move[place] = 1e-5
            slope = (at(before + move) - at(before - move)) / 2e-5
            assert (before - after)[place] / rate == pytest.approx(slope, rel=1e-6, abs=1e-7)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_estimator_is_its_definition_for_any_shape_and_net(n, features, seed):
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((n, features)), rng.standard_normal((features, features))

    def reconstruct(rows):
        return np.tanh(rows @ A)

    values, eigenvalues = dynamics.estimate(X, reconstruct)
    lam, V = np.linalg.eigh(X.T @ X)
    assert len(values) == len(eigenvalues) == features
    np.testing.assert_allclose(eigenvalues, np.maximum(lam[::-1], 0), atol=1e-10 * lam.max())
    truth = np.diag(V.T @ (X.T @ reconstruct(X)) @ V)[::-1]
    for j in range(features):
        alone = min([abs(lam[::-1][j] - other) for k, other in enumerate(lam[::-1]) if k != j], default=1)
        if lam[::-1][j] > 1e-6 * lam.max() and alone > 1e-6 * lam.max():
            assert values[j] == pytest.approx(truth[j] / lam[::-1][j], rel=1e-6, abs=1e-6)
    assert np.isnan(values).sum() == max(0, features - n)
    identity = dynamics.estimate(X, lambda rows: 0.25 * rows).values
    np.testing.assert_allclose(identity[~np.isnan(identity)], 0.25)


def test_the_estimator_keeps_leading_modes_and_takes_a_basis():
    X = np.random.default_rng(0).standard_normal((20, 5))
    whole = dynamics.estimate(X, np.tanh)
    some = dynamics.estimate(X, np.tanh, basis=dynamics.eigenbasis(X), modes=2)
    np.testing.assert_allclose(some.values, whole.values[:2])
    np.testing.assert_allclose(some.eigenvalues, whole.eigenvalues[:2])
    assert np.isnan(dynamics.estimate(np.zeros((3, 2)), np.tanh).values).all()
    twice = np.concatenate([X, X[:, :2], X[:, :1] - X[:, 1:2]], axis=1)  # rank 5 in 8 columns
    assert np.isnan(dynamics.estimate(twice, np.tanh).values).tolist() == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dynamics.dae(-1, 0, 0, 1, 0, 1), "t must be at least 0, received -1"),
        (lambda: dynamics.dae(1, np.nan, 0, 1, 0, 1), "w1 holds NaN"),
        (lambda: dynamics.dae(1, 0, 0, [1, -2], 0, 1), "eigenvalue must be at least 0, received -2"),
        (lambda: dynamics.dae(1, 0, 0, 1, -0.1, 1), "noise must be at least 0"),
        (lambda: dynamics.dae(1, 0, 0, 1, 0, 0), "tau must be above 0"),
        (lambda: dynamics.dae(1, 1e200, 0, 1, 0, 1), "w1 must be at most 1e100"),
        (lambda: dynamics.dae([1, 2], 0, 0, [1, 2, 3], 0, 1), "broadcast"),
        (lambda: dynamics.dae("soon", 0, 0, 1, 0, 1), "t must be a number"),
        (lambda: dynamics.wdae(1, 0, 1, np.inf, 1), "decay holds NaN or infinite"),
        (lambda: dynamics.simulate([2, 1], 0.1, 0.1, 1, tau=1), "rising order"),
        (lambda: dynamics.expected_loss(np.ones((2, 3)), np.ones((2, 2)), np.ones((3, 2)), 1), "W1 must be"),
        (lambda: dynamics.expected_loss(np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 3)), 1), "W2 must be"),
        (lambda: dynamics.expected_loss([[np.nan]], [[1]], [[1]], 1), "X holds NaN"),
        (lambda: dynamics.sample_loss([[1]], [[1]], [[1]], 1, draws=1), "draws"),
        (lambda: dynamics.aligned_start(np.eye(3), 4, 1, 1), "hidden must be 1 to 3"),
        (lambda: dynamics.estimate(np.eye(3), lambda rows: rows[:2]), "what reconstruct returns must be"),
        (lambda: dynamics.estimate(np.eye(3), lambda rows: rows * np.nan), "what reconstruct returns holds NaN"),
        (lambda: dynamics.dae_learning_rate(1, 1, 0), "samples must be above 0"),
        (lambda: dynamics.dae([[1], [1, 2]], 0, 0, 1, 0, 1), "t must be a number or an array.*equal length"),
        (lambda: dynamics.dae(1e300, 0.5, 0.5, 0.0, 0, 1e-300), "too far apart"),
        (lambda: dynamics.simulate([], 0.1, 0.1, 1, tau=1), r"rising order, received shape \(0,\)"),
        (
            lambda: dynamics.simulate(1.0, [0.1, 0.2], 0.1, 1, tau=1),
            r"w1 must be one number here, received shape \(2,\)",
        ),
        (lambda: dynamics.simulate(1.0, 0.1, 0.1, [1, 2], tau=1), "eigenvalue must be one number"),
        (lambda: dynamics.simulate(1.0, 1e78, 0.1, 1, tau=1), r"at most 1e\+12 .* start nearer to 0"),
        (lambda: dynamics.expected_loss([[1]], [[1]], [[1]], [1, 2]), "variance must be one number"),
        (lambda: dynamics.expected_loss([[1]], [[1e99]], [[1e99]], 1), "beyond the range"),
        (lambda: dynamics.sample_loss([[1]], [[1]], [[1]], 1, draws=2, seed=-1), "seed"),
        (lambda: dynamics.aligned_start(np.eye(3), 2, [1, 2, 3], 1), "w1 must be a number or hold 2"),
        (lambda: dynamics.aligned_start(np.eye(3), 2, 1, [[1, 2]]), "w2 must be a number or hold 2"),
        (lambda: dynamics.aligned_start(np.eye(3), 2, 1, 1, seed="a"), "seed"),
        (lambda: dynamics.estimate(np.eye(3), None), "reconstruct must be a function .* received a NoneType"),
        (lambda: dynamics.estimate(np.eye(3), np.tanh, basis=3), "basis must be a list of two"),
        (lambda: dynamics.estimate([[1.0], [1.0, 2.0]], np.tanh), "X must be a matrix"),
        (lambda: dynamics.gradient_descent([[1]], [[1]], [[1]], rate=[1, 2], steps=1), "rate must be one number"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_line(call, message):
    with pytest.raises(OffdiagError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_steps_that_are_too_long_are_told(recwarn):
    X = 5 * np.eye(3)
    with pytest.raises(OffdiagError, match="without bound at rate 10"):
        dynamics.gradient_descent(X, np.eye(3), np.eye(3) * 2, rate=10, steps=200)


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


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
@pytest.mark.parametrize("shape", [(9, 4), (3, 6)])
def test_the_estimator_does_not_feel_the_scale_of_the_data(scale, shape):
    rng = np.random.default_rng(1)
    X, M = rng.standard_normal(shape), rng.standard_normal((shape[1], shape[1]))
    truth = dynamics.estimate(X, lambda rows: rows @ M).values
    assert dynamics.estimate(X * scale, lambda rows: rows @ M).values == pytest.approx(truth, rel=1e-9, nan_ok=True)
    basis = dynamics.eigenbasis(X)
    found = dynamics.estimate(X * scale, lambda rows: rows @ M, basis=basis)
    assert found.values == pytest.approx(truth, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_estimator_takes_torch_modules_and_tensors(kind):
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(2).standard_normal((6, 3))
    net = torch.nn.Linear(3, 3, dtype=getattr(torch, kind))
    W, b = (p.detach().double().numpy() for p in (net.weight, net.bias))
    truth = dynamics.estimate(X, lambda rows: rows @ W.T + b).values
    assert dynamics.estimate(X, net).values == pytest.approx(truth, rel=1e-4 if kind == "float32" else 1e-12)
    with_grad = dynamics.estimate(X, lambda rows: net(torch.as_tensor(rows, dtype=net.weight.dtype)))
    assert with_grad.values == pytest.approx(truth, rel=1e-4 if kind == "float32" else 1e-12)
    assert dynamics.estimate(X, torch.nn.Identity()).values == pytest.approx(np.ones(3), rel=1e-6)
