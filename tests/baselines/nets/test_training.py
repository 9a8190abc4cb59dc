"""The training loop: its sparse pieces, the epoch that is kept, and what ends it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.baselines.nets import training
from tests.fixtures.nets import SMALL, data, every_net, every_watched_net, torch
from tests.laws.strategies import interactions


def test_dropout_keeps_the_mean_and_drops_its_share():
    x = data(60, 40, seed=3, counts=True)
    rng = np.random.default_rng(0)
    draws = np.array([training.drop_entries(x, 0.3, rng).data for _ in range(3000)])
    share = (draws == 0).mean()
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / draws.size)
    error = draws.mean(0) - x.data
    assert np.abs(error / x.data).max() < 5 * np.sqrt(0.3 / 0.7 / 3000)
    assert training.drop_entries(x, 0.0, rng) is x


@given(interactions(values="counts"), st.integers(1, 5))
def test_gathered_rows_are_the_product(X, width):
    W = torch.from_numpy(np.random.default_rng(0).normal(size=(X.shape[1], width)).astype(np.float32)).requires_grad_()
    dense = X.toarray().astype(np.float32)
    out = training.gather_rows(X, W)
    np.testing.assert_allclose(out.detach().numpy(), dense @ W.detach().numpy(), rtol=1e-4, atol=1e-3)
    out.sum().backward()
    np.testing.assert_allclose(W.grad.numpy(), np.repeat(dense.sum(0)[:, None], width, 1), rtol=1e-4)


@every_watched_net
def test_the_best_epoch_on_validation_is_kept(make, split):
    model = make(epochs=8).fit(split.train, validation=split.validation)
    assert model.epochs_ == len(model.validation_) == len(model.losses_) == 8
    assert model.best_epoch_ == 1 + int(np.argmax(model.validation_))
    found = od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"]
    assert found == pytest.approx(max(model.validation_), abs=1e-12)


def test_training_stops_when_patience_is_over(split):
    model = od.MultDAE(rank=8, epochs=200, patience=3, learning_rate=0.05).fit(split.train, validation=split.validation)
    assert model.epochs_ == model.best_epoch_ + 3 < 200
    assert max(model.validation_) == model.validation_[model.best_epoch_ - 1]


@every_net
def test_the_seed_decides_everything(make, split):
    one, same, other = (make(epochs=2, seed=seed).fit(split.train) for seed in (3, 3, 4))
    np.testing.assert_equal(same.weights_.arrays(), one.weights_.arrays())
    assert getattr(same, "validation_", None) == getattr(one, "validation_", None)
    assert not np.array_equal(one.weights_.layers[0][0], other.weights_.layers[0][0])


def test_training_that_diverges_is_an_error():
    with pytest.raises(od.OffdiagError, match="training diverged at learning_rate=1000"):
        SMALL["MultVAE"](learning_rate=1e3, epochs=30).fit(data())
