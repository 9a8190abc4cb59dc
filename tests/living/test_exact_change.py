"""update and forget: the result of a fit on the remaining users, whatever the path, or the old model."""

import signal
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag._kernels import packed_rows
from offdiag.errors import OffdiagError
from offdiag.living import certificate, exact_change, full_rank
from offdiag.solvers import woodbury
from tests.fixtures.changed_models import CLOSE, assert_same, refitted, rows_of
from tests.laws.strategies import dtypes, interactions, kept_weights

penalties = st.sampled_from([(0.5, 5.0), (0.0, 1.0), (0.3, 0.0), (0.65, 100.0)])


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


@pytest.mark.usefixtures("always_woodbury")
def test_new_items_are_placed_as_by_a_fit_and_vanish_with_their_last_user(table):
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


@pytest.mark.parametrize("width", [5, 7])
def test_adding_no_users_changes_nothing(width, rng):
    model = od.EDLAE().fit((rng.random((20, 5)) < 0.5).astype(float))
    before = model.weights_.toarray()
    done = model.update(np.zeros((0, width), np.float32)).last_change
    assert (done.method, done.new_items) == ("nothing to do", [])
    assert done.before == done.after
    assert np.array_equal(model.weights_.toarray(), before)
    assert len(model.item_ids_) == model.gram_.n_items == model.weights_.shape[0] == 5


@pytest.mark.parametrize(
    "model",
    [
        od.EDLAE(), od.SparseEDLAE(neighbours=5), od.LowRankDLAE(rank=2), od.LowRankEDLAE(rank=2), od.Spectral(rank=2),
        od.ZeroDiagonalLAE(rank=2), od.WeightDecayLAE(rank=2), od.Popularity(),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_the_last_users_cannot_be_forgotten(model, X):
    for data in (X, od.read(X)):
        W = model.fit(data).weights_
        with pytest.raises(OffdiagError, match="delete it"):
            model.forget(data)
        assert model.weights_ is W
        assert model.n_users_ == 60


def test_more_users_than_half_the_catalogue_are_a_refit(monkeypatch, X):
    monkeypatch.setattr(exact_change, "SMALL", 3)
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(rows_of(X, slice(0, 20)))
    model.update(rows_of(X, slice(20, 60)))
    assert model.last_change.method == "refit"
    assert_same(model, refitted(model, X))
    model.forget(rows_of(X, slice(20, 60)))
    assert_same(model, refitted(model, rows_of(X, slice(0, 20))))


def test_a_singular_problem_is_refused_and_the_old_model_restored(rng):
    X = (rng.random((30, 6)) < 0.5).astype(float)
    X[:, 5] = X[:, 4]
    X[0, 4:] = [0, 1]
    model = od.EASE(l2=0.0, user_power=0.0, dtype="float64").fit(X)
    before = model.weights_.toarray()
    with pytest.raises(OffdiagError, match="singular"):
        model.forget(X[:1])
    np.testing.assert_allclose(model.weights_.toarray(), before, atol=1e-9)
    assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()


@pytest.mark.parametrize("where", ["read", "residual", "products"])
def test_an_error_during_a_change_leaves_the_old_model(where, always_woodbury, monkeypatch, X):
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


def test_a_proof_that_fails_leaves_the_old_model(always_woodbury, monkeypatch, model, X):
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
    files = (
        "exact_change",
        "interrupts",
        "past",
        "certificate",
        "user_rows",
        "living/full_rank",
        "woodbury",
        "packed",
        "user_weights",
        "digests",
        "ledger",
    )
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
    assert step > 500


def test_an_interrupt_waits_until_the_change_is_whole(ctrl_c, always_woodbury, monkeypatch, model, X):
    real = woodbury.change

    def interrupted(values, m, step):
        signal.raise_signal(signal.SIGINT)
        return real(values, m, step)

    monkeypatch.setattr(woodbury, "change", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.forget(rows_of(X, [0]))
    assert_same(model, refitted(model, rows_of(X, slice(1, None))))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_during_a_refit_leaves_the_old_model(monkeypatch, model, X):
    before = model.weights_.C.tobytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(full_rank.exact_change, "refit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.forget(rows_of(X, [0]))
    assert model.weights_.C.tobytes() == before
    assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()
    assert model.n_users_ == 60
