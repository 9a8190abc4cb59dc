"""Learning curves of linear autoencoders: closed forms against ODE solvers, many digits, and whole nets in training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.errors import OffdiagError
from offdiag.lab import dynamics
from tests.fixtures.mistakes import rejects

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
def test_a_net_with_an_aligned_start_follows_the_curve_of_each_mode(variance, gamma, n):
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


def test_smaller_steps_approach_the_curve():
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


test_mistakes_get_a_message_of_one_line = rejects(
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
)


def test_steps_that_are_too_long_are_an_error(recwarn):
    X = 5 * np.eye(3)
    with pytest.raises(OffdiagError, match="without bound at rate 10"):
        dynamics.gradient_descent(X, np.eye(3), np.eye(3) * 2, rate=10, steps=200)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
@pytest.mark.parametrize("shape", [(9, 4), (3, 6)])
def test_the_estimator_is_independent_of_the_scale_of_the_data(scale, shape):
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
