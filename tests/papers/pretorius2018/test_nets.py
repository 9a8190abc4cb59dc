"""Autoencoders on images: their data, the steps of their training, and how much they have learnt."""

from dataclasses import replace

import numpy as np
import pytest

from offdiag.data._sets import images
from offdiag.lab import dynamics
from offdiag.papers.pretorius2018 import nets

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data():
    return nets.pictures("mnist", None, nets.SIZES["small"]["mnist"], 0)


@pytest.mark.parametrize("activation", nets.ACTIVATIONS)
def test_a_step_of_training_goes_down_the_gradient(data, activation, monkeypatch):
    """The change of each weight in one step against central differences of the loss, at a few places."""
    gamma = nets.matched_decay(data)
    rng = np.random.default_rng(0)
    W1, W2 = (W + 0.01 * rng.standard_normal(W.shape) for W in nets.start(data, 0))
    seen = []
    monkeypatch.setattr(nets, "start", lambda *_: (W1, W2))
    monkeypatch.setattr(nets, "_learnt", lambda *a: seen.append([np.array(v, float) for v in a[2]]))
    nets.train(replace(data, sizes=replace(data.sizes, epochs=1)), activation, "WDAE", 0)
    act = {"linear": lambda a: a, "tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}[activation]

    def loss(A, b, B):
        rest = data.X - act(data.X @ A.T + b) @ B.T
        return np.sum(rest**2) / (2 * len(data.X)) + gamma / 2 * (np.sum(A**2) + np.sum(B**2))

    before = [W1, np.zeros(len(W1)), W2]
    for which, place in ((0, (3, 100)), (0, (7, 90)), (1, (4,)), (2, (100, 5)), (2, (77, 0))):
        if activation == "linear" and which == 1:
            continue
        slopes = []
        for sign in (1, -1):
            moved = [value.copy() for value in before]
            moved[which][place] += sign * 1e-4
            slopes.append(loss(*moved))
        slope = (slopes[0] - slopes[1]) / 2e-4
        change = (before[which][place] - seen[-1][which][place]) / nets.rate(data)
        assert change == pytest.approx(slope, rel=2e-2, abs=2e-6)


def test_noise_is_drawn_with_the_variance_it_should_have(data):
    assert data.sizes.variance == nets.VARIANCE / data.sizes.pool**2
    noisy = nets.train(data, "linear", "DAE", 0)[-1]
    assert np.abs(noisy - dynamics.dae_fixed_point(data.eigenvalues, len(data.X) * data.sizes.variance)).max() < 0.03


def test_pictures_are_pooled_and_centred(data):
    assert np.abs(data.X.mean(axis=0)).max() < 1e-6
    pixels = images.invented(data.sizes.samples, "mnist", 0)[0] / 255
    assert data.X.shape == (data.sizes.samples, 196)
    pooled = pixels[:, 4:6, 8:10].mean(axis=(1, 2))
    np.testing.assert_allclose(data.X[:, 2 * 14 + 4], pooled - pooled.mean(), atol=1e-6)


def test_the_directions_are_those_of_the_largest_eigenvalues(data):
    X = data.X.astype(float)
    np.testing.assert_allclose(data.eigenvalues, np.linalg.eigvalsh(X.T @ X)[::-1][: nets.MODES], rtol=1e-9)
    np.testing.assert_allclose(X.T @ (X @ data.V), data.V * data.eigenvalues, atol=1e-9 * data.eigenvalues[0])


def test_the_words_give_every_size_of_the_run(data):
    assert data.words == (
        "200 synthetic images in place of MNIST, 14×14 pixels, 400 epochs of one full batch, 40 hidden units, 3 seeds"
    )
    batches = replace(nets.SIZES["small"]["mnist"], batch=50, epochs=3, seeds=5)
    assert "3 epochs in batches of 50, 40 hidden units, 5 seeds" in nets.pictures("mnist", None, batches, 0).words


@pytest.mark.parametrize("activation", nets.ACTIVATIONS)
def test_what_is_learnt_is_the_estimate_of_the_lab(data, activation):
    rng = np.random.default_rng(3)
    W1, W2 = (rng.standard_normal(W.shape).astype(np.float32) / 10 for W in nets.start(data, 0))
    b1 = rng.standard_normal(len(W1)).astype(np.float32) / 10
    act = {"linear": lambda a: a, "tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}[activation]
    X = data.X.astype(float)
    wanted = dynamics.estimate(X, lambda rows: act(rows @ W1.T + b1) @ W2.T, modes=nets.MODES).values
    found = nets._learnt(data, data.X @ data.V.astype(np.float32), (W1, b1, W2), activation)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_an_epoch_sees_every_picture_once_in_a_new_order(data):
    few = replace(data, X=np.arange(12.0, dtype=np.float32)[:, None], sizes=replace(data.sizes, samples=12, batch=4))
    batches = nets._batches(few, np.random.default_rng(0))
    first, second = (np.concatenate([next(batches)[:, 0] for _ in range(3)]) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(12))
    assert first.tolist() != second.tolist()


def test_batches_learn_what_the_full_batch_learns(data):
    """A quarter of the pictures per step, at the same rate: the mean step is the same."""
    whole = nets.train(data, "tanh", "AE", 0)[-1]
    parts = nets.train(replace(data, sizes=replace(data.sizes, batch=50, epochs=100)), "tanh", "AE", 0)[-1]
    np.testing.assert_allclose(parts, whole, atol=0.02)


def test_the_time_to_a_level_is_interpolated():
    values = np.array([[0.0, 0.0, 0.5], [0.4, 0.2, 0.6], [0.8, 0.3, 0.7]])
    curves = nets.Curves(np.array([0, 10, 20]), np.array([values, values / 2]))
    np.testing.assert_allclose(curves.time_to([0.6, 0.9, 0.1]), [[15, np.inf, 0], [np.inf, np.inf, 0]])
    np.testing.assert_allclose(curves.time_to([[0.6, 0.3, 0.6], [0.3, 0.1, 0.3]])[1], [15, 10, 10])


def test_growth_at_the_end_is_that_of_the_mean_over_the_last_tenth():
    values = np.array([[0.0, 0.5], [0.8, 0.5], [1.0, 0.5]])
    curves = nets.Curves(np.array([0, 80, 100]), np.array([values, 0 * values]))
    np.testing.assert_allclose(curves.last_growth(), [0.05, 0])


def test_curves_stack_the_runs_of_all_seeds(data):
    short = replace(data, sizes=replace(data.sizes, epochs=5, seeds=2, records=3))
    found = nets.curves(short, "relu", "DAE", 7)
    assert found.steps.tolist() == [0, 1, 2, 5]
    np.testing.assert_array_equal(found.values[1], nets.train(short, "relu", "DAE", 8))
    np.testing.assert_array_equal(found.ends, found.values[:, -1])
