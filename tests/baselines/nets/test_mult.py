"""Mult-DAE and Mult-VAE: their losses and gradients, reimplemented in double precision."""

import numpy as np
import pytest
from hypothesis import given

import offdiag as od
from offdiag.baselines.nets import mult
from tests.fixtures.nets import check_gradient, data, multinomial, randomised, torch, unit_and_dropped
from tests.laws.strategies import interactions


def matrices(parameters):
    return sum((W**2).sum() for name, W in parameters.items() if name.startswith("W"))


def dae_loss(parameters, x, hidden, settings):
    last = len(parameters) // 2
    for at in range(1, last):
        hidden = np.tanh(hidden @ parameters[f"W{at}"] + parameters[f"b{at}"])
    logits = hidden @ parameters[f"W{last}"].T + parameters[f"b{last}"]
    return multinomial(logits, x) + settings.l2 * matrices(parameters)


def vae_loss(parameters, x, seen, settings, noise, beta):
    hidden = np.tanh(seen @ parameters["W1"] + parameters["b1"])
    both = hidden @ parameters["W2"] + parameters["b2"]
    mean, log_variance = both[:, : settings.rank], both[:, settings.rank :]
    z = mean + noise * np.exp(log_variance / 2)
    logits = np.tanh(z @ parameters["W3"] + parameters["b3"]) @ parameters["W4"].T + parameters["b4"]
    kl = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum(1).mean()
    return multinomial(logits, x) + beta * kl + settings.l2 * matrices(parameters)


@pytest.mark.parametrize(("depth", "counts"), [(0, False), (2, True)])
def test_the_gradient_of_the_denoising_loss_equals_differences(depth, counts):
    x = data(counts=counts)
    settings = od.MultDAE(rank=3, width=4, depth=depth, l2=0.02)
    seen, _ = unit_and_dropped(x, 0.5, 5)
    net = mult.DenoisingNet(7, settings)
    check_gradient(net, lambda w: dae_loss(w, x.toarray(), seen, settings), np.arange(9), x)


def test_the_gradient_of_the_variational_loss_equals_differences():
    x = data(counts=True)
    settings = od.MultVAE(rank=3, width=4, l2=0.02, beta=0.6)
    seen, rng = unit_and_dropped(x, 0.5, 5)
    noise = rng.standard_normal((9, 3), dtype=np.float32).astype(np.float64)
    net = mult.VariationalNet(7, settings, 10.0)
    check_gradient(net, lambda w: vae_loss(w, x.toarray(), seen, settings, noise, 0.6 * 0.4), np.arange(9), x, step=4)


def test_the_divergence_is_the_mean_of_the_log_ratio_of_densities():
    rng = np.random.default_rng(0)
    mean, log_variance = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    z = mean + rng.standard_normal((400_000, 3, 4)) * np.exp(log_variance / 2)
    log_q = -0.5 * ((z - mean) ** 2 / np.exp(log_variance) + log_variance)
    ratio = (log_q + 0.5 * z**2).sum(2).mean(1)
    sem = ratio.std() / np.sqrt(len(ratio))
    ours = float(mult.divergence(torch.from_numpy(mean), torch.from_numpy(log_variance)))
    assert abs(ours - ratio.mean()) < 4 * sem
    assert sem < 0.01 * ours
    assert float(mult.divergence(torch.zeros(2, 3), torch.zeros(2, 3))) == 0


def test_beta_rises_in_a_line_to_its_cap():
    assert [mult.anneal(0.2, step, 4) for step in (0, 1, 2, 4, 9)] == pytest.approx([0, 0.05, 0.1, 0.2, 0.2])
    assert mult.anneal(0.2, 0, 0) == 0.2
    net = od.MultVAE(rank=2, width=3, batch_users=10, anneal_epochs=2.0)._net(data(50, 9))
    assert net.anneal_steps == 10  # 50 users in 5 batches, twice


@given(interactions(values="counts"))
def test_the_likelihood_over_sparse_rows_is_that_over_dense_ones(X):
    X = X[np.flatnonzero(np.diff(X.indptr))]
    logits = np.random.default_rng(0).normal(size=X.shape).astype(np.float32)
    ours = float(mult.negative_log_likelihood(torch.from_numpy(logits), X))
    assert ours == pytest.approx(multinomial(logits.astype(np.float64), X.toarray()), rel=1e-4, abs=1e-3)


def test_without_divergence_and_noise_only_the_mean_is_decoded():
    x = data()
    settings = od.MultVAE(rank=3, width=4, beta=0.0, dropout=0.0)
    net = mult.VariationalNet(7, settings, 0.0)
    randomised(net)
    with torch.no_grad():
        net.parameters["W2"][:, 3:] = 0
        net.parameters["b2"][3:] = -200.0  # e^-100: no noise
    value = float(net.loss(np.arange(9), x, np.random.default_rng(0), 0).detach())
    assert value == pytest.approx(multinomial((x @ net.network()).astype(np.float64), x.toarray()), rel=1e-5)
