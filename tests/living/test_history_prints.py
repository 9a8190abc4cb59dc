"""Only users in a model can be forgotten: fingerprints of histories against a plain multiset of them."""

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.errors import OffdiagError
from offdiag.living import fingerprints, siphash
from offdiag.living.fingerprints import ITEM, Hashes
from offdiag.living.history_prints import Roll
from tests.laws.strategies import interactions

KEY = bytes(range(32))
HASHES = Hashes(KEY)
MODELS = [
    od.EDLAE(dropout=0.3, l2=2.0),
    od.SparseEDLAE(neighbours=5, dropout=0.3, l2=2.0),
    od.LowRankEDLAE(rank=3, dropout=0.3, l2=2.0),
    od.Spectral(rank=3),
    od.Popularity(),
]


def plain(row, item_ids):
    """A history as Python sees it."""
    return frozenset((item_ids[i].item(), float(np.float32(row[i]))) for i in np.flatnonzero(row))


def one_by_one(matrix, item_ids):
    """The same digests from one history at a time, items in the order of their ids."""
    found = []
    for row in matrix.toarray():
        entries = sorted((item_ids[i].item(), float(row[i])) for i in np.flatnonzero(row))
        digest = hashlib.blake2b(digest_size=16, key=KEY, person=b"history")
        for item, value in entries:
            digest.update(HASHES._ids(ITEM, np.array([item])).tobytes())
            digest.update(siphash.number_codes(np.array([value])).astype("<u8").tobytes())
        found.append(digest.digest() if entries else bytes(16))
    return np.frombuffer(b"".join(found), siphash.DIGEST)


@given(interactions(values="counts"), st.booleans(), st.sampled_from([1, 3, fingerprints._ROWS]), st.randoms())
def test_a_digest_is_that_of_the_sorted_history_whatever_blocks_and_columns(X, text, block, random):
    ids = np.array([f"item {i}" for i in range(X.shape[1])]) if text else np.arange(X.shape[1]) * 7
    order = np.array(random.sample(range(X.shape[1]), X.shape[1]), dtype=int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "_ROWS", block)
        found = HASHES.histories(X, ids)
        moved = HASHES.histories(sparse.csr_array(X[:, order]), ids[order])
    assert np.array_equal(found, one_by_one(X, ids))
    assert np.array_equal(found, moved)


@given(interactions(), interactions(values="counts"))
def test_a_history_of_ones_has_one_digest_whoever_stands_beside_it(X, other):
    width = max(X.shape[1], other.shape[1])
    X, other = (sparse.csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], width)) for A in (X, other))
    together = sparse.csr_array(sparse.vstack([X, other]))
    ids = np.arange(width)
    assert np.array_equal(HASHES.histories(together, ids)[: X.shape[0]], HASHES.histories(X, ids))


def test_digests_do_not_add_up():
    """The digests of two histories do not reveal that of both together."""
    X = sparse.csr_array(np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32))
    one, other, both = (int.from_bytes(d.ljust(16, b"\0"), "little") for d in HASHES.histories(X, np.arange(2)))
    assert (one + other) % 2**128 != both
    assert one ^ other != both


@given(interactions(values="counts"), st.data())
def test_the_roll_is_the_multiset_of_histories(X, data):
    ids = np.arange(X.shape[1])
    rows = X.toarray()
    known = Roll.of(X, ids)
    book = Counter(plain(row, ids) for row in rows if row.any())
    for _ in range(4):
        picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if len(rows) else []
        some = sparse.csr_array(X[picked]) if picked else X[:0]
        there = [plain(rows[i], ids) for i in picked if rows[i].any()]
        words = known.hashes.histories(some, ids)[np.diff(some.indptr) > 0]
        if data.draw(st.booleans()):
            known, book = known.with_(words), book + Counter(there)
            continue
        places = known.places(words)
        asked = Counter()
        for place, history in zip(places, there, strict=True):
            asked[history] += 1
            if place >= 0:
                assert book[history] > 0
        assert (places >= 0).sum() == sum(min(n, book[history]) for history, n in asked.items())
        assert len(np.unique(places[places >= 0])) == (places >= 0).sum()
        if (places >= 0).all():
            known, book = known.without(places), book - asked
    assert len(known.histories) == sum(book.values())
    assert np.all(known.histories[1:] >= known.histories[:-1])


def example(seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((60, 12)) < 0.4).astype(np.float32)
    return X[X.any(axis=1)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("stored", [False, True])
def test_nobody_is_forgotten_twice_or_by_half_and_nobody_who_was_not_there(model, stored, tmp_path):
    """Most of this could be subtracted from the sums without a trace."""
    X = example()
    model = type(model)(**model.get_params()).fit(X)
    if stored:
        model.save(tmp_path / "m.od", updatable=True)
        model = od.load(tmp_path / "m.od")
    half = X[:1].copy()
    half[0, np.flatnonzero(half[0])[0]] = 0
    assert half[0].any()
    assert not (half == X).all(axis=1).any()
    state = model.weights_.toarray().tobytes(), model.gram_.toarray().tobytes()
    with pytest.raises(OffdiagError, match="no user in it has the history of row 0.*nothing was changed"):
        model.forget(half)
    with pytest.raises(OffdiagError, match="no user in it has the history of row 2"):
        model.forget(np.vstack([X[1:3], X[1:2]]))  # one of them twice at once
    assert (model.weights_.toarray().tobytes(), model.gram_.toarray().tobytes()) == state
    model.forget(X[:1])
    with pytest.raises(OffdiagError, match="forgotten already"):
        model.forget(X[:1])
    model.update(half)
    assert model.forget(half).users == 1
    assert model.n_users_ == len(X) - 1


def test_who_has_the_same_history_can_leave_once_for_each(tmp_path):
    X = np.vstack([example(), np.eye(12)[:1], np.eye(12)[:1]]).astype(np.float32)
    same = int((X[-1] == X).all(axis=1).sum())
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(X)
    for _ in range(same):
        model.forget(X[-1:])
        model.save(tmp_path / "m.od", updatable=True)
        model = od.load(tmp_path / "m.od")
    with pytest.raises(OffdiagError, match="no user in it has the history"):
        model.forget(X[-1:])


def test_the_message_names_the_user_and_columns_may_come_and_go():
    import polars as pl

    table = pl.DataFrame({"user": ["ann", "ann", "bob", "cat", "cat"], "item": ["a", "c", "c", "a", "b"]})
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(od.read(table))
    model.update(od.read(pl.DataFrame({"user": ["dan", "dan"], "item": ["aa", "c"]})))  # every column moves
    with pytest.raises(OffdiagError, match="history of user 'eve'"):
        model.forget(od.read(pl.DataFrame({"user": ["ann", "ann", "eve"], "item": ["a", "c", "b"]})))
    model.forget(od.read(table.filter(pl.col("user") == "cat")))
    assert model.item_ids_.tolist() == ["a", "aa", "c"]
    model.forget(od.read(table.filter(pl.col("user") == "ann")))
    assert model.item_ids_.tolist() == ["aa", "c"]


@pytest.mark.parametrize("value", [16777217.0, 0.1])
def test_values_are_told_apart_to_their_last_digit(value):
    """A nearby value would be subtracted instead, and the Gram would match no set of users."""
    X = np.array([[value, 1, 0], [3, 1, 1], [0, 1, 1], [1, 0, 2]])
    near = X[:1].astype(np.float32).astype(np.float64)
    assert near[0, 0] != value
    model = od.EASE(l2=1.0, user_power=0.0, dtype="float64").fit(X)
    with pytest.raises(OffdiagError, match="or had other items or values"):
        model.forget(near)
    model.forget(X[:1])
    np.testing.assert_allclose(model.gram_.toarray(), X[1:].T @ X[1:], rtol=1e-14)


def test_a_part_of_interactions_holds_the_values_of_the_whole():
    X = sparse.csr_array(np.round(np.random.default_rng(1).random((40, 8)) * 5, 1))  # tenths are not exact in float32
    inter = od.Interactions(X, np.arange(40), np.arange(8))
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(inter)
    for user in range(30):
        model.forget(inter.select_users([user]))
    expected = od.gram(inter.select_users(np.arange(30, 40)), model.settings_["user_power"])
    np.testing.assert_allclose(model.gram_.toarray(), expected.toarray(), rtol=1e-13)


def test_a_new_fit_has_a_new_roll():
    X, other = example(), example(1)
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(X)
    model.forget(X[:1])
    model.fit_gram(od.gram(other))
    model.forget(other[:1])  # checked by the sums alone
    model.fit(other)
    model.forget(other[:1])


def test_a_roll_that_makes_no_sense_is_refused(tmp_path):
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(example())
    model.save(tmp_path / "m.od", updatable=True)
    good = od.load(tmp_path / "m.od")
    assert good.gram_.n_users == model.n_users_
    roll = good._past.roll
    arrays = roll.arrays()
    for bad in (arrays["histories"][::-1], arrays["histories"].astype(np.int64), arrays["histories"][:, :1]):
        with pytest.raises((ValueError, TypeError), match="roll|digests"):
            Roll.from_arrays(roll.hashes, {"histories": bad})
    good._past = replace(good._past, roll=Roll(roll.hashes, roll.histories[::-1]))
    good.save(tmp_path / "bad.od", updatable=True)
    with pytest.raises(OffdiagError, match="makes no sense.*roll"):
        _ = od.load(tmp_path / "bad.od").gram_


def test_every_model_has_a_key_of_its_own():
    """So two files cannot be joined."""
    X = sparse.csr_array(example())
    assert not np.isin(*(Roll.of(X, np.arange(12)).histories for _ in range(2))).any()
