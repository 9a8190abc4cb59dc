"""Low-rank models and popularity after users were added and removed, against a fit on the remaining users."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.models.low_rank import LowRankModel
from offdiag.solvers.products import PairProduct
from tests.fixtures.changed_models import refitted
from tests.fixtures.low_rank_problems import five_tastes, one_blas_thread, value_of  # noqa: F401
from tests.laws import oracles
from tests.laws.strategies import interactions, powers

MODELS = {
    "LowRankDLAE": {"dropout": 0.5, "l2": 5.0},
    "LowRankEDLAE": {"dropout": 0.5, "l2": 5.0, "kept_weight": 0.2, "iterations": 100},
    "ZeroDiagonalLAE": {"dropout": 0.5, "l2": 5.0, "iterations": 60},
    "WeightDecayLAE": {"l2": 10.0},
    "Spectral": {"shrink": "dropout:drop=0.3", "item_power": 0.3},
}
CLOSED = ("LowRankDLAE", "WeightDecayLAE", "Spectral")
names = pytest.mark.parametrize("name", MODELS)
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])
UNIQUE = {"float32": 2e-2, "float64": 1e-5}  # of the weights: the solvers stop by their objective, which is flat there
FLAT = {"float32": 1e-4, "float64": 1e-9}  # of the objective


def fitted(name, X, **words):
    return getattr(od, name)(**{"rank": 5, "user_power": 0.5} | MODELS[name] | words).fit(X)


def check(model, X):
    """The optimum, where there is one; else as low as a fit from scratch, and the reported objective is true."""
    name, dtype = type(model).__name__, model.dtype
    fresh = refitted(model, X)
    total = X.nnz
    W = model.weights_.toarray().astype(np.float64)
    if name in CLOSED:
        np.testing.assert_allclose(W, fresh.weights_.toarray(), rtol=0, atol=UNIQUE[dtype] * np.abs(W).max())
        assert abs(model.objective_ - fresh.objective_) <= FLAT[dtype] * total
    else:
        assert model.objective_ <= fresh.objective_ + (1e-3 if dtype == "float32" else 1e-4) * total
    G = oracles.gram(X.toarray(), model.settings_["user_power"])
    assert model.objective_ == pytest.approx(value_of(model, G), abs=10 * FLAT[dtype] * total)
    np.testing.assert_array_equal(model.popularity_, fresh.popularity_)
    assert model.n_users_ == fresh.n_users_
    return fresh


@pytest.mark.slow
@names
@dtypes
@pytest.mark.parametrize("products", ["gram", "data"])
def test_added_and_removed_users_give_the_result_of_a_fit(name, dtype, products):
    X = five_tastes()
    there = np.arange(250) < 240
    model = fitted(name, X[there], dtype=dtype, products=products)
    assert isinstance(model.gram_, SparseGram if products == "data" else Gram)
    for user in (3, 244, 77, 5, 249):
        if there[user]:
            certificate = model.forget(X[[user]])
            assert certificate.method == "warm restart"
            assert certificate.residual <= certificate.tolerance or model.stopped_ == "iterations"
        else:
            model.update(X[[user]])
        there[user] ^= True
    check(model, X[there])


@names
def test_forget_undoes_update(name):
    X = five_tastes()
    model, same = (fitted(name, X[:240], dtype="float64") for _ in range(2))
    model.update(X[240:]).forget(X[240:])
    check(model, X[:240])
    assert model.objective_ <= same.objective_ + 1e-7 * X.nnz


@pytest.mark.slow
@names
def test_forty_changes_do_not_drift(name):
    X = five_tastes()
    rng = np.random.default_rng(1)
    there = np.arange(250) < 200
    model = fitted(name, X[there], dtype="float64")
    for _ in range(40):
        user = int(rng.integers(250))
        model = model.update(X[[user]]) if not there[user] else model.forget(X[[user]]) and model
        there[user] ^= True
    check(model, X[there])


@pytest.mark.slow
@names
@pytest.mark.parametrize("products", ["gram", "data"])
def test_items_are_added_and_removed_by_id(name, products):
    X = five_tastes().toarray()
    X[:, 30] = 0
    X[7, 30] = 1
    ids = np.arange(100, 160)
    X[240:, 20] = 1
    X[:240, 20] = 0
    everyone = od.Interactions(sparse.csr_array(X), np.arange(250), ids)
    first = everyone.select_users(np.arange(240)).select_items(np.arange(60) != 20)
    model = fitted(name, first, dtype="float64", products=products)
    model.update(everyone.select_users([240, 241]))
    assert model.last_change.new_items == [120]
    # The old factors are where their items are now, so there is little left to gain.
    assert model.objectives_[0] - model.objective_ < 0.01 * (everyone.nnz - model.objective_)
    model.forget(everyone.select_users([7]))
    assert model.last_change.gone_items == [130]
    left = (np.arange(250) < 242) & (np.arange(250) != 7)
    check(model, sparse.csr_array(X[left][:, np.isin(ids, model.item_ids_)]))


def test_new_items_that_share_no_user_with_the_old_are_found():
    """They lie in directions that no old factor touches, and are the strongest of all."""
    X = np.zeros((260, 70), dtype=np.float32)
    X[:250, :60] = five_tastes().toarray()
    X[250:, 60:] = 3
    for name in CLOSED:
        model = fitted(name, X[:250, :60], dtype="float64", user_power=0.0, rank=4)
        model.update(X[250:253])
        assert model.last_change.method == "warm restart"
        check(model, sparse.csr_array(X[:253]))


@names
def test_a_warm_restart_is_never_worse_than_what_it_started_from(name):
    X = five_tastes()
    model = fitted(name, X, dtype="float64")
    U, V = (np.array(A, dtype=np.float64) for A in (model.encoder_, model.decoder_))
    model.forget(X[:4])
    if name != "Spectral":
        before = value_of(model, oracles.gram(X[4:].toarray(), 0.5), U, V)
        assert model.objective_ <= before + 1e-9 * X.nnz


@names
def test_a_large_change_is_a_fit_from_scratch(name):
    X = five_tastes()
    model = fitted(name, X, dtype="float64")
    assert model.forget(X[:120]).method == "refit"
    fresh = refitted(model, X[120:])
    np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=1e-5)


@names
@settings(max_examples=12)
@given(data=st.data(), kind=st.sampled_from(["binary", "counts", "ratings"]), power=st.sampled_from([0.0, 0.5]))
def test_any_data_at_any_rank(name, data, kind, power):
    X = data.draw(interactions(values=kind, max_users=20, max_items=14, min_items=2))
    rank = data.draw(st.integers(1, 5))
    n = X.shape[0]
    some = np.arange(n) % 4 == 0
    assume(X[~some].nnz)
    few = {"iterations": 5} if "iterations" in MODELS[name] else {}
    model = fitted(name, X, rank=rank, user_power=power, dtype="float64", **few)
    model.forget(X[some])
    G = oracles.gram(X[~some].toarray(), power)
    total = float(np.trace(G))
    assert model.objective_ == pytest.approx(value_of(model, G), rel=1e-6, abs=1e-7 * total)
    if name in CLOSED:
        assert model.objective_ == pytest.approx(refitted(model, X[~some]).objective_, rel=1e-6, abs=1e-7 * total)
    model.update(X[some])
    if name in CLOSED:
        assert model.objective_ == pytest.approx(
            refitted(model, X).objective_, rel=1e-6, abs=1e-7 * float(X.power(2).sum())
        )


def test_full_rank_is_exact_before_and_after():
    X = five_tastes()
    for name in MODELS:
        model = fitted(name, X, rank=60, dtype="float64")
        model.forget(X[:2])
        assert model.last_change.method == "refit"
        np.testing.assert_allclose(model.weights_.toarray(), refitted(model, X[2:]).weights_.toarray(), atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(X=interactions(values="ratings"), power=powers, k=st.integers(1, 4))
def test_the_product_of_a_gram_by_rows_is_that_of_the_dense_one(X, power, k, dtype):
    V = np.random.default_rng(0).standard_normal((X.shape[1], k)).astype(dtype)
    product = PairProduct(sparse_gram(X, power), dtype)
    G = oracles.gram(X.toarray(), power)
    tolerance = {"float32": 1e-5, "float64": 1e-12}[dtype] * max(np.abs(G).sum(axis=1).max(), 1)
    np.testing.assert_allclose(product(V), G @ V.astype(np.float64), rtol=0, atol=tolerance * np.abs(V).max())
    np.testing.assert_allclose(product.g, np.diag(G), rtol=1e-12)
    assert product(V).dtype == dtype
    with pytest.raises(ValueError, match="rows of"):
        product(V[:-1])


@names
def test_an_interruption_leaves_the_model_as_it_was(name):
    X = five_tastes()
    model = fitted(name, X, dtype="float64")
    W, G = model.weights_, model.gram_.arrays()
    G = {key: array.copy() for key, array in G.items()}
    calls = []

    def stop(stage, _share):
        if "minimising" in stage or "subspace" in stage:
            calls.append(stage)
            if len(calls) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.forget(X[:1], progress=stop)
    assert model.weights_ is W
    assert model.n_users_ == 250
    for key, array in model.gram_.arrays().items():
        np.testing.assert_array_equal(array, G[key])
    model.forget(X[:1])
    check(model, X[1:])


@names
def test_a_model_from_a_file_continues(name, tmp_path):
    X = five_tastes()
    model = fitted(name, X, dtype="float64", products="data")
    model.save(tmp_path / "m.od", updatable=True)
    again = od.load(tmp_path / "m.od")
    assert isinstance(again.gram_, SparseGram)
    again.forget(X[:1])
    model.forget(X[:1])
    np.testing.assert_allclose(again.weights_.toarray(), model.weights_.toarray(), atol=1e-12)


def test_spectral_keeps_the_value_of_auto():
    X = five_tastes()
    model = od.Spectral(rank=4, dtype="float64").fit(X)
    l2 = model.auto_l2_
    model.forget(X[:1])
    assert model.auto_l2_ == l2
    assert model.settings_ == od.Spectral(rank=4, dtype="float64").fit(X).settings_
    shrunk = model.with_shrink("ridge:l2=20")
    shrunk.update(X[:1])
    check(shrunk, X[np.r_[1:250, 0]])
    assert model.n_users_ == 249


@pytest.mark.parametrize("kind", ["binary", "ratings"])
@settings(max_examples=20)
@given(data=st.data())
def test_popularity_counts_the_current_users(kind, data):
    X = data.draw(interactions(values=kind, max_users=20))
    some = np.arange(X.shape[0]) % 3 == 0
    assume(X[~some].nnz)
    model, fresh = od.Popularity().fit(X), od.Popularity().fit(X[~some])
    model.forget(X[some])
    np.testing.assert_array_equal(model.weights_.scores, fresh.weights_.scores)
    np.testing.assert_array_equal(model.popularity_, fresh.popularity_)
    model.update(X[some])
    np.testing.assert_array_equal(model.weights_.scores, od.Popularity().fit(X).weights_.scores)
    assert model.n_users_ == X.shape[0]


def test_popularity_from_a_file_forgets_with_proof(tmp_path):
    X = five_tastes()
    od.Popularity().fit(X).save(tmp_path / "p.od", updatable=True)
    model = od.load(tmp_path / "p.od")
    assert model.forget(X[:3], prove=True).proof == 0
    with pytest.raises(od.OffdiagError, match="cannot have been"):
        model.forget(np.ones((3, 60)))
    with pytest.raises(od.OffdiagError, match="delete it"):
        model.forget(X[3:])


@pytest.mark.parametrize("name", ["LowRankEDLAE", "ZeroDiagonalLAE"])
@dtypes
def test_a_proof_says_how_far_the_objective_is_from_that_of_a_fit(name, dtype):
    X = five_tastes()
    model = fitted(name, X, dtype=dtype)
    certificate = model.forget(X[:3], prove=True)
    fresh, G = refitted(model, X[3:]), oracles.gram(X[3:].toarray(), 0.5)
    least = value_of(fresh, G)
    gap = (value_of(model, G) - least) / (np.trace(G) - least)
    assert certificate.method == "warm restart"
    assert certificate.objective_gap == pytest.approx(gap, rel=1e-6, abs=1e-13)
    assert gap != 0
    assert gap <= certificate.tolerance
    assert "objective above that of a new fit" in certificate._repr_html_()
    assert certificate.to_dict()["objective_gap"] == pytest.approx(10 ** np.ceil(np.log10(certificate.tolerance)))


@pytest.mark.parametrize("name", ["LowRankEDLAE", "ZeroDiagonalLAE"])
def test_a_proof_that_finds_a_better_minimum_takes_it(name, monkeypatch):
    """Left at a bad start, the model would be far above a fit."""
    X = five_tastes()
    model, other = (fitted(name, X, dtype="float64") for _ in range(2))
    learn = LowRankModel._learn

    def lazy(self, product, progress, start=None):
        if start is not None:
            self.iterations, start = 1, tuple(np.roll(A, 3, axis=0) for A in start)
        return learn(self, product, progress, start)

    monkeypatch.setattr(LowRankModel, "_learn", lazy)
    other.forget(X[:3])
    certificate = model.forget(X[:3], prove=True)
    monkeypatch.undo()
    fresh, G = refitted(model, X[3:]), oracles.gram(X[3:].toarray(), 0.5)
    assert (certificate.method, certificate.objective_gap, certificate.proof) == ("refit", 0.0, 0.0)
    assert value_of(other, G) - value_of(fresh, G) > certificate.tolerance * np.trace(G)
    assert value_of(model, G) == pytest.approx(value_of(fresh, G), rel=1e-9)
    assert model.objective_ == pytest.approx(fresh.objective_, rel=1e-9)
    assert certificate.matches(model)


def test_only_a_problem_with_several_minima_has_a_gap():
    X = five_tastes()
    assert fitted("LowRankDLAE", X).forget(X[:3], prove=True).objective_gap is None
    assert fitted("LowRankEDLAE", X).forget(X[:3]).objective_gap is None
