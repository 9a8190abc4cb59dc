"""Features in a model of order: items that share a feature may follow each other."""

import numpy as np
import pytest

import offdiag as od
from offdiag.gramian import layout
from offdiag.gramian.order import OrderSums
from offdiag.models import order_features
from offdiag.models.side_information import Side
from tests.fixtures.mistakes import refused
from tests.laws import oracles


def shop(n=400, m=90, seed=0, useful=True):
    """Users who go from any item of one kind to any other of it, and features that say which kind, or nothing."""
    rng = np.random.default_rng(seed)
    kind = np.arange(m) % 3
    users, items, days = [], [], []
    for user in range(n):
        chosen = rng.choice(np.flatnonzero(kind == user % 3), 4, replace=False)
        users += [user] * 4
        items += chosen.tolist()
        days += [1, 2, 3, 4]
    X = od.read({"user": users, "item": items, "day": days}, time="day", keep="events")
    tags = [f"kind {k}" for k in (kind if useful else rng.permutation(kind))]
    return X, od.read_features({"item": range(m), "tag": tags, "size": rng.random(m)}, categories="tag", numbers="size")


def test_a_weight_of_zero_is_a_fit_without_features():
    X, features = shop()
    plain = od.NextItem().fit(X)
    none = od.NextItem(feature_weight=0.0).fit(X, item_features=features)
    assert np.array_equal(plain.weights_.toarray(), none.weights_.toarray())
    assert none.settings_ == plain.settings_ | {"feature_weight": 0.0}


@pytest.mark.parametrize("repeats", [False, True])
def test_the_same_sum_is_added_to_sources_and_targets(repeats):
    X, features = shop(m=30)
    given = {"mix": 0.3, "decay": 1.0, "l2": 2.0, "dropout": 0.2, "user_power": 0.0, "history_decay": 1.0}
    rows = features.rows(X.item_ids)
    sequences = [X.history(user) for user in X.user_ids]
    A, K = oracles.order_sums(sequences, 30)
    G = oracles.gram(X.matrix.toarray())
    A, K = 0.3 * G + 0.7 * A, 0.3 * G + 0.7 * K
    F = (rows @ rows.T).toarray()
    F *= 0.4 * oracles.on_grid(np.trace(A) / np.trace(F))
    expected = oracles.next_item_weights(A + F, K + F - np.diag(np.diag(F)), 0.2, 2.0, repeats=repeats)
    model = od.NextItem(feature_weight=0.4, repeats=repeats, dtype="float64", **given).fit(X, item_features=features)
    np.testing.assert_allclose(model.weights_.toarray(), expected, atol=1e-10)


def test_useful_features_are_used_and_useless_ones_are_not():
    X, features = shop(n=100, m=300)
    assert od.NextItem().fit(X, item_features=features).settings_["feature_weight"] > 0
    X, features = shop(n=100, m=300, useful=False)
    assert od.NextItem().fit(X, item_features=features).settings_["feature_weight"] == 0


def test_nothing_is_added_without_a_weight():
    sums = OrderSums(np.ones(layout.size(3)), np.ones((3, 3)))
    order_features.add(sums, Side(), od.NextItem(feature_weight=0.0))
    assert (sums.A == 1).all()
    assert (sums.K == 1).all()


def test_few_users_choose_nothing_and_mistakes_are_explained():
    X, features = shop(n=30)
    assert od.NextItem().fit(X, item_features=features).settings_["feature_weight"] == 0
    with refused("item_features or neighbours, received both"):
        od.NextItem(neighbours=5).fit(X, item_features=features)
    with refused("feature_weight=0.2 needs features of the items"):
        od.NextItem(feature_weight=0.2).fit(X)
