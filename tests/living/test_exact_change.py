"""update and forget of full-rank models: the result of a fit on the remaining users, whatever the path."""

import copy
import pickle
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag._kernels import packed_rows
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import sparse_gram
from offdiag.living import certificate, exact_change, full_rank, past
from offdiag.living import sparse as sparse_living
from offdiag.solvers import woodbury
from tests.laws.strategies import dtypes, interactions, kept_weights

CLOSE = {"float32": 1e-5, "float64": 1e-12}
penalties = st.sampled_from([(0.5, 5.0), (0.0, 1.0), (0.3, 0.0), (0.65, 100.0)])


@pytest.fixture
def always_woodbury(monkeypatch):
    """Small problems are cheaper to fit again; here they are not."""
    monkeypatch.setattr(woodbury, "flops", lambda m, s: 0.0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def ctrl_c():
    """Enables SIGINT, which a program started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def rows_of(X, keep):
    return sparse.csr_array(sparse.csr_array(X)[keep])


def refitted(model, X):
    """The oracle: a fit with the same settings."""
    params = model.get_params() | {k: v for k, v in model.settings_.items() if k in model.get_params()}
    return type(model)(**params).fit(X)


def assert_same(model, other, factor=1.0):
    W, expected = model.weights_.toarray(), other.weights_.toarray()
    np.testing.assert_allclose(W, expected, rtol=0, atol=factor * CLOSE[model.dtype] * max(1.0, np.abs(expected).max()))
    assert np.array_equal(model.popularity_, other.popularity_)
    assert model.n_users_ == other.n_users_
    assert np.isclose(model.objective_, other.objective_, rtol=1e-4 if model.dtype == "float32" else 1e-9)


@settings(deadline=None)
@given(
    interactions(max_users=20, max_items=12), st.data(), penalties, kept_weights, dtypes, st.sampled_from([0.0, 0.5])
)
@pytest.mark.usefixtures("always_woodbury")
def test_forget_equals_a_fit_without_them(X, data, penalty, kept, dtype, power):
    gone = data.draw(st.lists(st.integers(0, X.shape[0] - 1), unique=True, min_size=1, max_size=X.shape[0]))
    stay = np.setdiff1d(np.arange(X.shape[0]), gone)
    if not rows_of(X, stay).nnz:
        return
    dropout, l2 = penalty
    model = od.EDLAE(dropout=dropout, l2=l2 or 0.01, kept_weight=kept, user_power=power, dtype=dtype).fit(X)
    certificate = model.forget(rows_of(X, gone), prove=True)
    assert_same(model, refitted(model, rows_of(X, stay)))
    assert certificate.proof <= CLOSE[dtype]
    assert certificate.users == len(gone)
    assert certificate.weight_error <= certificate.tolerance or certificate.method == "refit"


@settings(deadline=None)
@given(interactions(max_users=20, max_items=9), interactions(max_users=5, max_items=12), penalties, dtypes)
@pytest.mark.usefixtures("always_woodbury")
def test_update_equals_a_fit_with_them_and_forget_undoes_it(X, new, penalty, dtype):
    m = max(X.shape[1], new.shape[1])
    new.resize((new.shape[0], m))
    model = od.EDLAE(dropout=penalty[0], l2=penalty[1] or 0.01, user_power=0.0, dtype=dtype).fit(X)
    together = sparse.csr_array(X.copy())
    together.resize((X.shape[0], m))
    model.update(new)
    assert_same(model, refitted(model, sparse.csr_array(sparse.vstack([together, new]))))
    model.forget(new)
    assert_same(model, refitted(model, together))
    assert model.gram_.values.tobytes() == od.gram(together, dtype=model.gram_.dtype).values.tobytes()


@pytest.mark.parametrize("cls", [od.EASE, od.DLAE, od.EDLAE, od.RDLAE])
@pytest.mark.parametrize("storage", ["packed", "dense"])
def test_every_full_rank_model_can_be_changed(cls, storage, always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = cls(l2=3.0, user_power=0.0, propensity_power=0.3, storage=storage).fit(rows_of(X, slice(0, 50)))
    model.update(rows_of(X, slice(50, 60)))
    assert model.last_change.method == ("woodbury" if storage == "packed" else "refit")
    assert_same(model, refitted(model, X))
    assert type(model.weights_) is type(refitted(model, X).weights_)


def test_a_penalty_per_item_means_a_refit(always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, item_power=0.5).fit(rows_of(X, slice(0, 50)))
    model.update(rows_of(X, slice(50, 60)))
    assert model.last_change.method == "refit"
    assert_same(model, refitted(model, X))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "power"), [("float32", 0.0), ("float64", 0.0), ("float32", 0.5)])
def test_three_hundred_changes_in_a_row_do_not_drift(dtype, power, rng):
    X = sparse.csr_array((rng.random((400, 300)) < 0.05).astype(np.float32))
    inside = set(range(200))
    model = od.EDLAE(dropout=0.5, l2=5.0, user_power=power, dtype=dtype).fit(rows_of(X, sorted(inside)))
    methods = set()
    for _ in range(300):
        u = int(rng.integers(400))
        if u in inside:
            model.forget(rows_of(X, [u]))
        else:
            model.update(rows_of(X, [u]))
        inside ^= {u}
        methods.add(model.last_change.method)
    rest = rows_of(X, sorted(inside))
    assert methods == {"woodbury"} if power == 0 else "woodbury" in methods
    assert certificate.difference(model.weights_, refitted(model, rest).weights_) <= CLOSE[dtype]
    G = od.gram(rest, power, dtype=model.gram_.dtype)
    assert model.gram_.values.tobytes() == G.values.tobytes()
    assert np.array_equal(model.gram_.activity, G.activity)
    assert np.array_equal(model.gram_.item_counts, G.item_counts)


@given(interactions(max_users=12, max_items=8, values="ratings"), st.data(), st.sampled_from([0.0, 0.5]))
@settings(deadline=None)
def test_a_pair_that_nobody_shares_any_more_is_exactly_zero(X, data, power):
    """Also where sums are rounded: nothing of a forgotten user stays behind."""
    gone = data.draw(st.lists(st.integers(0, X.shape[0] - 1), unique=True, min_size=1))
    rest = rows_of(X, np.setdiff1d(np.arange(X.shape[0]), gone))
    if not rest.nnz:
        return
    model = od.EDLAE(dropout=0.5, l2=5.0, user_power=power, dtype="float64").fit(X)
    for u in gone:
        model.forget(rows_of(X, [u]))
    expected = od.gram(rest, power, dtype=np.float64)
    G = model.gram_
    assert np.array_equal(G.toarray() == 0, expected.toarray() == 0)
    np.testing.assert_allclose(G.toarray(), expected.toarray(), rtol=1e-12, atol=0)
    assert np.array_equal(G.activity, expected.activity)


def shop():
    table = {
        "user": ["ann", "ann", "bob", "bob", "cid", "cid", "dee", "dee", "dee"],
        "item": ["ale", "bun", "ale", "cod", "bun", "cod", "ale", "bun", "cod"],
    }
    import polars as pl

    return pl.DataFrame(table)


def some(table, *users):
    import polars as pl

    return od.read(table.filter(pl.col("user").is_in(users)))


@pytest.mark.usefixtures("always_woodbury")
def test_new_items_appear_where_a_fit_would_put_them_and_vanish_with_their_last_user():
    import polars as pl

    table = shop()
    extra = pl.DataFrame({"user": ["eve", "eve", "eve"], "item": ["ale", "bay", "zip"]})
    model = od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0, dtype="float64").fit(od.read(table))
    before = model.weights_.toarray()
    model.update(od.read(extra))
    expected = refitted(model, od.read(pl.concat([table, extra])))
    assert model.item_ids_.tolist() == expected.item_ids_.tolist() == ["ale", "bay", "bun", "cod", "zip"]
    assert_same(model, expected)
    assert model.last_change.new_items == ["bay", "zip"]
    assert model.last_change.method == "woodbury"  # a wrong step would be detected and repaired by a refit
    certificate = model.forget(od.read(extra), prove=True)
    assert certificate.gone_items == ["bay", "zip"]
    assert model.item_ids_.tolist() == ["ale", "bun", "cod"]
    np.testing.assert_allclose(model.weights_.toarray(), before, atol=1e-14)
    assert certificate.method == "woodbury"
    assert certificate.proof <= 1e-14


def test_the_last_user_of_an_item_may_leave_without_any_penalty(always_woodbury):
    """H would be singular there: the item has to be removed first."""
    X = np.array(
        [[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]], float
    )
    model = od.EASE(l2=0.0, user_power=0.0, dtype="float64").fit(X)
    certificate = model.forget(X[5:6])
    assert certificate.method == "woodbury"
    rest = np.delete(X, 5, axis=0)
    assert_same(model, refitted(model, rest))
    assert not model.weights_.toarray()[3].any()
    model.update(X[5:6])
    assert model.last_change.method == "woodbury"
    assert_same(model, refitted(model, np.vstack([rest, X[5:6]])))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([[1, 1, 1, 1]], "no user in it has as many items"),
        ([[0, 0, 1, 0]], "has fewer users"),
        ([[1, 1, 0, 0]] * 3, "has fewer users"),
        ([[0, 1, 0, 1]], "in common"),
    ],
)
@pytest.mark.parametrize("sums_only", [True, False])
def test_who_was_never_there_cannot_be_forgotten_and_nothing_changes(rows, told, sums_only):
    X = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 1]], float)
    model = od.EDLAE(dropout=0.3, l2=1.0)
    model = model.fit_gram(od.gram(X, 0.5)) if sums_only else model.fit(X)
    told = told if sums_only else "no user in it has the history of row"
    state = (model.weights_.C.tobytes(), model.gram_.values.tobytes(), model.n_users_)
    with pytest.raises(OffdiagError, match="cannot have been in the data.*nothing was changed") as error:
        model.forget(np.array(rows, float))
    assert told in str(error.value)
    assert (model.weights_.C.tobytes(), model.gram_.values.tobytes(), model.n_users_) == state


def test_rows_whose_absence_would_leave_no_gram_are_refused():
    """Every item and every pair occurs often enough, and a user has four items, but no user has these four."""
    X = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1], [1, 1, 1, 0, 0]], float)
    model = od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0).fit_gram(od.gram(X))
    with pytest.raises(OffdiagError, match="not a sum over users"):
        model.forget(np.array([[1, 1, 1, 1, 0]], float))
    assert_same(model, refitted(model, X))


def test_sums_that_were_rounded_before_are_not_changed(tmp_path, rng):
    """A user who alone has a pair would leave a remainder behind, or be rejected as unknown."""
    X = (rng.random((30, 6)) < 0.5).astype(float)
    X[-1, 0] = 1  # the last user is not empty
    rounded = od.EDLAE(dropout=0.3, l2=1.0).fit_gram(od.gram(X, 0.5, dtype="float32"))
    for change in (rounded.forget, rounded.update, lambda rows: rounded.save(tmp_path / "m.od", updatable=True)):
        with pytest.raises(OffdiagError, match="float32, whose sums are rounded.*dtype='float64'"):
            change(X[:1])
    counted = od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0).fit_gram(od.gram(X, dtype="float32"))
    counted.forget(X[:1])
    assert_same(counted, refitted(counted, X[1:]))
    for power in (0.0, 0.5):
        exact = od.EDLAE(dropout=0.3, l2=1.0).fit_gram(od.gram(X, power))
        for row in X[:-1]:
            exact.forget(row[None])
        assert np.array_equal(exact.gram_.values, od.gram(X[-1:], power).values)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("at_once", [1, 20])
@pytest.mark.parametrize("sums_only", [False, True])
@pytest.mark.parametrize("make", [od.EDLAE, od.SparseEDLAE], ids=lambda make: make.__name__)
def test_values_of_very_different_size_can_leave_in_any_order(make, sums_only, at_once, power, monkeypatch, rng):
    """The rounding of a sum is that of its largest past value, and can leave a negative remainder."""
    monkeypatch.setattr(exact_change, "SMALL", 40 if at_once == 1 else 5)
    X = np.where(rng.random((70, 30)) < 0.2, rng.lognormal(0, 2, (70, 30)), 0.0)
    X[np.arange(30), np.arange(30)] = 1.0  # these stay: no item vanishes
    more = {"neighbours": 6} if make is od.SparseEDLAE else {}
    model = make(dropout=0.3, l2=5.0, user_power=power, dtype="float64", **more)
    if sums_only:
        G = sparse_gram(X, power) if make is od.SparseEDLAE else od.gram(X, power)
        model.fit_gram(G)
    else:
        model.fit(X)
    order = 30 + rng.permutation(40)
    for lo in range(0, 40, at_once):
        model.forget(X[order[lo : lo + at_once]])
        assert model.last_change.method == "refit" or at_once == 1
    rest = np.delete(X, order[:40], axis=0)
    found, fresh = model.gram_.toarray(), od.gram(rest, power, dtype="float64").toarray()
    assert found.min() >= 0
    size = np.sqrt(np.diag(od.gram(X, power, dtype="float64").toarray()))
    np.testing.assert_array_less(np.abs(found - fresh), 1e-14 * np.outer(size, size) + 1e-14)
    np.testing.assert_allclose(model.weights_.toarray(), refitted(model, rest).weights_.toarray(), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("make", [od.EASE, od.SparseEDLAE], ids=lambda make: make.__name__)
@pytest.mark.parametrize("small", [2_000, 2])
def test_who_is_on_the_roll_can_leave_whatever_rounding_says(make, small, monkeypatch):
    monkeypatch.setattr(exact_change, "SMALL", small)
    rng, refused = np.random.default_rng(0), 0
    more = {"neighbours": 1, "dropout": 0.0} if make is od.SparseEDLAE else {}
    for _ in range(20):
        X = np.array([9e3 + rng.random(2), rng.random(2), [1, 0], [0, 1.0]])
        model = make(l2=1.0, user_power=0.0, dtype="float64", **more).fit(X)
        model.forget(X[:1])
        model.forget(X[1:2])
        assert model.gram_.toarray().min() >= 0
        np.testing.assert_allclose(model.gram_.toarray(), np.eye(2), atol=1e-7)
        blind = make(l2=1.0, user_power=0.0, dtype="float64", **more).fit_gram(od.gram(X))
        blind.forget(X[:1])
        try:
            blind.forget(X[1:2])
        except OffdiagError:
            refused += 1
    assert refused  # sums alone cannot tell


@pytest.mark.parametrize("make", [od.EASE, od.SparseEDLAE], ids=lambda make: make.__name__)
@pytest.mark.parametrize("small", [2_000, 2])
def test_whole_numbers_are_exact_beside_much_larger_ones(make, small, monkeypatch):
    monkeypatch.setattr(exact_change, "SMALL", small)
    for rows in (
        [[3e7, 3e7, 0], [2, 1, 1], [2, 0, 1], [0, 2, 1], [0, 1, 0], [0, 1, 1]],
        [[3e7, 3e7, 0], [1, 1, 1], [0, 1, 1], [2, 0, 1]],
    ):
        X = np.array(rows)
        more = {"neighbours": 1, "dropout": 0.0} if make is od.SparseEDLAE else {}
        model = make(l2=1.0, user_power=0.0, dtype="float64", **more).fit(X)
        certificate = model.forget(X[:1], prove=True)
        assert np.array_equal(model.gram_.toarray(), X[1:].T @ X[1:])
        assert certificate.proof <= 1e-12
        assert_same(model, refitted(model, X[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [od.EDLAE, od.SparseEDLAE], ids=lambda make: make.__name__)
@pytest.mark.parametrize("small", [2_000, 2])
@pytest.mark.parametrize(
    ("power", "values"), [(0.0, (1e9, 1e5)), (0.0, (3e8, 3e4)), (0.5, (1234567890, 123456)), (0.5, (3e6, 300))]
)
@pytest.mark.parametrize("stored", [False, True])
def test_nothing_is_lost_beside_values_a_billion_times_larger(
    make, small, power, values, stored, tmp_path, monkeypatch
):
    """Doubles alone would lose the small values once the large ones have been added and removed."""
    monkeypatch.setattr(exact_change, "SMALL", small)
    rng = np.random.default_rng(0)
    X = (rng.random((40, 6)) < 0.5) * rng.integers(1, 6, (40, 6)).astype(float)
    X[:, 0] = 0
    X[:3, 0] = [1, 2, 3]
    X = np.vstack([X, [values[0], 0, 1, 0, 1, 0], [values[1], 0, 1, 0, 1, 0]])
    more = {"neighbours": 3} if make is od.SparseEDLAE else {}
    model = make(dropout=0.3, l2=5.0, user_power=power, dtype="float64", **more).fit(X)
    model.forget(X[40:41])
    if stored:
        model.save(tmp_path / "m.od", updatable=True)
        model = od.load(tmp_path / "m.od")
    model.forget(X[41:])
    others = np.flatnonzero(X[:40, 0] == 0)[:5]
    model.forget(X[others])
    rest = np.delete(X, [*others, 40, 41], axis=0)
    fresh = type(model)(**model.get_params()).fit(rest)
    assert model.gram_.values.tobytes() == fresh.gram_.values.tobytes()
    assert_same(model, refitted(model, rest))


def test_values_of_very_different_size_leave_without_a_trace():
    makes = (od.EASE(l2=1.0, dtype="float64"), od.SparseEDLAE(l2=1.0, neighbours=1, dtype="float64"))
    for make, value in [(make, value) for make in makes for value in (1e12, 1e5)]:
        X = np.array([[value, 1.0, 0.3], [0.7, 1.0, 0.7], [0.0, 1.0, 0.1]])
        model = make.fit(X)
        model.forget(X[:1])
        assert model.gram_.values.tobytes() == type(make)(**make.get_params()).fit(X[1:]).gram_.values.tobytes()


@pytest.mark.parametrize("width", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_an_id_beyond_the_width_of_the_others_is_no_other_item(width):
    X = np.eye(5) + np.eye(5)[::-1]
    far = int(np.iinfo(width).max) + 1 + 3  # wraps around to 3
    model = od.EASE(l2=1.0, user_power=0.0).fit_gram(od.gram(X), item_ids=np.arange(5, dtype=width))
    alien = od.Interactions(sparse.csr_array(np.ones((1, 1))), np.array([99]), np.array([far]))
    with pytest.raises(OffdiagError, match=f"no item {far}"):
        model.forget(alien)
    model.update(alien)
    assert model.last_change.new_items == [far]
    assert model.item_ids_.tolist() == [*range(5), far]
    assert model.gram_.item_counts.tolist() == [*np.count_nonzero(X, axis=0), 1]


def test_ids_that_no_fit_would_take_are_refused():
    model = od.EASE(l2=1.0).fit(np.eye(5) + np.eye(5)[::-1])
    for ids, told in ((np.arange(5) * 1.0, "type float64"), ([7, 7, 1, 2, 3], "1 repeated"), ([b"a"] * 5, "type |S1")):
        rows = od.Interactions(sparse.csr_array(np.ones((1, 5))), np.array([9]), np.array(ids))
        for change in (model.update, model.forget):
            with pytest.raises(OffdiagError, match=told.replace("|", "[|]")):
                change(rows)
    assert model.item_ids_.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("method", ["update", "forget"])
def test_bad_rows_leave_the_model_as_it_was(method):
    model = od.EDLAE(dropout=0.3, l2=1.0).fit(od.read(shop()))
    numbers = od.read(np.eye(3), item_ids=[1, 2, 3])
    for rows, told in [
        (numbers, "item ids of the model are text"),
        (np.ones((1, 7)), "expected rows over the 3 items"),
        (np.full((1, 3), np.nan), "NaN"),
        (-np.ones((1, 3)), "negative"),
        ([["ale"]], "users×items matrix"),
        ([[1, 1, 1], [1]], "users×items matrix"),
    ]:
        with pytest.raises(OffdiagError, match=told):
            getattr(model, method)(rows)
    yam = od.read(np.ones((1, 1)), item_ids=["yam"])
    with pytest.raises(OffdiagError, match="no item 'yam'"):
        model.forget(yam)
    assert_same(model, refitted(model, od.read(shop())))


def test_nobody_is_no_change(rng):
    X = (rng.random((20, 5)) < 0.5).astype(float)
    model = od.EDLAE().fit(X)
    before = model.weights_.toarray()
    model.update(X[:0])
    assert model.last_change.method == "nothing to do"
    assert model.last_change.before == model.last_change.after
    assert np.array_equal(model.weights_.toarray(), before)


def test_a_user_without_items_counts_as_one(rng):
    X = (rng.random((20, 5)) < 0.5).astype(float)
    model = od.EDLAE(user_power=0.0).fit(X)
    model.update(np.zeros((1, 5)))
    assert model.n_users_ == 21
    model.forget(np.zeros((1, 5)))
    assert model.n_users_ == 20


def test_a_singular_problem_is_refused_and_the_old_model_comes_back(rng):
    X = (rng.random((30, 6)) < 0.5).astype(float)
    X[:, 5] = X[:, 4]
    X[0, 4:] = [0, 1]
    model = od.EASE(l2=0.0, user_power=0.0, dtype="float64").fit(X)
    before = model.weights_.toarray()
    with pytest.raises(OffdiagError, match="singular"):
        model.forget(X[:1])
    np.testing.assert_allclose(model.weights_.toarray(), before, atol=1e-9)
    assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()


def test_a_bad_inverse_is_noticed_and_made_anew(always_woodbury, rng):
    """The residual check, with a corrupted inverse."""
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    model.weights_.C[layout.positions(15, np.array([3]), np.array([9]))] += 1e-3
    model.update(rows_of(X, [0]))
    assert model.last_change.method == "refit"
    assert_same(model, refitted(model, sparse.csr_array(sparse.vstack([X, rows_of(X, [0])]))))


def test_the_estimated_error_bounds_the_measured_one(always_woodbury, rng):
    X = sparse.csr_array((rng.random((500, 120)) < 0.1).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    for u in range(20):
        certificate = model.forget(rows_of(X, [u]), prove=True)
        assert certificate.proof <= 2 * certificate.weight_error


@pytest.mark.parametrize(("dtype", "value"), [("float32", 9999.0), ("float64", 1e7), ("float64", 1e8)])
def test_a_user_who_outweighs_all_others_leaves_no_trace(dtype, value, always_woodbury, rng):
    """The inverse is nearly 0 where such a user was, so a small correction of it says nothing about its error."""
    X = (rng.random((300, 150)) < 0.15).astype(float)
    model = od.EASE(l2=5.0, user_power=0.0, dtype=dtype).fit(X)
    row = np.zeros((1, 150))
    row[0, :4] = value
    try:
        model.update(row)
    except OffdiagError as error:
        # Either is right: what cannot be exact is rejected, and what is accepted is exact.
        assert "singular" in str(error) or "scale the values down" in str(error)  # noqa: PT017
    else:
        assert model.forget(row, prove=True).proof <= CLOSE[dtype]
    assert_same(model, refitted(model, X))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cls", [od.EDLAE, od.DLAE, od.RDLAE, od.EASE])
def test_with_user_weights_l2_stays_until_its_unit_makes_a_step(cls, dtype, always_woodbury, rng):
    X = sparse.csr_array((rng.random((400, 60)) < rng.random(60) * 0.2).astype(np.float32))
    settings = {} if cls is od.EASE else {"dropout": 0.4}
    model = cls(l2=30.0, user_power=0.5, dtype=dtype, **settings).fit(X)
    methods, scale = [], model.gram_.scale
    for u in np.argsort(-np.diff(X.indptr), kind="stable")[:40]:  # the most active first: the mean weight grows
        certificate = model.forget(rows_of(X, [u]), prove=True)
        methods.append(certificate.method)
        assert certificate.proof <= CLOSE[dtype]
        assert certificate.method == ("woodbury" if model.gram_.scale == scale else "refit")
        scale = model.gram_.scale
    assert methods.count("refit") in (1, 2, 3, 4)
    left = np.argsort(-np.diff(X.indptr), kind="stable")[40:]
    assert_same(model, refitted(model, rows_of(X, np.sort(left))))


def test_certificates_tell_models_apart(always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(X)
    first = model.forget(rows_of(X, [3]))
    second = model.forget(rows_of(X, [4]))
    assert second.matches(model)
    assert not first.matches(model)
    assert not second.matches(od.EDLAE(dropout=0.4, l2=3.0).fit(X))
    assert len({first.before, first.after, second.before, second.after}) == 4  # each under its own nonce
    assert set(first.to_dict()) >= {"residual", "weight_error", "proof", "before", "after", "nonce"}
    assert not set(first.to_dict()) & {"interactions", "new_items", "gone_items", "method", "seconds"}


def test_a_certificate_that_is_kept_gives_what_is_accepted_or_a_power_of_ten():
    X = sparse.csr_array((np.random.default_rng(1).random((60, 15)) < 0.3).astype(np.float32))
    change = od.EDLAE(dropout=0.4, l2=3.0).fit(X).forget(rows_of(X, [3]))
    for error, kept in ((3.1e-3, 1e-2), (1e-2, 1e-2), (3.1e-7, 1e-5), (0.0, 1e-5), (None, None)):
        assert replace(change, proof=error).to_dict()["proof"] == pytest.approx(kept)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: od.EDLAE(dropout=0.4, l2=3.0, dtype=dtype),
        lambda dtype: od.EDLAE(dropout=0.4, l2=3.0, propensity_power=0.5, dtype=dtype),
        lambda dtype: od.SparseEDLAE(neighbours=5, dropout=0.4, l2=3.0, user_power=0.0, dtype=dtype),
        lambda dtype: od.LowRankDLAE(rank=3, dropout=0.4, l2=3.0, user_power=0.0, dtype=dtype),
        lambda dtype: od.Popularity(),
    ],
    ids=["EDLAE", "EDLAE with propensities", "SparseEDLAE", "LowRankDLAE", "Popularity"],
)
def test_a_kept_certificate_is_the_same_whether_or_not_it_took_a_refit(make, dtype, monkeypatch, always_woodbury, rng):
    """A long history makes a refit more likely, so the certificate would reveal how long it was."""
    X = sparse.csr_array((rng.random((400, 60)) < 0.1).astype(np.float32))
    monkeypatch.setattr(sparse_living, "WORTH", 2.0)
    kept = []
    for least in (exact_change.LARGE, 0):  # number of changed items from which everything is fitted again
        monkeypatch.setattr(exact_change, "SMALL", least)
        monkeypatch.setattr(exact_change, "LARGE", least)
        done = make(dtype).fit(X).forget(rows_of(X, [3]), prove=True)
        assert (done.method == "refit") == (least == 0)
        about = done.to_dict()
        for name in ("nonce", "before", "after"):
            about.pop(name)
        kept.append(about)
    assert kept[0] == kept[1]


def test_a_saved_model_goes_on_where_it_stopped(tmp_path, always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    model.save(tmp_path / "m.od", updatable=True)
    bytes_before = (tmp_path / "m.od").read_bytes()
    loaded = od.load(tmp_path / "m.od")
    loaded.forget(rows_of(X, [0]))
    assert loaded.last_change.method == "woodbury"
    assert (tmp_path / "m.od").read_bytes() == bytes_before  # the file is only read
    loaded.save(tmp_path / "m.od", updatable=True)
    again = od.load(tmp_path / "m.od", verify=True)
    again.update(rows_of(X, [0]))
    assert_same(again, model)
    assert again.gram_.values.tobytes() == model.gram_.values.tobytes()


def test_a_plain_file_holds_no_gram_and_says_so(tmp_path, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(X)
    model.save(tmp_path / "plain.od")
    model.save(tmp_path / "living.od", updatable=True)
    assert (tmp_path / "plain.od").stat().st_size == (tmp_path / "living.od").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["living.od", "living.od.living", "plain.od"]
    with pytest.raises(OffdiagError, match="updatable=True"):
        od.load(tmp_path / "plain.od").update(X)
    with pytest.raises(OffdiagError, match="updatable=True"):
        od.load(tmp_path / "plain.od").save(tmp_path / "no.od", updatable=True)


def test_pickles_hold_no_rows_and_copies_are_independent(always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    with pytest.raises(OffdiagError, match="does not have its Gram"):
        pickle.loads(pickle.dumps(model)).update(X)
    for twin in (copy.copy(model), copy.deepcopy(model), model.with_propensity(0.2)):
        before = model.weights_.toarray()
        twin.forget(rows_of(X, [0, 1, 2]))
        assert np.array_equal(model.weights_.toarray(), before)
        assert model.n_users_ == 60
        assert_same(twin, refitted(twin, rows_of(X, slice(3, None))))
        assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()


def test_counts_that_belong_to_others_stay_as_they_are(rng):
    X = (rng.random((60, 12)) < 0.4).astype(np.float32)
    for G in (od.gram(X), sparse_gram(X)):
        assert G.dtype == np.float32
        before = G.toarray()
        model = (od.EDLAE if isinstance(G, Gram) else od.SparseEDLAE)(dropout=0.3, l2=2.0).fit_gram(G)
        model.forget(X[:1])
        model.update(X[:2])
        assert np.array_equal(G.toarray(), before)


def test_nothing_to_do_leaves_the_ledger_as_it_is(tmp_path):
    inter = od.read(shop())
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(inter)
    model.save(tmp_path / "m.od", updatable=True)
    model = od.load(tmp_path / "m.od")
    model.update(inter.select_users([]))
    model.forget(inter.select_users([]))
    model.save(tmp_path / "m.od", updatable=True)
    assert past.ledger_of(od.load(tmp_path / "m.od")).n_users == inter.n_users


def test_nobody_brings_no_items(rng):
    model = od.EDLAE(dropout=0.4, l2=3.0).fit((rng.random((20, 5)) < 0.5).astype(np.float32))
    model.update(np.zeros((0, 7), np.float32))
    assert model.last_change.method == "nothing to do"
    assert model.last_change.new_items == []
    assert len(model.item_ids_) == model.gram_.n_items == model.weights_.shape[0] == 5


def test_a_new_fit_forgets_what_the_one_before_remembered(rng):
    X = (rng.random((20, 5)) < 0.5).astype(np.float32)
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(X)
    model.forget(X[:1])
    assert model.last_change is not None
    model.fit(X)
    assert model.last_change is None
    model.forget(X[:1])  # on the roll again


def test_models_that_cannot_change_are_not_saved_as_if_they_could(tmp_path, rng):
    X = (rng.random((60, 12)) < 0.4).astype(np.float32)
    with pytest.raises(OffdiagError, match="SLIM cannot be updated"):
        od.SLIM().fit(X).save(tmp_path / "m.od", updatable=True)
    assert not list(tmp_path.iterdir())


def test_a_matrix_changed_after_its_gram_was_read_makes_no_ledger(tmp_path):
    inter = od.read(shop())
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(inter)
    assert model.gram_.n_users == inter.n_users
    inter.matrix.data[0] = 7
    with pytest.raises(OffdiagError, match="has been changed since"):
        model.save(tmp_path / "m.od", updatable=True)


@pytest.mark.parametrize("ids", [np.array([2**63, 2**63 + 5], np.uint64), np.array([0.5, 1.5])], ids=["large", "float"])
def test_users_that_no_log_can_name_are_known_by_their_histories(ids, tmp_path):
    X = np.array([[1, 1, 0], [0, 1, 1]], np.float32)
    model = od.EASE(l2=1.0).fit(od.Interactions(sparse.csr_array(X), ids, np.arange(3)))
    model.save(tmp_path / "m.od", updatable=True)
    model = od.load(tmp_path / "m.od")
    model.forget(X[:1])
    with pytest.raises(OffdiagError, match="forgotten already"):
        model.forget(X[:1])


def test_a_model_fitted_on_a_gram_can_be_changed_and_leaves_that_gram_alone(always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    G = od.gram(X, 0.5)
    values = G.values.copy()
    model = od.EDLAE(dropout=0.4, l2=3.0).fit_gram(G)
    model.forget(rows_of(X, [0]))
    assert np.array_equal(G.values, values)
    assert_same(model, refitted(model, rows_of(X, slice(1, None))))


def test_grams_and_models_that_were_given_out_stay_as_they_are(always_woodbury, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    G = model.gram_
    other = od.EDLAE(dropout=0.2, l2=3.0).fit_gram(G)
    twin = copy.copy(model)
    kept, weights = G.values.copy(), twin.weights_.toarray()
    model.forget(rows_of(X, [0, 1]))
    assert np.array_equal(G.values, kept)
    assert np.array_equal(twin.weights_.toarray(), weights)
    for one in (other, twin):
        assert np.array_equal(one.gram_.values, kept)
        one.forget(rows_of(X, [0, 1]))
        assert one.gram_.values.tobytes() == model.gram_.values.tobytes()


@pytest.mark.parametrize("sparse_columns", [False, True])
def test_small_entries_beside_huge_ones_and_values_of_mean_one_survive(sparse_columns, rng):
    """Rounding remainders are judged by their own scale, and only true 0/1 data counts as such."""
    make = (lambda **kw: od.SparseEDLAE(neighbours=5, **kw)) if sparse_columns else od.EDLAE
    huge = rng.integers(0, 4, (60, 12)).astype(float)
    huge[0, 0] = 1e6
    mean_one = np.array([[0.5, 0.5, 0], [1.5, 0, 0.5], [0, 1.5, 1.5], [0.5, 0.5, 0], [1.5, 1.5, 0]])
    for X, gone in ((huge, [3, 4]), (mean_one, [3, 4])):
        for power in (0.0, 0.5):
            model = make(dropout=0.3, l2=1.0, user_power=power, dtype="float64").fit(X)
            model.forget(X[gone])
            rest = np.delete(X, gone, axis=0)
            np.testing.assert_allclose(
                model.gram_.toarray(), od.gram(rest, power, dtype=np.float64).toarray(), rtol=1e-9
            )
            expected = refitted(model, rest).weights_.toarray()
            np.testing.assert_allclose(model.weights_.toarray(), expected, rtol=1e-6, atol=1e-8)


def test_the_popularity_of_an_item_that_everybody_left_is_exactly_nothing():
    X = np.array([[0.1, 1.0], [0.2, 1.0], [0.3, 1.0], [0.0, 1.0]])
    model = od.EDLAE(l2=1.0).fit(X)
    for u in (1, 0, 2):  # .1 + .2 + .3 − .2 − .1 − .3 is not 0 in floating point
        model.forget(X[[u]])
    assert model.popularity_[0] == 0
    assert model.gram_.item_sums[0] == 0


def test_values_that_join_counts_are_not_rounded(rng):
    X = (rng.random((60, 12)) < 0.3).astype(float)
    model = od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0).fit(X)
    row = np.zeros((1, 12))
    row[0, :2] = 5001
    model.update(row)
    model.forget(row)
    assert np.array_equal(model.gram_.toarray(), X.T @ X)


def test_ids_of_another_width_join_without_becoming_fractions(rng):
    X = (rng.random((20, 3)) < 0.6).astype(float)
    big = 2**60
    model = od.EDLAE(l2=1.0).fit(od.read(X, item_ids=np.array([1, 2, big + 1])))
    model.update(
        od.Interactions(sparse.csr_array(np.ones((1, 2), np.float32)), np.array([99]), np.array([2, big], np.uint64))
    )
    assert model.item_ids_.tolist() == [1, 2, big, big + 1]
    assert model.item_ids_.dtype == np.int64


def test_a_matrix_that_was_changed_after_the_fit_is_noticed(rng):
    X = sparse.csr_array((rng.random((20, 5)) < 0.5).astype(np.float32))
    model = od.EDLAE().fit(X)
    X.data[:] = 2
    with pytest.raises(OffdiagError, match="has been changed since"):
        model.update(X[:1])


def test_the_last_user_cannot_leave():
    model = od.EDLAE().fit(np.eye(3))
    with pytest.raises(OffdiagError, match="delete it"):
        model.forget(np.eye(3))
    assert model.n_users_ == 3


@pytest.mark.parametrize("where", ["read", "residual", "products"])
def test_any_error_on_the_way_leaves_the_old_model(where, always_woodbury, monkeypatch, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0, dtype="float64").fit(X)
    before = model.weights_.toarray()
    place = {"read": full_rank.cholesky, "residual": woodbury, "products": packed_rows}[where]

    def fails(*_, **__):
        monkeypatch.undo()
        raise MemoryError("no room")

    monkeypatch.setattr(place, where, fails)
    with pytest.raises(MemoryError):
        model.forget(rows_of(X, [0]))
    np.testing.assert_allclose(model.weights_.toarray(), before, atol=1e-13)
    assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()
    assert model.n_users_ == 60


def test_a_proof_that_fails_comes_before_the_change(always_woodbury, monkeypatch, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    model.gram_  # noqa: B018
    before = model.weights_.toarray()

    def fails(*_):
        raise RuntimeError("no room")

    monkeypatch.setattr(od.EDLAE, "_refit", fails)
    with pytest.raises(RuntimeError):
        model.forget(rows_of(X, [0]), prove=True)
    assert np.array_equal(model.weights_.toarray(), before)
    assert model.n_users_ == 60
    assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()


@pytest.mark.slow
def test_an_interrupt_at_any_line_leaves_the_old_model_or_the_new_one(ctrl_c, always_woodbury, rng):
    """SIGINT at each line of the change in turn; the model is never a mixture."""
    X = sparse.csr_array((rng.random((40, 8)) < 0.4).astype(np.float32))
    old = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0, dtype="float64").fit(X)
    new = refitted(old, rows_of(X, slice(1, None)))
    files = ("exact_change", "past", "certificate", "user_rows", "living/full_rank", "woodbury", "packed")
    step, outcomes = 0, set()
    while True:
        model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0, dtype="float64").fit(X)
        left = step

        def trace(frame, event, _):
            nonlocal left
            if not frame.f_code.co_filename.removesuffix(".py").endswith(files):
                return None
            if event == "line":
                left -= 1
                if left == -1:
                    sys.settrace(None)
                    signal.raise_signal(signal.SIGINT)
            return trace

        try:
            sys.settrace(trace)
            model.forget(rows_of(X, [0]))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        expected = {40: old, 39: new}[model.n_users_]
        np.testing.assert_allclose(model.weights_.toarray(), expected.weights_.toarray(), atol=1e-12)
        assert np.array_equal(model.gram_.toarray(), expected.gram_.toarray())
        assert np.array_equal(model.popularity_, expected.popularity_)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        outcomes.add(model.n_users_)
        if left >= 0:
            break
        step += 1
    assert outcomes == {39, 40}
    assert step > 50


def test_a_batch_of_users_who_were_never_there_is_refused(monkeypatch):
    monkeypatch.setattr(exact_change, "SMALL", 5)
    X = np.repeat([[1] * 6 + [0] * 6, [0] * 6 + [1] * 6], 4, axis=0).astype(float)
    never = np.array([[1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0]], float)
    for power in (0.0, 0.5):
        model = od.EDLAE(dropout=0.3, l2=1.0, user_power=power).fit_gram(od.gram(X, power))
        with pytest.raises(OffdiagError, match="in common"):
            model.forget(never)
        assert_same(model, refitted(model, X))
        model.forget(X[:3])
        G = model.gram_.toarray()
        assert np.array_equal(G == 0, (X[3:].T @ X[3:]) == 0)


def test_compressed_models_and_nets_say_that_they_cannot(rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    small = od.compress(od.EDLAE().fit(X), max_bytes=600)
    with pytest.raises(OffdiagError, match="compress again"):
        small.forget(rows_of(X, [0]))
    with pytest.raises(OffdiagError, match="fit it again"):
        od.SLIM().fit(X).update(X)


def test_an_interrupt_waits_until_the_change_is_whole(ctrl_c, always_woodbury, monkeypatch, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    real = woodbury.change

    def interrupted(values, m, step):
        signal.raise_signal(signal.SIGINT)
        return real(values, m, step)

    monkeypatch.setattr(woodbury, "change", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.forget(rows_of(X, [0]))
    assert_same(model, refitted(model, rows_of(X, slice(1, None))))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_before_that_leaves_the_old_model(monkeypatch, rng):
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    before = model.weights_.C.tobytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(full_rank.exact_change, "refit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.forget(rows_of(X, [0]))
    assert model.weights_.C.tobytes() == before
    assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()
    assert model.n_users_ == 60


def test_more_users_than_half_the_catalogue_are_a_refit(monkeypatch, rng):
    monkeypatch.setattr(exact_change, "SMALL", 3)
    X = sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(rows_of(X, slice(0, 20)))
    model.update(rows_of(X, slice(20, 60)))
    assert model.last_change.method == "refit"
    assert_same(model, refitted(model, X))
    model.forget(rows_of(X, slice(20, 60)))
    assert_same(model, refitted(model, rows_of(X, slice(0, 20))))


def test_a_file_made_from_interactions_knows_its_users_only_by_keyed_hashes(tmp_path):
    import polars as pl

    table = shop().with_columns(pl.col("user") + "-of-the-long-name")
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(od.read(table))
    model.save(tmp_path / "m.od", updatable=True)
    content = (tmp_path / "m.od").read_bytes()
    assert b"long-name" not in content
    ledger = past.ledger_of(od.load(tmp_path / "m.od"))
    assert ledger.n_users == 4
    assert (ledger.places(ledger.hashes.users(od.read(table).user_ids)) >= 0).all()
    assert (ledger.places(ledger.hashes.users(np.array(["eve"]))) < 0).all()
