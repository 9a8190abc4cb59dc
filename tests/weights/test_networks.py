"""A network scores as its layers say, whatever their number, and only layers that fit are loaded."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from offdiag.weights import Network
from offdiag.weights.networks import ACTIVATIONS
from tests.laws.strategies import interactions


def forward(parameters, x, names):
    """The plain layers; the last matrix is stored item by item."""
    for at, name in enumerate(names, 1):
        a = x @ parameters[f"W{at}"] + parameters[f"b{at}"]
        x = {"tanh": np.tanh, "identity": lambda a: a, "sigmoid": expit}[name](a)
    last = len(names) + 1
    return x @ parameters[f"W{last}"].T + parameters[f"b{last}"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(X=interactions(values="counts"), widths=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
def test_a_network_of_any_depth_scores_as_its_layers_say(dtype, X, widths, data):
    names = data.draw(st.lists(st.sampled_from(ACTIVATIONS), min_size=len(widths), max_size=len(widths)))
    normalise = data.draw(st.booleans())
    rng, m = np.random.default_rng(0), X.shape[1]
    shapes = [(m, widths[0]), *pairwise(widths), (m, widths[-1])]
    layers = tuple(
        (0.1 * rng.normal(size=shape).astype(dtype), rng.normal(size=size).astype(dtype))
        for shape, size in zip(shapes, [*widths, m], strict=True)
    )
    net = Network(layers, tuple(names), normalise)
    x = X.toarray().astype(np.float64)
    if normalise:
        x /= np.maximum(np.sqrt((x**2).sum(1, keepdims=True)), 1e-30)
    named = {name: array.astype(np.float64) for name, array in net.arrays().items()}
    expected = forward(named, x, names)
    tolerance = {"float32": 1e-4, "float64": 1e-10}[dtype] * max(1.0, np.abs(expected).max())
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(X @ net, expected, atol=tolerance)
    again = Network.from_arrays(net.arrays(), m)
    assert (again.activations, again.normalise) == (net.activations, net.normalise)
    np.testing.assert_array_equal(X @ again, X @ net)
    assert net.nbytes == sum(array.nbytes for array in net.arrays().values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"W1": np.ones((4, 3), np.float32)},
        {"W2": np.ones((2, 3), np.float32)},
        {"W3": np.ones((5, 3), np.float32)},
        {"b2": np.ones(3, np.float32)},
        {"b3": np.ones((5, 1), np.float32)},
        {"b1": np.ones(3, np.float64)},
        {"form": np.array([1, 1, 3], np.uint8)},
        {"form": np.array([2, 1, 0], np.uint8)},
        {"form": np.array([1, 1, 0], np.int64)},
        {"form": np.array([1], np.uint8)},
        {"form": np.array([], np.uint8)},
        {"form": np.array([1, 1, 0, 0], np.uint8)},
        {"W9": np.ones(1, np.float32)},
    ],
)
def test_layers_that_do_not_fit_are_refused(wrong):
    shapes = {"W1": (5, 3), "b1": 3, "W2": (3, 2), "b2": 2, "W3": (5, 2), "b3": 5}
    sound = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    sound["form"] = np.array([1, 1, 0], np.uint8)
    assert Network.from_arrays(sound, 5).shape == (5, 5)
    with pytest.raises((ValueError, TypeError, KeyError)):
        Network.from_arrays(sound | wrong, 5)
