"""What a model remembers of its users: in memory, in copies and pickles, and in files."""

import copy
import pickle

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import offdiag as od
from offdiag.errors import OffdiagError
from offdiag.gramian.sparse import sparse_gram
from offdiag.living import past
from tests.fixtures.changed_models import assert_same, refitted, rows_of


def test_pickles_hold_no_rows_and_copies_are_independent(always_woodbury, model, X):
    with pytest.raises(OffdiagError, match="does not have its Gram"):
        pickle.loads(pickle.dumps(model)).update(X)
    for twin in (copy.copy(model), copy.deepcopy(model), model.with_propensity(0.2)):
        before = model.weights_.toarray()
        twin.forget(rows_of(X, [0, 1, 2]))
        assert np.array_equal(model.weights_.toarray(), before)
        assert model.n_users_ == 60
        assert_same(twin, refitted(twin, rows_of(X, slice(3, None))))
        assert model.gram_.values.tobytes() == od.gram(X).values.tobytes()


def test_files_of_a_model_hold_no_user_id(tmp_path, table):
    named = table.with_columns(pl.col("user") + "-of-the-long-name")
    od.EDLAE(dropout=0.4, l2=3.0).fit(od.read(named)).save(tmp_path / "m.od", updatable=True)
    for path in (tmp_path / "m.od", tmp_path / "m.od.living"):
        assert b"long-name" not in path.read_bytes()
    ledger = past.ledger_of(od.load(tmp_path / "m.od"))
    assert ledger.n_users == 4
    assert (ledger.places(ledger.hashes.users(od.read(named).user_ids)) >= 0).all()
    assert (ledger.places(ledger.hashes.users(np.array(["eve"]))) < 0).all()


def test_earlier_grams_and_copies_are_not_changed(always_woodbury, model, X):
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


@pytest.mark.parametrize(
    ("make", "count"), [(od.EDLAE, od.gram), (od.EDLAE, lambda X: od.gram(X, 0.5)), (od.SparseEDLAE, sparse_gram)]
)
def test_a_model_fitted_on_a_gram_does_not_change_that_gram(make, count, always_woodbury, X):
    G = count(X)
    values = G.values.copy()
    model = make(dropout=0.4, l2=3.0).fit_gram(G)
    model.forget(rows_of(X, [0]))
    assert_same(model, refitted(model, rows_of(X, slice(1, None))))
    model.update(rows_of(X, [0, 1]))
    assert np.array_equal(G.values, values)


def test_a_new_fit_forgets_the_roll_and_the_certificate_of_the_one_before(model, X, rng):
    model.forget(X[:1])
    assert model.last_change is not None
    model.fit(X)
    assert model.last_change is None
    model.forget(X[:1])  # on the roll again
    other = (rng.random((60, 15)) < 0.3).astype(np.float32)
    model.fit_gram(od.gram(other))
    model.forget(other[:1])  # checked by the sums alone
    model.fit(other)
    model.forget(other[:1])


def test_a_matrix_that_was_changed_after_the_fit_is_detected(tmp_path, shop):
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(shop)
    other = od.EDLAE(dropout=0.4, l2=3.0).fit(shop)
    assert other.gram_.n_users == shop.n_users  # its Gram is counted, its ledger is not
    shop.matrix.data[0] = 7
    with pytest.raises(OffdiagError, match="has been changed since"):
        model.update(shop.select_users([0]))
    with pytest.raises(OffdiagError, match="has been changed since"):
        other.save(tmp_path / "m.od", updatable=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda X: od.compress(od.EDLAE().fit(X), max_bytes=600), "compress again"),
        (lambda X: od.compress(od.SparseEDLAE(neighbours=5).fit(X), storage="float16"), "compress again"),
        (lambda X: od.SLIM().fit(X), "SLIM cannot be updated.*fit it again"),
        (lambda X: od.ItemKNN().fit(X), "ItemKNN cannot be updated.*fit it again"),
        (lambda X: od.WMF().fit(X), "WMF cannot be updated.*fit it again"),
    ],
)
def test_models_that_cannot_be_changed_are_not_saved_as_updatable(make, words, tmp_path, X):
    model = make(X)
    for change in (model.update, model.forget, lambda _: model.save(tmp_path / "m.od", updatable=True)):
        with pytest.raises(OffdiagError, match=words):
            change(X[:1])
    assert not list(tmp_path.iterdir())


def test_a_saved_model_continues_where_it_stopped(tmp_path, always_woodbury, model, X):
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


def test_a_plain_file_holds_no_gram(tmp_path, X):
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(X)
    model.save(tmp_path / "plain.od")
    model.save(tmp_path / "living.od", updatable=True)
    assert (tmp_path / "plain.od").stat().st_size == (tmp_path / "living.od").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["living.od", "living.od.living", "plain.od"]
    with pytest.raises(OffdiagError, match="updatable=True"):
        od.load(tmp_path / "plain.od").update(X)
    with pytest.raises(OffdiagError, match="updatable=True"):
        od.load(tmp_path / "plain.od").save(tmp_path / "no.od", updatable=True)


def test_a_change_without_users_keeps_the_ledger(tmp_path, shop):
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(shop)
    model.save(tmp_path / "m.od", updatable=True)
    model = od.load(tmp_path / "m.od")
    model.update(shop.select_users([]))
    model.forget(shop.select_users([]))
    model.save(tmp_path / "m.od", updatable=True)
    assert past.ledger_of(od.load(tmp_path / "m.od")).n_users == shop.n_users


@pytest.mark.parametrize("ids", [np.array([2**63, 2**63 + 5], np.uint64), np.array([0.5, 1.5])], ids=["large", "float"])
def test_users_that_no_log_can_name_are_known_by_their_histories(ids, tmp_path):
    X = np.array([[1, 1, 0], [0, 1, 1]], np.float32)
    model = od.EASE(l2=1.0).fit(od.Interactions(sparse.csr_array(X), ids, np.arange(3)))
    model.save(tmp_path / "m.od", updatable=True)
    model = od.load(tmp_path / "m.od")
    model.forget(X[:1])
    with pytest.raises(OffdiagError, match="forgotten already"):
        model.forget(X[:1])
