"""Features of items on a cluster: the pseudo-users of one machine, and what they count for."""

import numpy as np
import pytest

import offdiag as od

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")

PLAIN = {"dropout": 0.4, "l2": 9.0, "user_power": 0.5, "dtype": "float64"}
SINGLE = {"item_power": 0.2, "dtype": "float32"}


def shop(m=60, n=300):
    """Users who stay within one of three kinds of items, and features that say which kind; one item has none."""
    rng = np.random.default_rng(0)
    kind, names = np.arange(m) % 3, [f"item {i:03}" for i in range(m)]
    likes = rng.integers(0, 3, n)
    X = rng.random((n, m)) < np.where(likes[:, None] == kind, 10.0, 0.5) / m
    X[:3] = True
    table = {"item": names[1:], "tag": [f"kind {k}" for k in kind[1:]], "size": rng.random(m - 1)}
    return od.read(X.astype(np.float32), item_ids=names), od.read_features(table, categories="tag", numbers="size")


@pytest.mark.parametrize(
    ("model", "fit", "options"),
    [
        (od.EDLAE(**PLAIN), "fit_full_rank", {"tile": 23}),
        (od.SparseEDLAE(neighbours=12, feature_weight=0.7, **PLAIN | SINGLE), "fit_sparse", {}),
        (od.SparseEDLAE(neighbours=100, block_bytes=9_000, **PLAIN | SINGLE), "fit_sparse", {}),
        (od.LowRankDLAE(rank=5, feature_weight=2.0, products="data", **PLAIN), "fit_low_rank", {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_features_are_those_of_one_machine(client, model, fit, options):
    X, features = shop()
    make = type(model)
    here = make(**model.get_params()).fit(X, item_features=features)
    there = getattr(od.cluster, fit)(
        make(**model.get_params()), X, item_features=features, client=client, **options
    )  # fmt: skip
    assert here.settings_["feature_weight"] > 0
    assert there.settings_ == here.settings_
    near = 1e-6 if "rank" in here.settings_ else {"float64": 1e-10, "float32": 1e-5}[model.dtype]
    np.testing.assert_allclose(there.weights_.toarray(), here.weights_.toarray(), rtol=0, atol=near)
    assert (there.n_users_, there.popularity_.tolist()) == (here.n_users_, here.popularity_.tolist())
    new = od.read_features({"item": ["new"], "tag": ["kind 1"], "size": [0.5]}, like=here.item_features_)
    assert there.add_items(new).new_items_.items.tolist() == here.add_items(new).new_items_.items.tolist()


def test_a_checkpoint_is_of_its_features(client, mistake, tmp_path):
    X, features = shop()
    fit, model = od.cluster.fit_sparse, od.SparseEDLAE(neighbours=5, feature_weight=1.0, **PLAIN)
    fit(model, X, item_features=features, client=client, checkpoint=tmp_path / "kept")
    other = od.read_features({"item": X.item_ids, "tag": ["a", "b"] * 30}, categories="tag")
    assert "features" in mistake(fit, model, X, item_features=other, client=client, checkpoint=tmp_path / "kept")


def test_what_a_cluster_does_not_take_is_refused(client, mistake):
    X, features = shop()
    model = od.EASE(l2=1.0, prior_weight=2.0)
    said = mistake(od.cluster.fit_full_rank, model, X, item_features=features, client=client)
    assert "a prior is not taken on a cluster" in said
    assert "feature_weight=1.0 needs features" in mistake(
        od.cluster.fit_sparse, od.SparseEDLAE(feature_weight=1.0), X, client=client
    )
