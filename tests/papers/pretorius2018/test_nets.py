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
    monkeypatch.setattr(nets, "start", lambda *_: (W1, W2))
    after = {}
    monkeypatch.setattr(
        nets, "_net", lambda *a: after.update(last=[np.array(v, float) for v in a[:3]]) or (lambda x: x)
    )
    short = replace(data, sizes=replace(data.sizes, steps=1))
    nets.train(short, activation, "WDAE", 0)
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
        change = (before[which][place] - after["last"][which][place]) / nets.rate(data)
        assert change == pytest.approx(slope, rel=2e-2, abs=2e-6)


def test_noise_is_drawn_with_the_variance_it_should_have(data):
    assert data.sizes.variance == nets.VARIANCE / data.sizes.pool**2
    noisy = nets.train(data, "linear", "DAE", 0).values[-1]
    assert np.abs(noisy - dynamics.dae_fixed_point(data.eigenvalues, len(data.X) * data.sizes.variance)).max() < 0.03


def test_pictures_are_pooled_and_centred(data):
    assert np.abs(data.X.mean(axis=0)).max() < 1e-12
    pixels = images.invented(data.sizes.samples, "mnist", 0)[0] / 255
    assert data.X.shape == (data.sizes.samples, 196)
    pooled = pixels[:, 4:6, 8:10].mean(axis=(1, 2))
    np.testing.assert_allclose(data.X[:, 2 * 14 + 4], pooled - pooled.mean())


def test_the_time_to_a_level_is_interpolated():
    curves = nets.Curves(np.array([0, 10, 20]), np.array([[0.0, 0.0, 0.5], [0.4, 0.2, 0.6], [0.8, 0.3, 0.7]]), 0.0)
    np.testing.assert_allclose(curves.time_to([0.6, 0.9, 0.1]), [15, np.inf, 0])


def test_the_last_step_is_recorded_whatever_the_interval(data):
    short = replace(data, sizes=replace(data.sizes, steps=7))
    assert nets.train(short, "linear", "AE", 0, records=2).steps.tolist() == [0, 3, 6, 7]
