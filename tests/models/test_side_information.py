"""Features and priors in a fit: pseudo-users of the Gram, as held-out users ask for; nothing else changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.gramian.sparse import sparse_gram
from offdiag.models import side_information
from tests.fixtures.mistakes import refused
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions

GRAM_MODELS = [od.EASE, od.DLAE, od.EDLAE, od.RDLAE]
LOW_RANK = [od.LowRankDLAE, od.LowRankEDLAE, od.WeightDecayLAE, od.Spectral]
MODELS = [*GRAM_MODELS, od.SparseEDLAE, *LOW_RANK]


def shop(m=24, seed=0, useful=True):
    """Users who stay within one of three kinds of items, and features that say which kind, or nothing."""
    rng = np.random.default_rng(seed)
    kind = np.arange(m) % 3
    likes = rng.integers(0, 3, 500)
    X = rng.random((500, m)) < np.where(likes[:, None] == kind, 10.0, 0.5) / m
    X[:3] = True
    tags = kind if useful else rng.permutation(kind)
    names = [f"item {i:03}" for i in range(m)]
    table = {"item": names, "tag": [f"kind {k}" for k in tags], "size": rng.random(m)}
    return od.read(X.astype(np.float32), item_ids=names), od.read_features(table, categories="tag", numbers="size")


def weights(model):
    return model.weights_.toarray()


@pytest.mark.parametrize("make", MODELS, ids=lambda cls: cls.__name__)
def test_a_weight_of_zero_is_a_fit_without_features(make):
    X, features = shop()
    plain = make().fit(X)
    none = make(feature_weight=0.0).fit(X, item_features=features)
    assert np.array_equal(weights(plain), weights(none))
    assert "feature_weight" not in plain.settings_
    assert none.settings_ == plain.settings_ | {"feature_weight": 0.0} | (
        {"prior_weight": 0.0} if "prior_weight" in none.settings_ else {}
    )


def pseudo_users(X, features, weight, power):
    """X and its features as one matrix of weighted rows, in plain NumPy."""
    dense = X.matrix.toarray().astype(np.float64)
    G = oracles.gram(dense, power)
    F = features.rows(X.item_ids).toarray()
    own = (F**2).sum(axis=1)
    unit = oracles.on_grid(np.diag(G)[own > 0].sum() / own.sum())
    return np.vstack([dense * np.sqrt(oracles.user_weights((dense != 0).sum(axis=1), power))[:, None],
                      np.sqrt(weight * unit) * F.T])  # fmt: skip


@pytest.mark.parametrize("neighbours", [5, 24])
def test_vectors_have_negative_products_in_sparse_columns_too(neighbours):
    X, _ = shop()
    vectors = np.random.default_rng(5).normal(size=(24, 3)).tolist()
    features = od.read_features({"item": X.item_ids, "v": vectors}, vectors="v")
    given = {"dropout": 0.3, "l2": 3.0, "feature_weight": 1.0, "user_power": 0.0, "dtype": "float64"}
    model = od.SparseEDLAE(neighbours=neighbours, **given).fit(X, item_features=features)
    for G in (od.gram(X, dtype="float64"), sparse_gram(X)):
        by_gram = od.SparseEDLAE(neighbours=neighbours, **given).fit_gram(
            G, item_ids=X.item_ids, item_features=features
        )
        np.testing.assert_allclose(weights(model), weights(by_gram), atol=1e-12)
    if neighbours == 24:
        dense = od.EDLAE(**given).fit(X, item_features=features)
        np.testing.assert_allclose(weights(model), weights(dense), atol=1e-12)


@pytest.mark.parametrize("make", [od.EASE, od.EDLAE, od.SparseEDLAE], ids=lambda cls: cls.__name__)
def test_features_go_together_with_groups(make):
    X, features = shop()
    group = [*np.arange(24) // 3]
    given = {"l2": 3.0, "user_power": 0.5, "feature_weight": 0.4, "dtype": "float64"}
    given |= {} if make is od.EASE else {"dropout": 0.3}
    model = make(**given).fit(X, item_features=features, groups=group)
    rows = pseudo_users(X, features, 0.4, 0.5)
    wanted = oracles.grouped_weights(rows.T @ rows, group, given.get("dropout", 0.0), 3.0)
    np.testing.assert_allclose(weights(model), wanted, atol=1e-10)
    model.forget(X.select_users(slice(0, 20)))
    fresh = make(**given).fit(X.select_users(slice(20, 500)), item_features=features, groups=group)
    np.testing.assert_allclose(weights(model), weights(fresh), atol=1e-12)


@pytest.mark.parametrize("make", GRAM_MODELS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_are_users_appended_to_the_data(make, dtype):
    X, features = shop()
    model = make(l2=3.0, user_power=0.5, feature_weight=0.4, dtype=dtype).fit(X, item_features=features)
    rows = pseudo_users(X, features, 0.4, 0.5)
    assert rows.min() >= 0
    appended = make(l2=3.0, user_power=0.0, dtype=dtype).fit(rows)
    np.testing.assert_allclose(weights(model), weights(appended), atol=5 * oracles.TOLERANCE[dtype])
    assert np.isclose(model.objective_, appended.objective_, rtol=oracles.TOLERANCE[dtype])


@pytest.mark.parametrize("make", [od.SparseEDLAE, *LOW_RANK[:3]], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("products", ["gram", "data"])
def test_other_families_learn_from_the_same_users(make, products):
    X, features = shop()
    given = {"l2": 3.0, "dtype": "float64"}
    given |= {"neighbours": 6} if make is od.SparseEDLAE else {"rank": 5, "products": products}
    model = make(user_power=0.5, feature_weight=0.4, **given).fit(X, item_features=features)
    appended = make(user_power=0.0, **given).fit(pseudo_users(X, features, 0.4, 0.5))
    np.testing.assert_allclose(weights(model), weights(appended), atol=1e-5)  # 24 digits of user weights


def test_pseudo_users_are_not_counted_as_users():
    X, features = shop()
    for make in MODELS:
        model, plain = make(feature_weight=0.5).fit(X, item_features=features), make().fit(X)
        assert model.n_users_ == plain.n_users_
        assert np.array_equal(model.popularity_, plain.popularity_)
        assert model.counts_users_
        assert model.settings_.get("l2") == plain.settings_.get("l2")


@given(X=interactions(min_items=2), weight=st.sampled_from([0.1, 2.0]), seed=st.integers(0, 99), dtype=dtypes)
def test_any_data_and_features_give_the_optimum(X, weight, seed, dtype):
    rng = np.random.default_rng(seed)
    m = X.shape[1]
    rows = sparse.csr_array((rng.random((m, 4)) < 0.5) * rng.normal(size=(m, 4)))
    side = side_information.Side(rows)
    model = od.EDLAE(dropout=0.3, l2=2.0, user_power=0.0, feature_weight=weight, dtype=dtype)
    G = od.gram(X, dtype=dtype)
    whole = G.toarray().astype(np.float64)
    whole = whole + weight * side.unit(np.diag(whole)) * (rows @ rows.T).toarray()
    side.add_to(G, model)
    np.testing.assert_allclose(G.toarray(), whole, atol=oracles.TOLERANCE[dtype] * max(whole.max(), 1))


def test_the_order_and_the_number_of_features_do_not_matter():
    X, features = shop()
    model = od.EDLAE(feature_weight=0.3, dtype="float64").fit(X, item_features=features)
    order = np.random.default_rng(0).permutation(features.matrix.shape[1])
    twice = sparse.csr_array(sparse.hstack([features.matrix[:, order]] * 2))
    other = od.Features(features.items, twice, features.blocks)
    again = od.EDLAE(feature_weight=0.3, dtype="float64").fit(X, item_features=other)
    np.testing.assert_allclose(weights(model), weights(again), atol=1e-12)


@pytest.mark.parametrize("make", MODELS, ids=lambda cls: cls.__name__)
def test_useful_features_are_used_and_useless_ones_are_not(make):
    X, features = shop(150)
    assert make().fit(X, item_features=features).settings_["feature_weight"] > 0
    X, features = shop(150, useful=False)
    assert make().fit(X, item_features=features).settings_["feature_weight"] == 0


def test_few_users_choose_nothing():
    X, features = shop()
    assert od.EASE().fit(X[:100], item_features=features).settings_["feature_weight"] == 0


def test_items_without_users_get_weights_from_their_features():
    X, features = shop()
    entries = X.matrix.indices != 0
    cold = X.select_entries(entries)
    plain = weights(od.EASE(l2=3.0).fit(cold))
    assert not plain[:, 0].any()
    warm = weights(od.EASE(l2=3.0, feature_weight=0.3).fit(cold, item_features=features))
    same, other = np.arange(3, 24, 3), np.arange(1, 24, 3)
    assert warm[same, 0].mean() > warm[other, 0].mean() + 0.01


def test_a_table_is_read_and_partial_features_are_logged(caplog):
    X, _ = shop()
    table = {"item": ["item 000", "item 001", "elsewhere"], "tag": ["a", "b", "a"]}
    with caplog.at_level("INFO", logger="offdiag"):
        od.EASE(l2=3.0, feature_weight=0.1).fit(X, item_features=table)
    assert "22 of 24 items have no row in the features" in caplog.text
    assert "1 row is of an item that the model does not know" in caplog.text


def test_a_prior_pulls_the_weights_towards_it():
    X, _ = shop()
    W = np.random.default_rng(0).normal(size=(24, 24)) / 10
    np.fill_diagonal(W, 0.0)
    G = oracles.gram(X.matrix.toarray())
    model = od.EDLAE(dropout=0.3, l2=2.0, user_power=0.0, prior_weight=7.0, dtype="float64").fit(X, prior=W)
    np.testing.assert_allclose(weights(model), oracles.weights_near(G, W, 7.0, 0.3, 2.0), atol=1e-10)
    assert np.isclose(model.objective_, oracles.loss_near(G, weights(model), W, 7.0, 0.3, 2.0))
    by_gram = od.EDLAE(dropout=0.3, l2=2.0, prior_weight=7.0, dtype="float64").fit_gram(od.gram(X), prior=W)
    np.testing.assert_allclose(weights(by_gram), weights(model), atol=1e-12)
    far = od.EDLAE(prior_weight=1e9, dtype="float64").fit(X, prior=sparse.csr_array(W))
    np.testing.assert_allclose(weights(far), W, atol=1e-5)


@pytest.mark.parametrize("make", GRAM_MODELS, ids=lambda cls: cls.__name__)
def test_the_prior_of_every_model_is_reached(make):
    X, _ = shop()
    first = od.EASE(l2=5.0).fit(X.select_items(slice(4, 24)))
    model = make(prior_weight=1e8, dtype="float64", propensity_power=0.3).fit(X, prior=first)
    expected = np.zeros((24, 24))
    expected[4:, 4:] = weights(first)
    found = weights(model.with_propensity(0.0))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_features_are_a_prior_too():
    X, features = shop()
    model = od.EASE(l2=5.0, prior_weight=1e8, feature_weight=0.0, dtype="float64").fit(X, item_features=features)
    F = features.rows(X.item_ids).toarray()
    np.testing.assert_allclose(weights(model), oracles.weights(F @ F.T, 0.0, side_information.RIDGE, 0.0), atol=1e-5)


def test_a_prior_is_used_as_much_as_it_helps():
    X, _ = shop(150)
    good = np.equal.outer(np.arange(150) % 3, np.arange(150) % 3) / 50
    assert od.EASE().fit(X, prior=good).settings_["prior_weight"] > 0
    bad = np.random.default_rng(0).normal(size=(150, 150))
    assert od.EASE().fit(X, prior=bad).settings_["prior_weight"] == 0


def test_models_with_features_are_saved(tmp_path):
    X, features = shop()
    model = od.EDLAE(feature_weight=0.2).fit(X, item_features=features)
    model.save(tmp_path / "m.od")
    again = od.load(tmp_path / "m.od")
    assert again.settings_ == model.settings_
    assert np.array_equal(again.recommend(X, k=5).indices, model.recommend(X, k=5).indices)
    with refused("does not have its Gram any more"):
        again.update(X[:5])
    with refused("received a model fitted with item_features"):
        model.explain_pair("item 000", "item 001")
    near = od.EDLAE(prior_weight=2.0).fit(X, item_features=features)
    with refused("fitted with prior_weight cannot be updated"):
        near.save(tmp_path / "u.od", updatable=True)
    unused = od.EDLAE(feature_weight=0.0).fit(X, item_features=features)
    plain = od.EDLAE().fit(X)
    assert np.array_equal(weights(unused.update(X[:5])), weights(plain.update(X[:5])))


@pytest.mark.slow
def test_a_million_tags_are_learned_from_and_forgotten():
    X, _ = shop()
    tags = [[f"t{n}" for n in range(42_000 * place, 42_000 * (place + 1))] + [f"k{place % 3}"] for place in range(24)]
    features = od.read_features({"item": X.item_ids, "tag": tags}, categories="tag")
    assert len(features.names) == 24 * 42_000 + 3
    for model in (od.EDLAE(feature_weight=0.5), od.SparseEDLAE(neighbours=5, feature_weight=0.5), od.Spectral(rank=3)):
        model.fit(X, item_features=features)
        assert model.forget(X.select_users([0])).n_users == X.n_users - 1


def test_mistakes_are_explained():
    X, features = shop()
    with refused("feature_weight=0.3 needs features of the items"):
        od.EDLAE(feature_weight=0.3).fit(X)
    with refused("feature_weight=0.3 needs features of the items"):
        od.SparseEDLAE(feature_weight=0.3).fit_gram(od.gram(X))
    with refused("prior_weight=3.0 needs features of the items or a prior"):
        od.EASE(prior_weight=3.0).fit(X)
    with refused("feature_weight must be a number"):
        od.EDLAE(feature_weight=-1.0).fit(X, item_features=features)
    with refused("feature_weight is chosen from data, received a Gram"):
        od.EASE().fit_gram(od.gram(X), item_ids=X.item_ids, item_features=features)
    with refused("expected a prior of 24 × 24 numbers"):
        od.EASE(prior_weight=1.0).fit(X, prior=np.zeros((3, 3)))
    with refused("NaN or infinite"):
        od.EASE(prior_weight=1.0).fit(X, prior=np.full((24, 24), np.nan))
    with refused("knows none of them"):
        od.EASE(prior_weight=1.0).fit(X, prior=od.EASE(l2=1.0).fit(np.eye(3) + 1))
    with refused("kept_weight must be 0 or 1"):
        od.EDLAE(prior_weight=1.0, kept_weight=0.5).fit(X, prior=np.zeros((24, 24)))
    with refused("received none of them but"):
        od.EASE().fit(X, item_features=od.read_features({"item": [1, 2], "t": ["a", "b"]}, categories="t"))
