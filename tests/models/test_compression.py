"""Compressed models: models like any other, with fewer and shorter numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag import persist
from offdiag.weights import Dense
from tests.fixtures.coded_weights import all_storages, model_of, random_weights
from tests.laws.examples import example

ROOT = Path(__file__).resolve().parents[2]


def test_weights_outside_the_range_of_float32_are_refused():
    for bad in (np.nan, np.inf, 1e39):
        W = np.eye(3)
        W[0, 1] = bad
        with pytest.raises(od.OffdiagError, match="range of float32"), np.errstate(over="ignore"):
            od.compress(model_of(Dense(W)), keep=1)


def test_by_default_a_tenth_of_the_bytes_remains():
    W = random_weights(300)
    W[:, 5] = W[7] = 0
    popularity = np.full(300, 3.0)
    popularity[7] = 0
    found = od.compress(model_of(Dense(W), popularity))
    assert 0.097 * W.nbytes < found.weights_.nbytes <= W.nbytes // 10
    assert found.compressed_["storage"] == "int8"
    assert not found.weights_.toarray()[:, 5].any()
    nothing = od.compress(model_of(Dense(np.zeros((4, 4), np.float32)), np.zeros(4)))
    assert nothing.compressed_["entries"] == 0
    assert not nothing.weights_.toarray().any()


# The laws of every model

MODELS = {
    "EDLAE": lambda: od.EDLAE(dropout=0.3, l2=2.0),
    "EDLAE double": lambda: od.EDLAE(dropout=0.3, l2=2.0, dtype="float64"),
    "DLAE dense": lambda: od.DLAE(dropout=0.4, l2=2.0, storage="dense"),
    "RDLAE": lambda: od.RDLAE(l2=2.0, propensity_power=0.3),
    "LowRankEDLAE": lambda: od.LowRankEDLAE(rank=3, dropout=0.3, l2=2.0),
    "Spectral": lambda: od.Spectral(rank=3),
    "SLIM": lambda: od.SLIM(),
    "ItemKNN": lambda: od.ItemKNN(neighbours=5),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


@pytest.mark.parametrize(
    "make",
    [od.EDLAE(dropout=0.3, l2=5.0), od.EDLAE(l2=5.0, dtype="float64"), od.SparseEDLAE(neighbours=10, l2=3.0)],
    ids=["float32", "float64", "sparse"],
)
def test_another_propensity_needs_no_full_matrix(make):
    whole = make.fit(od.synthetic.interactions(80, 30, 900, seed=1))
    scaled = od.compress(whole, storage="float32", keep=30).with_propensity(0.4)
    assert scaled.weights_.kind == "compressed"
    np.testing.assert_allclose(scaled.weights_.toarray(), whole.with_propensity(0.4).weights_.toarray(), rtol=1e-5)


@pytest.mark.slow
@every_model
@all_storages
def test_a_compressed_model_is_a_model_like_any_other(make, storage, tmp_path):
    X = example()
    whole = make().fit(X)
    before = whole.predict(X)
    model = od.compress(whole, keep=6, storage=storage)
    assert np.array_equal(whole.predict(X), before)
    assert type(model) is type(whole)
    assert model.settings_ == whole.settings_
    assert model.get_params() == whole.get_params()
    assert (np.count_nonzero(model.weights_.toarray(), axis=0) <= 6).all()

    found = model.recommend(X, k=4)
    assert not any(X.toarray()[u, i] for u, row in enumerate(found.indices) for i in row if i >= 0)
    for u in (0, 7):
        one = model.recommend(X[[u]], k=4)
        assert np.array_equal(one.indices[0], found.indices[u])
        assert np.array_equal(one.scores[0], found.scores[u])
    assert np.array_equal(model.similar([1, 2], k=3).items, model.recommend([[1], [2]], k=3).items)

    model.save(tmp_path / "model.od")
    again = od.load(tmp_path / "model.od")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert again.compressed_ == model.compressed_ == json.loads(json.dumps(model.compressed_))
    assert np.array_equal(again.recommend(X, k=4).items, found.items)
    stored = persist.describe(tmp_path / "model.od")["tensors"]
    sizes = {name: tensor["bytes"] for name, tensor in stored.items() if name.startswith("weights.")}
    assert sum(sizes.values()) == model.weights_.nbytes == model.compressed_["bytes"]


def test_everything_kept_in_single_precision_is_the_same_model():
    X = example()
    whole = od.EDLAE(dropout=0.3, l2=2.0).fit(X)
    for keep in (13, 14, 10**9):
        model = od.compress(whole, keep=keep, storage="float32")
        assert np.array_equal(model.weights_.toarray(), whole.weights_.toarray())
        assert np.array_equal(model.recommend(X, k=5).indices, whole.recommend(X, k=5).indices)


def test_compressing_twice_equals_compressing_once():
    whole = od.EDLAE(dropout=0.3, l2=2.0).fit(example())
    once = od.compress(whole, keep=6, storage="float32")
    twice = od.compress(once, keep=3, storage="float32")
    direct = od.compress(whole, keep=3, storage="float32")
    assert np.array_equal(twice.weights_.toarray(), direct.weights_.toarray())
    assert twice.compressed_["weights_before"] == "compressed"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"keep": 0}, "keep must be a whole number of at least 1 or None, received 0"),
        ({"keep": -3}, "keep must be"),
        ({"keep": 2.0}, "keep must be"),
        ({"keep": True}, "keep must be"),
        ({"max_bytes": 0}, "max_bytes must be"),
        ({"max_bytes": "20MB"}, "max_bytes must be"),
        ({"max_bytes": 100}, r"room for one weight per item, \d+ bytes as int8, received 100"),
        ({"storage": "float64"}, "storage must be 'float32', 'float16' or 'int8', received 'float64'"),
        ({"storage": None}, "storage must be"),
    ],
)
def test_limits_that_cannot_be_met_are_named(limits, message):
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(example())
    with pytest.raises(od.OffdiagError, match=message):
        od.compress(model, **limits)


def test_models_that_are_not_linear_or_not_fitted_are_refused():
    X = example()
    for model in (od.Popularity().fit(X), od.WMF(rank=2).fit(X)):
        with pytest.raises(od.OffdiagError, match="expected a linear model"):
            od.compress(model)
    with pytest.raises(od.OffdiagError, match="not fitted yet"):
        od.compress(od.EDLAE())
    with pytest.raises(od.OffdiagError, match="expected a fitted model, received str"):
        od.compress("model.od")


def test_embeddings_are_gone_and_the_error_says_so():
    X = example()
    low_rank = od.compress(od.LowRankEDLAE(rank=3).fit(X), keep=5)
    spectral = od.compress(od.Spectral(rank=3).fit(X), keep=5)
    for call in (
        lambda: low_rank.encoder_,
        lambda: low_rank.similar(1, space="encoder"),
        lambda: spectral.singular_values_,
        lambda: spectral.with_shrink("hard"),
    ):
        with pytest.raises(od.OffdiagError, match="embeddings"):
            call()
    assert not hasattr(low_rank.weights_, "nonsense")


# Real data


@pytest.mark.slow
def test_a_tenth_of_the_bytes_loses_little_on_movielens(shared_data):
    inter = od.prepare.binarize(od.datasets.load("ml-1m", shared_data("ml-1m")))
    split = od.split.strong(inter, held_out=0.1, seed=0)
    whole = od.EDLAE().fit(split.train)
    small = od.compress(whole)
    before, after = (od.evaluate(m, split.test, ["ndcg@100"]).mean["ndcg@100"] for m in (whole, small))
    assert after >= 0.99 * before
    assert small.weights_.nbytes <= whole.weights_.nbytes / 10
