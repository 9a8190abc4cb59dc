"""Items added to fitted models by their features: recommended, explained, kept, updated and removed."""

import copy
import warnings

import numpy as np
import pytest
from scipy import sparse

import offdiag as od

KINDS = 6


def table(n):
    return {
        "item": list(range(n)),
        "kind": [f"kind {i % KINDS}" for i in range(n)],
        "tags": [f"a{i % 4}|b{i % 3}" for i in range(n)],
    }


@pytest.fixture(scope="module")
def inter():
    """Users who choose items of one kind: 60 items, of which the features are informative."""
    rng = np.random.default_rng(0)
    taste = rng.integers(KINDS, size=300)
    p = np.where(np.arange(60) % KINDS == taste[:, None], 0.4, 0.03)
    return od.read((rng.random((300, 60)) < p).astype(float))


@pytest.fixture(scope="module")
def features():
    return od.read_features(table(66), categories=["kind", "tags"])


MODELS = {
    "packed": od.EDLAE(),
    "dense": od.EASE(l2=10.0, storage="dense", dtype="float64"),
    "sparse": od.SparseEDLAE(neighbours=20),
    "smoothed": od.SparseEDLAE(neighbours=20, rank=8, smooth=0.3),
    "low rank": od.LowRankEDLAE(rank=12),
    "spectral": od.Spectral(rank=12),
    "knn": od.ItemKNN(),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, inter):
    return copy.deepcopy(MODELS[request.param]).fit(inter)


@pytest.fixture(scope="module")
def with_new(model, features):
    return copy.copy(model).add_items(features)


@pytest.fixture
def grown(with_new):
    """The model with all new items, to be changed."""
    return copy.copy(with_new)


def test_new_items_are_recommended_to_those_who_like_their_kind(grown):
    assert grown.new_items_.items.tolist() == [60, 61, 62, 63, 64, 65]
    for item in range(60, 66):
        fans = [[j for j in range(60) if j % KINDS == item % KINDS][:4]]
        first = grown.recommend(fans, k=1, allow=list(range(60, 66))).items[0, 0]
        assert first == item
    like = grown.new_items_.to_polars().filter(item=63)["like"].to_list()
    assert all(other % KINDS == 3 or other % 4 == 3 for other in like)


def test_the_scores_of_other_items_do_not_change_at_all(model, inter, features):
    before = model.predict(inter)
    grown = copy.copy(model).add_items(features)
    assert grown.predict(inter)[:, :60].tobytes() == before.tobytes()
    assert model.predict(inter).tobytes() == before.tobytes()  # the copy was changed, not the model
    old, new = model.recommend(inter, k=8).items, grown.recommend(inter, k=8).items
    for one, other in zip(old.tolist(), new.tolist(), strict=True):
        kept = [item for item in other if item < 60]
        assert kept == one[: len(kept)]


def test_removed_items_leave_the_weights_of_the_fit_themselves(model, grown):
    grown.remove_items([61, 65])
    assert grown.new_items_.items.tolist() == [60, 62, 63, 64]
    grown.remove_items([60, 62, 63, 64])
    assert grown.weights_ is model.weights_
    assert np.array_equal(grown.item_ids_, model.item_ids_)
    assert np.array_equal(grown.popularity_, model.popularity_)
    assert not len(grown.new_items_)
    assert not set(range(60, 66)) & set(grown.item_features_.items.tolist())


def test_items_can_be_added_one_after_another(model, grown, inter, features):
    twice = copy.copy(model).add_items(features.select([*range(60), 62, 64]))
    twice.add_items(features.select([60, 61, 63, 65]))
    assert twice.item_ids_[60:].tolist() == [62, 64, 60, 61, 63, 65]
    order = np.argsort(twice.item_ids_)
    scores = twice.predict(inter.matrix @ np.eye(60, 66))[:, order]
    np.testing.assert_allclose(scores[:, :60], grown.predict(inter)[:, :60])
    np.testing.assert_allclose(twice.weights_.into[:, np.argsort(twice.item_ids_[60:])], grown.weights_.into, rtol=1e-4)


def test_files_keep_new_items_and_their_features(model, inter, features, tmp_path):
    grown = copy.copy(model).add_items(features, boost=1.5)
    grown.save(tmp_path / "m.od")
    loaded = od.load(tmp_path / "m.od")
    assert loaded.predict(inter).tobytes() == grown.predict(inter).tobytes()
    assert loaded.new_items_.like == grown.new_items_.like
    more = od.read_features({"item": [70], "kind": ["kind 1"], "tags": ["a1"]}, like=loaded.item_features_)
    assert loaded.add_items(more).item_ids_[-1] == 70
    assert dict(loaded.added_items_) == dict.fromkeys(range(60, 66), 1.5) | {70: 1.0}


def test_boost_multiplies_the_scores_of_these_items(model, grown, inter, features):
    one, two = (m.predict(inter) for m in (grown, copy.copy(model).add_items(features, boost=2.0)))
    np.testing.assert_allclose(two[:, 60:], 2 * one[:, 60:], rtol=1e-4, atol=1e-6)


def test_explanations_say_what_a_new_item_is_like(grown):
    reasons = grown.explain([3, 9, 15], 63)
    assert reasons.score == reasons.contributions.sum()
    assert reasons.like == grown.new_items_.like[63]
    assert "new item, like" in reasons._repr_html_()
    assert grown.explain([3, 63], 9).like is None  # an item of the fit, from a history with a new one
    titled = grown.with_catalogue({"item": [3, 9], "title": ["Three", "Nine"]}).explain([1], 63)
    assert titled.like_names()[0] in ("Three", "Nine", *(item for item, _ in reasons.like))
    shown = grown.recommend([[63]], k=3, reasons=True).to_dicts()
    assert all(row["reason"] == 63 for row in shown)


def test_a_new_item_in_a_history_counts_as_the_items_it_is_like(grown):
    best = grown.recommend([[63]], k=5).items[0]
    assert sum(item % KINDS == 3 for item in best.tolist()) >= 3
    assert 63 not in best


@pytest.mark.parametrize("storage", ["packed", "dense"])
def test_users_of_a_new_item_give_it_its_own_weights(inter, features, storage):
    model = od.EASE(l2=10.0, dtype="float64", storage=storage).fit(inter).add_items(features)
    ids = np.array([3, 9, 63])
    fans = od.Interactions(sparse.csr_array(np.ones((5, 3))), np.arange(1_000, 1_005), ids)
    rows = np.zeros((5, 64))
    rows[:, ids] = 1
    before = model.predict(np.eye(66))
    model.update(fans)
    fitted = od.EASE(l2=10.0, dtype="float64").fit(np.vstack([np.pad(inter.matrix.toarray(), ((0, 0), (0, 4))), rows]))
    assert model.new_items_.items.tolist() == [60, 61, 62, 64, 65]
    mine = [model.item_ids_.tolist().index(item) for item in [*range(60), 63]]
    W = model.weights_.learned.toarray()
    theirs = [*range(60), 63]
    np.testing.assert_allclose(W[np.ix_(mine, mine)], fitted.weights_.toarray()[np.ix_(theirs, theirs)], atol=1e-8)
    model.forget(fans)
    assert sorted(model.item_ids_.tolist()) == list(range(66))
    assert model.new_items_.items.tolist() == [60, 61, 62, 63, 64, 65]
    np.testing.assert_allclose(model.predict(np.eye(66)), before, atol=1e-8)


def test_forgetting_before_or_after_adding_items_is_the_same(inter, features):
    some = inter.select_users(slice(0, 7))
    one, other = (od.EASE(l2=10.0, dtype="float64").fit(inter) for _ in range(2))
    one.add_items(features).forget(some)
    other.forget(some)
    other.add_items(features)
    assert one.weights_.into.tobytes() == other.weights_.into.tobytes()
    assert np.array_equal(one.item_ids_, other.item_ids_)


def test_an_error_in_an_update_leaves_the_new_items(inter, features):
    model = od.EASE(l2=10.0).fit(inter).add_items(features)
    before = model.predict(np.eye(66))
    with pytest.raises(od.OffdiagError):
        model.forget(od.Interactions(sparse.csr_array(np.ones((1, 2))), np.array([1]), np.array([0, 59])))
    assert model.predict(np.eye(66)).tobytes() == before.tobytes()
    assert len(model.new_items_) == 6


def test_the_living_state_of_a_model_with_new_items_is_read_back(inter, features, tmp_path):
    model = od.EASE(l2=10.0).fit(inter).add_items(features)
    model.save(tmp_path / "m.od", updatable=True, key=bytes(32))
    loaded = od.load(tmp_path / "m.od", key=bytes(32))
    loaded.forget(inter.select_users(slice(0, 3)))
    assert (loaded.n_users_, len(loaded.new_items_)) == (297, 6)
    assert loaded.gram_.n_items == 60


def test_models_with_new_items_can_be_compressed(inter, features):
    model = od.EDLAE().fit(inter).add_items(features)
    small = od.compress(model, keep=15)
    assert small.item_ids_.tolist() == model.item_ids_.tolist()
    assert small.recommend([[3, 9, 15]], k=1, allow=list(range(60, 66))).items[0, 0] == 63
    with pytest.raises(od.OffdiagError, match="compressed"):
        small.add_items(features)
    with pytest.raises(od.OffdiagError, match="added after the fit"):
        small.remove_items([63])


def test_a_new_fit_forgets_new_items(inter, features):
    model = od.EASE(l2=10.0).fit(inter).add_items(features)
    assert model.fit(inter).item_features_ is None
    assert not len(model.new_items_)
    assert model.added_items_ == ()


def test_histories_in_order_have_new_items_too(features):
    rng = np.random.default_rng(1)
    rows = [(u, int(i) * KINDS + u % KINDS, t) for u in range(200) for t, i in enumerate(rng.permutation(10)[:6])]
    log = dict(zip(("user", "item", "time"), zip(*rows, strict=True), strict=True))
    model = od.NextItem(l2=5.0).fit({name: list(column) for name, column in log.items()})
    model.add_items(features)
    assert model.recommend([[3, 9, 15]], k=1, allow=list(range(60, 66))).items[0, 0] == 63


def test_items_that_share_no_feature_are_left_out_and_named(inter):
    known = od.read_features(table(60), categories=["kind", "tags"])
    new = od.read_features({"item": [80, 81], "kind": ["kind 1", "other"], "tags": ["", ""]}, like=known)
    model = od.EASE(l2=10.0).fit(inter)
    with pytest.warns(od.FeaturesWarning, match="1 of 2 new items .* left out: 81"):
        model.add_items(new, item_features=known)
    assert model.new_items_.items.tolist() == [80]


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda f: {"features": f.select(range(60))}, "already"),
        (lambda f: {"features": f.select([60, 61])}, "expected features of the items"),
        (lambda f: {"features": f, "boost": 0.0}, "boost"),
        (lambda f: {"features": od.read_features(table(66), categories="kind"), "item_features": f}, "like="),
        (lambda f: {"features": od.read_features({"item": ["x", "y"], "kind": ["a", "b"]})}, "whole"),
    ],
)
def test_what_cannot_be_added_is_an_error_and_changes_nothing(inter, features, give, message):
    model = od.EASE(l2=10.0).fit(inter)
    with pytest.raises(od.OffdiagError, match=message):
        model.add_items(**give(features))
    assert len(model.item_ids_) == 60
    with pytest.raises(od.OffdiagError, match="added after the fit"):
        model.remove_items([3])


def test_models_that_are_not_linear_refuse_new_items(inter, features):
    with pytest.raises(od.OffdiagError, match="linear"):
        od.WMF(rank=4, iterations=2).fit(inter).add_items(features)


def test_a_table_is_read_like_the_features_of_the_model(inter, features):
    model = od.EASE(l2=10.0).fit(inter).add_items(features.select(range(62)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.add_items({"item": [90], "kind": ["kind 2"], "tags": ["a1|b2"]})
    assert model.new_items_.items.tolist() == [60, 61, 90]


@pytest.mark.parametrize("name", ["packed", "sparse", "low rank"])
def test_a_fit_with_features_needs_only_those_of_new_items(inter, features, name):
    known = features.select(range(60))
    model = copy.deepcopy(MODELS[name]).fit(inter, item_features=known)
    assert model.item_features_ is known
    model.add_items(features.select([60, 63]))
    assert model.new_items_.items.tolist() == [60, 63]
    assert len(model.item_features_) == 62
