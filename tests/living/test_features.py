"""Models that learned from features after a change of users: those of a fit with the same features."""

import copy

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.gramian import layout
from tests.fixtures.changed_models import CLOSE

N_USERS, M = 90, 24


def table(X, users, items, **more):
    return od.Interactions(sparse.csr_array(X), np.array(users), np.array(items), **more)


@pytest.fixture(scope="module")
def inter():
    rng = np.random.default_rng(2)
    taste = rng.integers(4, size=N_USERS)
    p = np.where(np.arange(M) % 4 == taste[:, None], 0.5, 0.12)
    X = (rng.random((N_USERS, M)) < p).astype(float)
    X[:, :3] = np.maximum(X[:, :3], rng.random((N_USERS, 3)) < 0.3)
    return table(X, np.arange(N_USERS), np.arange(M))


@pytest.fixture(scope="module")
def many(inter):
    """So many that one of them hardly ever moves the weight of the features on its grid."""
    return table(sparse.vstack([inter.matrix] * 20), np.arange(20 * N_USERS), np.arange(M))


@pytest.fixture(scope="module")
def features():
    """Tags and vectors; the last two items have none, and there are items that nobody has yet."""
    rng = np.random.default_rng(3)
    items = [*range(M - 2), 100, 101]
    known = {"item": items, "kind": [f"kind {i % 4}" for i in items]}
    known["v"] = [rng.normal(size=3).tolist() for _ in items]
    return od.read_features(known, categories="kind", vectors="v")


def of_all(model, inter, features, **words):
    """A fit with the settings of a model."""
    params = model.get_params()
    used = {name: value for name, value in model.settings_.items() if name in params}
    return type(model)(**params | used).fit(inter, item_features=features, **words)


def assert_like(model, other):
    assert model.item_ids_.tolist() == other.item_ids_.tolist()
    W, expected = model.weights_.toarray(), other.weights_.toarray()
    np.testing.assert_allclose(W, expected, rtol=0, atol=CLOSE[model.dtype] * max(1.0, np.abs(expected).max()))
    assert np.isclose(model.objective_, other.objective_, rtol=1e-4 if model.dtype == "float32" else 1e-9)


FULL_RANK = {
    "ease": od.EASE(l2=3.0, feature_weight=0.5, dtype="float64"),
    "dlae": od.DLAE(l2=3.0, dropout=0.3, feature_weight=1.0, user_power=0.0),
    "edlae": od.EDLAE(l2=3.0, dropout=0.3, feature_weight=1.0, propensity_power=0.3, dtype="float64"),
    "emphasis": od.EDLAE(l2=3.0, dropout=0.3, kept_weight=0.4, feature_weight=1.0, dtype="float64"),
    "rdlae": od.RDLAE(l2=3.0, dropout=0.3, max_diagonal=0.1, feature_weight=0.3, dtype="float64"),
    "dense": od.EDLAE(l2=3.0, feature_weight=0.5, storage="dense", dtype="float64"),
    "item power": od.EDLAE(l2=3.0, feature_weight=0.5, item_power=0.5, dtype="float64"),
}
SPARSE = {
    "few": od.SparseEDLAE(neighbours=6, l2=3.0, dropout=0.3, feature_weight=0.5, dtype="float64"),
    "all": od.SparseEDLAE(neighbours=M, l2=3.0, feature_weight=0.5, user_power=0.0, dtype="float64"),
    "smooth": od.SparseEDLAE(neighbours=6, l2=3.0, rank=4, user_power=1.0, feature_weight=0.5, dtype="float64"),
}


@pytest.mark.parametrize("model", (FULL_RANK | SPARSE).values(), ids=FULL_RANK | SPARSE)
def test_update_and_forget_equal_a_fit(model, inter, features):
    model = copy.deepcopy(model).fit(inter.select_users(slice(0, 70)), item_features=features)
    model.update(inter.select_users(slice(70, 90)))
    assert_like(model, of_all(model, inter, features))
    certificate = model.forget(inter.select_users(slice(0, 10)), prove=True)
    assert certificate.proof <= CLOSE[model.dtype]
    assert_like(model, of_all(model, inter.select_users(slice(10, 90)), features))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_user_changes_the_inverse(many, features, monkeypatch, dtype):
    """Woodbury's formula holds, because the weight of the features stays on its grid."""
    model = od.EDLAE(l2=3.0, dropout=0.3, feature_weight=1.0, user_power=0.0, dtype=dtype)
    model.fit(many, item_features=features)
    monkeypatch.setattr("offdiag.solvers.woodbury.flops", lambda m, s: 0.0)
    methods = []
    for user in range(8):
        certificate = model.forget(many.select_users([user]), prove=True)
        methods.append(certificate.method)
        assert certificate.proof <= 2 * max(certificate.weight_error, CLOSE[dtype])
        rest = many.select_users(slice(user + 1, 20 * N_USERS))
        assert_like(model, of_all(model, rest, features))
    assert methods.count("woodbury") >= 4


def test_a_wrong_inverse_is_found_by_the_residual(many, features, monkeypatch):
    model = od.EDLAE(l2=3.0, feature_weight=1.0, user_power=0.0, dtype="float64").fit(many, item_features=features)
    monkeypatch.setattr("offdiag.solvers.woodbury.flops", lambda m, s: 0.0)
    model.forget(many.select_users([1]))
    assert model.last_change.method == "woodbury"
    model.weights_.C[layout.positions(M, np.array([3]), np.array([9]))] += 1e-3
    model.forget(many.select_users([2]))
    assert model.last_change.method == "refit"
    assert_like(model, of_all(model, many.select_users([0, *range(3, 20 * N_USERS)]), features))


def test_an_error_during_a_change_leaves_the_old_model(many, features, monkeypatch):
    model = od.EDLAE(l2=3.0, feature_weight=1.0, user_power=0.0, dtype="float64").fit(many, item_features=features)
    model.gram_.values.flags.writeable = True
    before = model.weights_.toarray()
    monkeypatch.setattr("offdiag.solvers.woodbury.flops", lambda m, s: 0.0)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("offdiag.solvers.woodbury.residual", fail)
    with pytest.raises(MemoryError):
        model.forget(many.select_users([1]))
    np.testing.assert_allclose(model.weights_.toarray(), before, atol=1e-12)


def test_items_that_come_and_go_bring_their_features(inter, features):
    """Item 100 has features and item 200 has none; both get users, and lose them again."""
    for model in (FULL_RANK["edlae"], SPARSE["few"], SPARSE["all"]):
        model = copy.deepcopy(model).fit(inter, item_features=features)
        rows = sparse.csr_array(np.array([[1.0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1.0]]))
        more = table(rows, [900, 901, 902], [0, 1, 5, 100, 200])
        model.update(more)
        ids = np.array([*range(M), 100, 200])
        old = sparse.hstack([inter.matrix, sparse.csr_array((N_USERS, 2))])
        new = sparse.csr_array(rows @ sparse.csr_array(np.eye(26)[[0, 1, 5, 24, 25]]))
        both = table(sparse.vstack([old, new]), np.arange(N_USERS + 3), ids)
        assert_like(model, of_all(model, both, features))
        model.forget(more)
        assert_like(model, of_all(model, inter, features))


def test_the_last_item_with_features_may_go(features):
    X = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0]])
    inter = table(X, range(4), [500, 501, 502, 7])
    model = od.EASE(l2=1.0, feature_weight=0.5, dtype="float64").fit(inter, item_features=features)
    model.forget(inter.select_users([0]))
    rest = table(X[1:, :3], range(3), [500, 501, 502])
    assert_like(model, od.EASE(l2=1.0, user_power=model.settings_["user_power"], dtype="float64").fit(rest))


@pytest.mark.parametrize("cls", [od.LowRankDLAE, od.LowRankEDLAE, od.Spectral])
def test_low_rank_models_follow_with_their_features(cls, inter, features):
    model = cls(rank=5, feature_weight=1.0, dtype="float64").fit(
        inter.select_users(slice(0, 85)), item_features=features
    )
    model.update(inter.select_users(slice(85, 90)))
    fresh = model._refit(model.gram_, None, model.item_ids_)
    assert np.isclose(model.objective_, fresh.objective_, rtol=1e-5)
    if cls is not od.LowRankEDLAE:  # which has several minima
        np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=1e-4)
    without = cls(rank=5, dtype="float64").fit_gram(model.gram_) if cls is od.LowRankDLAE else None
    assert without is None or not np.isclose(without.objective_, fresh.objective_, rtol=1e-3)


def test_next_item_follows_with_its_features(features):
    log = od.synthetic.interactions(80, 20, 700, names=False, times=True, seed=0)
    model = od.NextItem(l2=5.0, feature_weight=0.5, dtype="float64").fit(
        log.select_users(slice(0, 70)), item_features=features
    )
    model.update(log.select_users(slice(70, 80)))
    model.forget(log.select_users(slice(0, 5)))
    params = {name: value for name, value in model.settings_.items() if name in model.get_params()}
    fresh = od.NextItem(**params, dtype="float64").fit(log.select_users(slice(5, 80)), item_features=features)
    np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=1e-10)


@pytest.mark.parametrize("model", [FULL_RANK["edlae"], SPARSE["few"], od.LowRankDLAE(rank=5, feature_weight=0.5)])
def test_a_model_from_a_file_has_its_features(model, inter, features, tmp_path):
    model = copy.deepcopy(model).fit(inter.select_users(slice(0, 80)), item_features=features)
    model.save(tmp_path / "m.od", updatable=True)
    loaded = od.load(tmp_path / "m.od")
    for one in (model, loaded):
        one.update(inter.select_users(slice(80, 90)))
    np.testing.assert_allclose(loaded.weights_.toarray(), model.weights_.toarray(), atol=1e-6)


def test_added_items_get_their_own_weights_with_their_features(inter, features):
    model = od.EDLAE(l2=3.0, feature_weight=0.5, dtype="float64").fit(inter, item_features=features)
    model.add_items(features)
    assert model.new_items_.items.tolist() == [100, 101]
    more = table(np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1.0]]), [900, 901, 902], [0, 1, 100])
    model.update(more)
    assert model.new_items_.items.tolist() == [101]
    old = sparse.hstack([inter.matrix, sparse.csr_array((N_USERS, 1))])
    new = sparse.csr_array(more.matrix @ sparse.csr_array(np.eye(25)[[0, 1, 24]]))
    both = table(sparse.vstack([old, new]), np.arange(N_USERS + 3), [*range(M), 100])
    wanted = of_all(model, both, features)
    np.testing.assert_allclose(model.weights_.learned.toarray(), wanted.weights_.toarray(), atol=1e-12)


def test_a_model_with_a_prior_says_that_it_cannot_change(inter, features):
    model = od.EASE(l2=1.0, prior_weight=5.0).fit(inter, item_features=features)
    with pytest.raises(od.OffdiagError, match=r"with prior_weight cannot be updated.*fit it again"):
        model.update(inter)


def test_the_weight_of_the_features_enters_the_plan(inter, features):
    """Where it makes a step, all weights are solved again."""
    model = od.EDLAE(l2=3.0, feature_weight=1.0, user_power=0.0).fit(inter, item_features=features)
    model.update(inter)
    assert model.last_change.method == "refit"
