"""CDAE: its losses and gradients, reimplemented in double precision, and users without a vector."""

import numpy as np
import pytest
from scipy.special import expit

import offdiag as od
from offdiag.baselines.nets import cdae
from tests.fixtures.nets import check_gradient, data, randomised, unit_and_dropped


def cdae_loss(parameters, x, seen, settings, users):
    entered = seen @ parameters["W1"] + parameters["users"][users] + parameters["b1"]
    hidden = np.tanh(entered) if settings.activation == "tanh" else expit(entered)
    s = hidden @ parameters["W2"].T + parameters["b2"]
    one, weight = x > 0, settings.positive_weight * x
    if settings.loss == "logistic":
        each = np.where(one, weight * np.logaddexp(0, -s), np.logaddexp(0, s))
    else:
        each = np.where(one, weight * (1 - s) ** 2, s**2)
    penalty = (parameters["W1"] ** 2).sum() + (parameters["W2"] ** 2).sum() + (parameters["users"][users] ** 2).sum()
    return each.sum(1).mean() + settings.l2 * penalty


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_gradient_of_the_loss_equals_differences(activation, loss):
    x = data(counts=True)
    settings = od.CDAE(width=3, activation=activation, loss=loss, positive_weight=1.7, l2=0.02)
    norms = np.sqrt((x.toarray() ** 2).sum(1, keepdims=True))
    seen = unit_and_dropped(x, 0.5, 5)[0] * norms  # CDAE does not normalise the history
    users = np.array([8, 2, 3, 0, 1, 4, 5, 6, 7])
    net = cdae.CollaborativeNet(11, 7, settings)
    check_gradient(net, lambda w: cdae_loss(w, x.toarray(), seen, settings, users), users, x)


def test_a_new_user_has_the_mean_of_the_user_vectors():
    net = cdae.CollaborativeNet(6, 4, od.CDAE(width=3))
    parameters = randomised(net)
    expected = parameters["b1"] + parameters["users"].mean(0)
    np.testing.assert_allclose(net.network().layers[0][1], expected, atol=1e-6)
    assert not net.network().normalise
