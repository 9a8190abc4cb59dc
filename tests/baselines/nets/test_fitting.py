"""What all nets share: scoring without torch, learning from any data, and messages about mistakes."""

import sys

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import offdiag as od
from tests.fixtures.mistakes import rejects
from tests.fixtures.nets import SMALL, data, every_net, every_watched_net, torch
from tests.laws.strategies import interactions


@every_net
def test_scores_without_torch_are_those_of_torch(make, split, tmp_path, monkeypatch):
    model = make().fit(split.train)
    X = sparse.vstack([split.test.histories[:30], sparse.csr_array((1, 120), dtype=np.float32)]).tocsr()
    weights = model.weights_
    with torch.no_grad():
        x = torch.from_numpy(X.toarray().astype(np.float32))
        x = torch.nn.functional.normalize(x) if weights.normalise else x
        for (W, b), name in zip(weights.layers[:-1], weights.activations, strict=True):
            a = x @ torch.from_numpy(W) + torch.from_numpy(b)
            x = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "identity": lambda a: a}[name](a)
        W, b = weights.layers[-1]
        expected = (x @ torch.from_numpy(W).T + torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(model.predict(X), expected, atol=2e-5)
    model.save(tmp_path / "net.od")
    monkeypatch.setitem(sys.modules, "torch", None)
    again = od.load(tmp_path / "net.od")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    for name in ("losses_", "epochs_", "best_epoch_", "validation_"):
        assert getattr(again, name, None) == getattr(model, name, None)
    assert len(again.similar([split.train.item_ids[0]], k=3).items[0]) == 3
    with pytest.raises(od.OffdiagError, match=f"{type(model).__name__} needs torch"):
        make().fit(split.train)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("MultDAE", {"rank": 20}),
        ("MultVAE", {"rank": 20}),
        ("CDAE", {"dropout": 0.3, "width": 40, "positive_weight": 1.0}),
    ],
)
def test_it_learns_and_beats_popularity(name, settings, split):
    model = SMALL[name](epochs=60, patience=60, **settings).fit(split.train, validation=split.validation)
    assert model.losses_[-1] < model.losses_[0]
    popular = od.evaluate(od.Popularity().fit(split.train), split.test, ["ndcg@20"])
    test = od.evaluate(model, split.test, ["ndcg@20"]).compare(popular)
    assert test.difference["ndcg@20"] > 3 * test.sem["ndcg@20"]


test_settings_out_of_range_are_errors = rejects(
    (lambda: od.MultDAE(dropout="auto").fit(data()), "takes numbers"),
    (lambda: od.MultDAE(dropout=1.0).fit(data()), "dropout must be a number"),
    (lambda: od.MultDAE(depth=-1).fit(data()), "depth must be a whole number"),
    (lambda: od.MultDAE(patience=0).fit(data()), "patience must be a whole number"),
    (lambda: od.MultVAE(beta=-0.1).fit(data()), "beta must be a number"),
    (lambda: od.MultVAE(anneal_epochs=float("nan")).fit(data()), "anneal_epochs must be a number"),
    (lambda: od.MultVAE(learning_rate=0.0).fit(data()), r"learning_rate must be a number in \(0, 1000\]"),
    (lambda: od.CDAE(activation="relu").fit(data()), "activation must be 'tanh' or 'sigmoid'"),
    (lambda: od.CDAE(loss="hinge").fit(data()), "loss must be"),
    (lambda: od.CDAE(positive_weight=-1.0).fit(data()), "positive_weight must be a number"),
    (lambda: od.CDAE(width=0).fit(data()), "width must be a whole number"),
)


@every_net
@given(X=interactions(values="counts"))
def test_any_data_can_be_learned_from(make, X):
    model = make(epochs=1).fit(X)
    assert np.isfinite(model.predict(X)).all()
    assert model.n_users_ == X.shape[0]


@every_watched_net
def test_values_too_large_for_a_net_are_an_error(make):
    with pytest.raises(od.OffdiagError, match="received values up to 1e\\+30"):
        make().fit(np.eye(3) * 1e30)


def test_a_net_that_does_not_fit_in_memory_is_an_error(monkeypatch):
    monkeypatch.setattr("offdiag.memory.available", lambda: 10_000)
    for model in (od.MultDAE(), od.MultVAE(), od.CDAE()):
        with pytest.raises(od.NotEnoughMemory, match=f"a {type(model).__name__} of 7 items needs"):
            model.fit(data())


@every_net
def test_a_net_has_no_matrix_and_explains_nothing(make):
    model = make(epochs=1).fit(data())
    with pytest.raises(od.OffdiagError, match="not linear"):
        model.explain([0], 1)
    for call in (model.weights_.toarray, lambda: model.weights_.column(np.array([0]), 1)):
        with pytest.raises(od.OffdiagError, match="no matrix"):
            call()


@pytest.mark.slow
def test_on_real_data_nets_and_wmf_rank_as_in_published_comparisons(shared_data):
    """Near EASE and far above popularity, on all ratings of ml-100k and with few epochs; so is WMF."""
    inter = od.prepare.binarize(od.datasets.load("ml-100k", shared_data("ml-100k")))
    split = od.split.strong(inter, held_out=0.1, seed=0)
    few = {"epochs": 30, "batch_users": 50, "learning_rate": 4e-3}
    nets = od.MultDAE(rank=100, **few), od.CDAE(width=100, **few)
    models = [net.fit(split.train, validation=split.validation) for net in nets] + [od.WMF(rank=32).fit(split.train)]
    ease, popular = (od.evaluate(model.fit(split.train), split.test) for model in (od.EASE(), od.Popularity()))
    for model in models:
        found = od.evaluate(model, split.test)
        assert found.mean["ndcg@100"] > 0.93 * ease.mean["ndcg@100"], type(model).__name__
        assert found.compare(popular).difference["ndcg@100"] > 10 * found.compare(popular).sem["ndcg@100"]
