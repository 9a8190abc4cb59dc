"""Rows to add or remove: what is refused, and sums of very different size that leave no trace."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.errors import OffdiagError
from offdiag.gramian.sparse import sparse_gram
from offdiag.living import exact_change
from tests.fixtures.changed_models import assert_same, refitted, rows_of
from tests.laws.strategies import interactions

either_ridge = pytest.mark.parametrize(
    "make", [od.EASE, partial(od.SparseEDLAE, neighbours=1, dropout=0.0)], ids=["full rank", "sparse"]
)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 1, 1, 1]], "no user in it has as many items"),
        ([[0, 0, 1, 0]], "has fewer users"),
        ([[1, 1, 0, 0]] * 3, "has fewer users"),
        ([[0, 1, 0, 1]], "in common"),
    ],
)
@pytest.mark.parametrize("sums_only", [True, False])
def test_unknown_users_cannot_be_forgotten_and_nothing_changes(rows, words, sums_only):
    X = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 1]], float)
    model = od.EDLAE(dropout=0.3, l2=1.0)
    model = model.fit_gram(od.gram(X, 0.5)) if sums_only else model.fit(X)
    words = words if sums_only else "no user in it has the history of row"
    state = (model.weights_.C.tobytes(), model.gram_.values.tobytes(), model.n_users_)
    with pytest.raises(OffdiagError, match="cannot have been in the data.*nothing was changed") as error:
        model.forget(np.array(rows, float))
    assert words in str(error.value)
    assert (model.weights_.C.tobytes(), model.gram_.values.tobytes(), model.n_users_) == state


def test_rows_whose_removal_leaves_no_valid_gram_are_refused():
    """Every item and every pair occurs often enough, and a user has four items, but no user has these four."""
    X = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1], [1, 1, 1, 0, 0]], float)
    model = od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0).fit_gram(od.gram(X))
    with pytest.raises(OffdiagError, match="not a sum over users"):
        model.forget(np.array([[1, 1, 1, 1, 0]], float))
    assert_same(model, refitted(model, X))


def test_a_batch_with_unknown_users_is_refused(monkeypatch):
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


@pytest.mark.parametrize("method", ["update", "forget"])
def test_bad_rows_leave_the_model_as_it_was(method, shop):
    model = od.EDLAE(dropout=0.3, l2=1.0).fit(shop)
    numbers = od.read(np.eye(3), item_ids=[1, 2, 3])
    for rows, words in [
        (numbers, "item ids of the model are text"),
        (np.ones((1, 7)), "expected rows over the 3 items"),
        (np.full((1, 3), np.nan), "NaN"),
        (-np.ones((1, 3)), "negative"),
        ([["ale"]], "users×items matrix"),
        ([[1, 1, 1], [1]], "users×items matrix"),
    ]:
        with pytest.raises(OffdiagError, match=words):
            getattr(model, method)(rows)
    yam = od.read(np.ones((1, 1)), item_ids=["yam"])
    with pytest.raises(OffdiagError, match="no item 'yam'"):
        model.forget(yam)
    assert_same(model, refitted(model, shop))


@pytest.mark.parametrize("method", ["update", "forget"])
@pytest.mark.parametrize("make", [od.EDLAE, od.SparseEDLAE, od.Popularity])
def test_rows_with_too_few_columns_leave_the_model_as_it_was(make, method, X):
    model = make().fit(X)
    before = {name: array.copy() for name, array in model.weights_.arrays().items()}
    with pytest.raises(OffdiagError, match="expected rows over the 15 items"):
        getattr(model, method)(X[:1, :-1])
    assert all(np.array_equal(array, before[name]) for name, array in model.weights_.arrays().items())
    model.forget(X[:1])
    np.testing.assert_allclose(model.predict(X), refitted(model, X[1:]).predict(X), rtol=1e-5, atol=1e-5)


def test_ids_that_a_fit_refuses_are_refused():
    model = od.EASE(l2=1.0).fit(np.eye(5) + np.eye(5)[::-1])
    for ids, words in ((np.arange(5) * 1.0, "type float64"), ([7, 7, 1, 2, 3], "1 repeated"), ([b"a"] * 5, "type |S1")):
        rows = od.Interactions(sparse.csr_array(np.ones((1, 5))), np.array([9]), np.array(ids))
        for change in (model.update, model.forget):
            with pytest.raises(OffdiagError, match=words.replace("|", "[|]")):
                change(rows)
    assert model.item_ids_.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("width", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_an_id_beyond_the_width_of_the_others_is_another_item(width):
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


def test_ids_of_another_width_join_without_becoming_fractions(rng):
    X = (rng.random((20, 3)) < 0.6).astype(float)
    big = 2**60
    model = od.EDLAE(l2=1.0).fit(od.read(X, item_ids=np.array([1, 2, big + 1])))
    model.update(
        od.Interactions(sparse.csr_array(np.ones((1, 2), np.float32)), np.array([99]), np.array([2, big], np.uint64))
    )
    assert model.item_ids_.tolist() == [1, 2, big, big + 1]
    assert model.item_ids_.dtype == np.int64


def test_a_user_without_items_counts_as_one(rng):
    X = (rng.random((20, 5)) < 0.5).astype(float)
    model = od.EDLAE(user_power=0.0).fit(X)
    model.update(np.zeros((1, 5)))
    assert model.n_users_ == 21
    model.forget(np.zeros((1, 5)))
    assert model.n_users_ == 20


@given(interactions(max_users=12, max_items=8, values="ratings"), st.data(), st.sampled_from([0.0, 0.5]))
@settings(deadline=None)
def test_a_pair_that_no_user_shares_any_more_is_exactly_zero(X, data, power):
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


def test_a_gram_of_rounded_sums_cannot_be_changed(tmp_path, rng):
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
@pytest.mark.parametrize("make", [od.EDLAE, partial(od.SparseEDLAE, neighbours=6)], ids=["full rank", "sparse"])
def test_values_of_very_different_size_are_forgotten_in_any_order(make, sums_only, at_once, power, monkeypatch, rng):
    """The rounding of a sum is that of its largest past value, and can leave a negative remainder."""
    monkeypatch.setattr(exact_change, "SMALL", 40 if at_once == 1 else 5)
    X = np.where(rng.random((70, 30)) < 0.2, rng.lognormal(0, 2, (70, 30)), 0.0)
    X[np.arange(30), np.arange(30)] = 1.0  # these stay: no item vanishes
    model = make(dropout=0.3, l2=5.0, user_power=power, dtype="float64")
    if sums_only:
        model.fit_gram(od.gram(X, power) if make is od.EDLAE else sparse_gram(X, power))
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


def test_values_of_very_different_size_are_forgotten_exactly():
    makes = (od.EASE(l2=1.0, dtype="float64"), od.SparseEDLAE(l2=1.0, neighbours=1, dtype="float64"))
    for make, value in [(make, value) for make in makes for value in (1e12, 1e5)]:
        X = np.array([[value, 1.0, 0.3], [0.7, 1.0, 0.7], [0.0, 1.0, 0.1]])
        model = make.fit(X)
        model.forget(X[:1])
        assert model.gram_.values.tobytes() == type(make)(**make.get_params()).fit(X[1:]).gram_.values.tobytes()


@pytest.mark.slow
@either_ridge
@pytest.mark.parametrize("small", [2_000, 2])
def test_a_user_on_the_roll_can_be_forgotten_despite_rounding(make, small, monkeypatch):
    monkeypatch.setattr(exact_change, "SMALL", small)
    rng, refused = np.random.default_rng(0), 0
    for _ in range(20):
        X = np.array([9e3 + rng.random(2), rng.random(2), [1, 0], [0, 1.0]])
        model = make(l2=1.0, user_power=0.0, dtype="float64").fit(X)
        model.forget(X[:1])
        model.forget(X[1:2])
        assert model.gram_.toarray().min() >= 0
        np.testing.assert_allclose(model.gram_.toarray(), np.eye(2), atol=1e-7)
        blind = make(l2=1.0, user_power=0.0, dtype="float64").fit_gram(od.gram(X))
        blind.forget(X[:1])
        try:
            blind.forget(X[1:2])
        except OffdiagError:
            refused += 1
    assert refused  # sums alone cannot tell


@either_ridge
@pytest.mark.parametrize("small", [2_000, 2])
def test_whole_numbers_are_exact_next_to_much_larger_ones(make, small, monkeypatch):
    monkeypatch.setattr(exact_change, "SMALL", small)
    for rows in (
        [[3e7, 3e7, 0], [2, 1, 1], [2, 0, 1], [0, 2, 1], [0, 1, 0], [0, 1, 1]],
        [[3e7, 3e7, 0], [1, 1, 1], [0, 1, 1], [2, 0, 1]],
    ):
        X = np.array(rows)
        model = make(l2=1.0, user_power=0.0, dtype="float64").fit(X)
        certificate = model.forget(X[:1], prove=True)
        assert np.array_equal(model.gram_.toarray(), X[1:].T @ X[1:])
        assert certificate.proof <= 1e-12
        assert_same(model, refitted(model, X[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [od.EDLAE, partial(od.SparseEDLAE, neighbours=3)], ids=["full rank", "sparse"])
@pytest.mark.parametrize("small", [2_000, 2])
@pytest.mark.parametrize(
    ("power", "values"), [(0.0, (1e9, 1e5)), (0.0, (3e8, 3e4)), (0.5, (1234567890, 123456)), (0.5, (3e6, 300))]
)
@pytest.mark.parametrize("stored", [False, True])
def test_nothing_is_lost_next_to_values_a_billion_times_larger(
    make, small, power, values, stored, tmp_path, monkeypatch
):
    """Doubles alone would lose the small values once the large ones have been added and removed."""
    monkeypatch.setattr(exact_change, "SMALL", small)
    rng = np.random.default_rng(0)
    X = (rng.random((40, 6)) < 0.5) * rng.integers(1, 6, (40, 6)).astype(float)
    X[:, 0] = 0
    X[:3, 0] = [1, 2, 3]
    X = np.vstack([X, [values[0], 0, 1, 0, 1, 0], [values[1], 0, 1, 0, 1, 0]])
    model = make(dropout=0.3, l2=5.0, user_power=power, dtype="float64").fit(X)
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


@pytest.mark.parametrize("sparse_columns", [False, True])
def test_small_entries_next_to_huge_ones_and_values_of_mean_one_survive(sparse_columns, rng):
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


def test_the_popularity_of_an_item_without_users_is_exactly_zero():
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
