"""SparseEDLAE after users were added and removed, against a fit on the remaining users."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag._kernels import column_solves
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.living import sparse as sparse_living
from tests.fixtures.changed_models import CLOSE, refitted
from tests.fixtures.sparse_catalogue import neighbours_by_hand, same_bytes
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions


def example(seed=0, n=300, m=120, density=0.5):
    """Many tastes, so that most items share no user; popular and rare items; an empty user; two items that co-occur."""
    rng = np.random.default_rng(seed)
    taste = (rng.random((n, 8)) ** 6) @ (rng.random((8, m)) ** 6)
    X = (rng.random((n, m)) < density * taste * rng.random(m) ** 2).astype(np.float32)
    X[5] = 0
    X[:, 20] = X[:, 21]
    return sparse.csr_array(X)


def with_ids(X, ids=None):
    """Interactions with item ids."""
    return od.Interactions(sparse.csr_array(X), np.arange(X.shape[0]), np.arange(X.shape[1]) if ids is None else ids)


def refit(model, X):
    """A fit with the model's settings on these users, over the model's items."""
    return refitted(
        model, X.matrix[:, np.searchsorted(X.item_ids, model.item_ids_)] if isinstance(X, od.Interactions) else X
    )


def check(model, X, exact=False):
    """The model must equal a fit on X; returns that fit."""
    fresh = refit(model, X)
    if exact:
        assert same_bytes(model, fresh)
    W, expected = model.weights_.toarray(), fresh.weights_.toarray()
    np.testing.assert_allclose(W, expected, rtol=0, atol=CLOSE[model.dtype] * max(1, np.abs(expected).max()))
    unit = max(abs(fresh.objective_), float(fresh.popularity_.sum()))
    assert abs(model.objective_ - fresh.objective_) <= {"float32": 1e-6, "float64": 1e-11}[model.dtype] * unit
    np.testing.assert_array_equal(model.popularity_, fresh.popularity_)
    assert model.n_users_ == fresh.n_users_
    return fresh


def fitted(X, **words):
    settings = {"neighbours": 6, "dropout": 0.5, "l2": 2.0, "user_power": 0.0}
    return od.SparseEDLAE(**settings | words).fit(X)


# --- the same bytes as a fit, for 0/1 data with equal user weights ---


@given(interactions(max_users=30, max_items=25), st.sampled_from([1, 2, 4]), dtypes, st.data())
def test_added_and_removed_users_give_the_bytes_of_a_fit(X, k, dtype, data):
    n = X.shape[0]
    first = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    assume(X[first].nnz)
    model = fitted(X[first], neighbours=k, dtype=dtype)
    there = first.copy()
    for _ in range(3):
        move = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
        if X[there | move].nnz:
            model.update(X[move & ~there])
            there |= move
            check(model, X[there], exact=True)
        gone = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))) & there
        if X[there & ~gone].nnz:
            model.forget(X[gone])
            there &= ~gone
            check(model, X[there], exact=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fifty_changes_with_items_added_and_removed_by_id(dtype):
    rng = np.random.default_rng(3)
    ids = np.array([f"item {i:03d}" for i in range(120)])
    X = example(density=0.3)
    there = np.arange(300) < 150
    all_users = with_ids(X, ids)
    start = all_users.select_users(there)
    start = start.select_items(np.flatnonzero(start.matrix.sum(axis=0)))
    model = fitted(start, dtype=dtype)
    assert len(model.item_ids_) < 120
    seen, methods = {len(model.item_ids_)}, set()
    for step in range(50):
        few = rng.choice(300, size=rng.integers(1, 4), replace=False)
        mask = np.isin(np.arange(300), few)
        if step % 2:
            model.update(all_users.select_users(mask & ~there))
            there |= mask
        else:
            model.forget(all_users.select_users(mask & there))
            there &= ~mask
        seen.add(len(model.item_ids_))
        methods.add(model.last_change.method)
        assert (model.item_ids_[:-1] < model.item_ids_[1:]).all()
        if step % 7 == 0 or step == 49:
            left = all_users.select_users(there)
            np.testing.assert_array_equal(model.item_ids_, ids[X[there].sum(axis=0) > 0])
            check(model, left, exact=True)
            fresh = sparse_gram(left.matrix[:, np.searchsorted(ids, model.item_ids_)])
            for name, array in model.gram_.arrays().items():
                np.testing.assert_array_equal(array, fresh.arrays()[name], err_msg=name)
    assert len(seen) > 2
    assert "columns" in methods


def test_users_that_are_added_and_forgotten_leave_no_trace():
    X = with_ids(example())
    old, new = X.select_users(np.arange(200)), X.select_users(np.arange(200, 300))
    model, same = fitted(old), fitted(old)
    model.update(new)
    assert not np.array_equal(model.weights_.data, same.weights_.data)
    model.forget(new)
    check(model, old, exact=True)


def test_an_item_is_removed_with_its_last_user():
    X = example().toarray()
    X[:, 40] = 0
    X[7, 40] = 1
    everyone = with_ids(X)
    model = fitted(everyone)
    certificate = model.forget(everyone.select_users([7]))
    assert certificate.gone_items == [40] + [i for i in range(120) if X[7, i] and X[:, i].sum() == 1 and i != 40]
    assert 40 not in model.item_ids_
    check(model, everyone.select_users(np.arange(300) != 7), exact=True)
    model.update(everyone.select_users([7]))
    assert 40 in model.item_ids_
    check(model, everyone, exact=True)


def test_a_plain_matrix_keeps_its_columns_and_a_wider_one_adds_some():
    X = example().toarray()
    X[:, 40] = 0
    X[7, 40] = 1
    X[:, 115:] = 0
    model = fitted(X[:200, :115])
    model.forget(X[7:8, :115])
    assert len(model.item_ids_) == 115
    check(model, np.delete(X[:200, :115], 7, axis=0), exact=True)
    X[210, 117] = 1
    model.update(X[200:])
    assert len(model.item_ids_) == 120
    check(model, np.delete(X, 7, axis=0), exact=True)


# --- only changed problems are solved ---


def counting(monkeypatch):
    """Every column that is solved, by its place in the catalogue of that call."""
    solved = []
    solve = column_solves.solve_columns

    def spy(items, first, last, ptr, *rest):
        solved.extend(int(i) for i in items[first:last] if ptr[i + 1] > ptr[i])
        return solve(items, first, last, ptr, *rest)

    monkeypatch.setattr(column_solves, "solve_columns", spy)
    return solved


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 6, 20])
def test_only_touched_columns_are_solved(monkeypatch, k):
    X = example(seed=1).toarray()
    users = np.flatnonzero((X.sum(axis=1) > 0) & (X.sum(axis=1) < 4))[:10]
    assert len(users) == 10
    untied = 0
    for user in users:
        model = fitted(X, neighbours=k)
        left = np.delete(X, user, axis=0)
        (before, merit_before), (after, merit) = neighbours_by_hand(X, k), neighbours_by_hand(left, k)
        changed = set(np.flatnonzero(X[user]))
        must = {i for i in range(120) if before[i] != after[i] or after[i] & changed}
        order = np.lexsort((np.arange(120), -left.sum(axis=0)))
        solved = counting(monkeypatch)
        model.forget(X[user : user + 1])
        monkeypatch.undo()
        assert model.last_change.method == "columns"
        assert len(solved) == len(set(solved)) < 100
        solved = set(order[solved].tolist())
        assert {i for i in must if after[i]} <= solved
        for i in solved - must - changed:  # a changed item was as good as the last of its neighbours
            assert any(
                np.isclose(m[j, i], min(m[list(support[i]), i])) for j in changed
                for m, support in ((merit_before, before), (merit, after))
            )  # fmt: skip
        untied += len(solved - must - changed) == 0
        check(model, left, exact=True)
    assert untied


def test_a_change_that_touches_nearly_all_columns_is_a_new_fit():
    X = example(density=3.0)
    model = fitted(X, neighbours=40)
    model.forget(X[:30])
    assert model.last_change.method == "refit"
    check(model, X[30:], exact=True)


# --- weights of users, of items, of weights ---


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "words",
    [
        {"user_power": 0.5},
        {"user_power": 0.5, "l2": 0.0},
        {"user_power": 1.0, "propensity_power": 0.4, "weight_power": 1.4},
        {"propensity_power": 0.4, "weight_power": 1.4},
        {"propensity_power": -0.3},
        {"item_power": 0.4},
        {"max_bytes": 6_000},
        {"neighbours": 500},
        {"dropout": 0.0, "l2": 3.0},
    ],
    ids=str,
)
def test_every_setting_gives_the_result_of_a_fit(words, dtype):
    X = example()
    there = np.arange(300) < 280
    model = fitted(X[there], dtype=dtype, **words)
    for user in (3, 281, 77, 5, 290):
        if there[user]:
            model.forget(X[[user]])
        else:
            model.update(X[[user]])
        there[user] ^= True
        check(model, X[there])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [1.0, 1.4])
def test_kept_columns_follow_the_popularity_of_the_most_popular_item(dtype, power):
    X = example(seed=1)
    top = int(X.sum(axis=0).argmax())
    users = [u for u in range(300) if X[u, top] and X[[u]].nnz < 5]
    model = fitted(X, neighbours=2, propensity_power=0.4, weight_power=power, dtype=dtype)
    assert len(users) > 2
    for n, user in enumerate(users, 1):
        model.forget(X[[user]])
        assert model.last_change.method == "columns"
        check(model, X[np.isin(np.arange(300), users[:n], invert=True)])


@given(st.data(), st.sampled_from(["ratings", "counts"]), st.sampled_from([0.0, 0.5]), dtypes)
def test_real_values_give_the_result_of_a_fit(data, kind, power, dtype):
    X = data.draw(interactions(values=kind, max_users=25, max_items=20))
    n = X.shape[0]
    some = np.arange(n) % 3 == 0
    assume(X[~some].nnz)
    model = fitted(X, neighbours=3, user_power=power, dtype=dtype)
    model.forget(X[some])
    assert_close_unless_undecided(model, X[~some])
    model.update(X[some])
    assert_close_unless_undecided(model, X)


def assert_close_unless_undecided(model, X):
    """Rounding may decide between neighbours of equal merit, and then any choice is right: compare the objective."""
    fresh = refit(model, X)
    assert model.objective_ == pytest.approx(fresh.objective_, rel=1e-4 if model.dtype == "float32" else 1e-9)
    power = model.settings_["user_power"]
    n_u = np.diff(X.indptr)
    weight = oracles.user_weights(n_u, power) / fresh.gram_.scale
    G = (X.T @ sparse.diags_array(weight) @ X).toarray()
    merit = G**2 / (np.diag(G) / 0.5 + fresh.penalty_)[:, None]
    np.fill_diagonal(merit, 0)
    best = -np.sort(-merit, axis=0)
    if len(G) > 4 and not np.isclose(best[2], best[3], rtol=1e-6).any():
        np.testing.assert_allclose(
            model.weights_.toarray(), fresh.weights_.toarray(), rtol=0, atol=CLOSE[model.dtype] * 10
        )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_with_user_weights_a_step_of_the_scale_means_a_refit(dtype):
    X = sparse.csr_array(sparse.vstack([example(seed=s) for s in range(8)]))
    X = X[np.argsort(-np.diff(X.indptr), kind="stable")]  # the most active leave first: the mean weight grows
    model = fitted(X, user_power=0.5, l2=50.0, dtype=dtype)
    methods, scale = [], model.gram_.scale
    for user in range(40):
        methods.append(model.forget(X[[user]]).method)
        if model.gram_.scale != scale:
            assert methods[-1] == "refit"
        scale = model.gram_.scale
    assert methods[0] == "columns"
    assert "refit" in methods
    check(model, X[40:])


def test_a_smooth_part_is_learned_again_if_its_gram_is_known():
    X = example()
    model = fitted(X, rank=4, user_power=1.0, dtype="float64")
    model.forget(X[:3])
    fresh = refit(model, X[3:])
    np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=1e-9)
    other = fitted(X, rank=4, user_power=0.5)
    W = other.weights_
    with pytest.raises(od.OffdiagError, match="smooth part.*fit it again"):
        other.forget(X[:3])
    assert other.weights_ is W
    assert other.n_users_ == 300


# --- files, Grams, mistakes ---


def test_a_model_from_a_file_continues(tmp_path):
    X = example()
    model = fitted(X[:200])
    model.save(tmp_path / "m.od", updatable=True)
    again = od.load(tmp_path / "m.od")
    assert isinstance(again.gram_, SparseGram)
    again.update(X[200:])
    check(again, X, exact=True)
    again.forget(X[:1])
    check(again, X[1:], exact=True)


def test_a_model_fitted_on_a_gram_by_rows_can_be_changed():
    X = example()
    model = od.SparseEDLAE(neighbours=6, dropout=0.5, l2=2.0).fit_gram(sparse_gram(X))
    assert same_bytes(model, fitted(X))
    model.forget(X[:2])
    check(model, X[2:], exact=True)
    dense = od.SparseEDLAE(neighbours=6, dropout=0.5, l2=2.0).fit_gram(od.gram(X))
    dense.forget(X[:2])
    check(dense, X[2:], exact=True)
    assert od.SparseEDLAE(neighbours=6).fit_gram(sparse_gram(X)).settings_["l2"] > 0


def test_proof_is_the_distance_from_a_fit():
    X = example()
    model = fitted(X, dtype="float64")
    assert model.forget(X[:2], prove=True).proof == 0


def test_a_change_that_makes_the_problem_singular_is_refused():
    X = (np.random.default_rng(0).random((300, 12)) < 0.3).astype(np.float32)
    X[:, 2] = X[:, 1] = X[:, 0]
    X[:20, 2] = 1 - X[:20, 2]
    X[7, :2] = 1, 0
    everyone = with_ids(X)
    model = od.SparseEDLAE(neighbours=3, dropout=0.0, l2=0.0, user_power=0.0, dtype="float64").fit(everyone)
    W = model.weights_
    with pytest.raises(od.OffdiagError, match="singular"):
        model.forget(everyone.select_users([7]))
    assert model.weights_ is W
    assert model.n_users_ == model.gram_.n_users == 300
    model.forget(everyone.select_users([250]))
    check(model, everyone.select_users(np.arange(300) != 250))


def test_an_interruption_while_columns_are_solved_changes_nothing(monkeypatch):
    X = example()
    model = fitted(X)
    W = model.weights_

    def stop(*_a, **_k):
        raise KeyboardInterrupt

    monkeypatch.setattr(sparse_living.support, "solve", stop)
    with pytest.raises(KeyboardInterrupt):
        model.forget(X[:1])
    monkeypatch.undo()
    assert model.weights_ is W
    model.forget(X[:1])
    check(model, X[1:], exact=True)
