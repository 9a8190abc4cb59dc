"""Only users in a model can be forgotten: the roll against a plain multiset of histories; the arrays of a ledger."""

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.data.table import Table
from offdiag.errors import OffdiagError
from offdiag.living import events, log_rows
from offdiag.living.ledger import Ledger, Roll
from tests.laws.strategies import interactions

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
def test_a_user_is_forgotten_once_and_only_with_the_whole_history(model, stored, tmp_path):
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


def test_users_with_equal_histories_are_forgotten_one_by_one(tmp_path):
    X = np.vstack([example(), np.eye(12)[:1], np.eye(12)[:1]]).astype(np.float32)
    same = int((X[-1] == X).all(axis=1).sum())
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(X)
    for _ in range(same):
        model.forget(X[-1:])
        model.save(tmp_path / "m.od", updatable=True)
        model = od.load(tmp_path / "m.od")
    with pytest.raises(OffdiagError, match="no user in it has the history"):
        model.forget(X[-1:])


def test_the_message_names_the_user_and_columns_may_move():
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
def test_values_are_distinguished_to_their_last_digit(value):
    """A nearby value would be subtracted instead, and the Gram would match no set of users."""
    X = np.array([[value, 1, 0], [3, 1, 1], [0, 1, 1], [1, 0, 2]])
    near = X[:1].astype(np.float32).astype(np.float64)
    assert near[0, 0] != value
    model = od.EASE(l2=1.0, user_power=0.0, dtype="float64").fit(X)
    with pytest.raises(OffdiagError, match="or had other items or values"):
        model.forget(near)
    model.forget(X[:1])
    np.testing.assert_allclose(model.gram_.toarray(), X[1:].T @ X[1:], rtol=1e-14)


def test_a_part_of_interactions_has_the_values_of_the_whole():
    X = sparse.csr_array(np.round(np.random.default_rng(1).random((40, 8)) * 5, 1))  # tenths are not exact in float32
    inter = od.Interactions(X, np.arange(40), np.arange(8))
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(inter)
    for user in range(30):
        model.forget(inter.select_users([user]))
    expected = od.gram(inter.select_users(np.arange(30, 40)), model.settings_["user_power"])
    np.testing.assert_allclose(model.gram_.toarray(), expected.toarray(), rtol=1e-13)


def test_an_inconsistent_roll_is_refused(tmp_path):
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


LOG = Table(
    pl.Series(["ann@example.org", "bob", "bob"]), pl.Series(["Secret Item", "Other Item", "Secret Item"]),
    pl.Series([1.0, 2.0, 3.0]), pl.Series([7, 8, 9]),
)  # fmt: skip


def ledger_of_log():
    return events.read_first(LOG, log_rows.recipe_of(LOG))[1]


def test_a_ledger_is_restored_from_its_arrays():
    ledger = ledger_of_log()
    back = Ledger.from_arrays(ledger.hashes, {k: v.copy() for k, v in ledger.entries.arrays().items()}, ledger.about())
    assert back.recipe == ledger.recipe
    assert events.plan_update(back, LOG).new_events == 0


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("users", lambda a: a[:, :1]),
        ("users", lambda a: a[::-1]),
        ("users", lambda a: a.astype(np.int64)),
        ("histories", lambda a: a[:-1]),
        ("starts", lambda a: a + 1),
        ("events", lambda a: a[:-1]),
    ],
)
def test_an_inconsistent_ledger_is_refused(name, broken):
    ledger = ledger_of_log()
    arrays = ledger.entries.arrays() | {name: broken(ledger.entries.arrays()[name].copy())}
    with pytest.raises((ValueError, TypeError)):
        Ledger.from_arrays(ledger.hashes, arrays, ledger.about())
    with pytest.raises((ValueError, TypeError)):
        Ledger.from_arrays(ledger.hashes, ledger.entries.arrays(), ledger.about() | {"duplicates": "maybe"})


def test_no_id_can_be_found_in_a_ledger():
    ledger, other = ledger_of_log(), ledger_of_log()
    everything = b"".join(part.tobytes() for part in ledger.entries.arrays().values()) + str(ledger.about()).encode()
    for text in ("ann", "bob", "Secret", "Other"):
        assert text.encode() not in everything
    # Another file, another key: the two cannot be joined.
    assert not np.intersect1d(ledger.entries.users, other.entries.users).size
    assert not np.intersect1d(ledger.entries.events, other.entries.events).size
