"""Splits hold every interaction exactly once, in the part they promise."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from offdiag.data import prepare, split, synthetic
from offdiag.data.read import read
from offdiag.errors import OffdiagError
from tests.fixtures.mistakes import rejects

row = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 6))
tables = st.lists(row, min_size=1, max_size=60)


def from_rows(rows):
    return read(pl.DataFrame(rows, schema=["user", "item", "time"], orient="row"), time="time")


def random_interactions(n_users=60, n_items=30, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return read(sparse.csr_array((rng.random((n_users, n_items)) < density).astype(float)))


def check_within_users(inter, parts):
    """train and all targets add up to the whole; histories are the user's interactions without later parts."""
    total = parts.train.matrix.toarray() + parts.test.targets.toarray()
    if parts.validation is not None:
        total += parts.validation.targets.toarray()
        assert np.array_equal(parts.validation.histories.toarray(), parts.train.matrix.toarray())
    assert np.array_equal(total, inter.matrix.toarray())
    assert np.array_equal(parts.test.histories.toarray() + parts.test.targets.toarray(), inter.matrix.toarray())
    assert parts.train.item_ids.tolist() == inter.item_ids.tolist()


@settings(max_examples=60)
@given(tables, st.integers(1, 3), st.floats(0.05, 0.95), st.integers(0, 5))
def test_a_strong_split_partitions_users_and_their_interactions(rows, held_out, fold_in, seed):
    inter = from_rows(rows)
    if 2 * held_out >= inter.n_users:
        with pytest.raises(OffdiagError, match="hold out fewer"):
            split.strong(inter, held_out, fold_in, seed)
        return
    parts = split.strong(inter, held_out, fold_in, seed)
    ids = [parts.train.user_ids, parts.validation.user_ids, parts.test.user_ids]
    assert sorted(np.concatenate(ids).tolist()) == inter.user_ids.tolist()
    dense = dict(zip(inter.user_ids.tolist(), inter.matrix.toarray(), strict=True))
    for user, r in zip(parts.train.user_ids.tolist(), parts.train.matrix.toarray(), strict=True):
        assert np.array_equal(r, dense[user])
    for part in (parts.validation, parts.test):
        assert len(part.user_ids) == held_out
        for k, user in enumerate(part.user_ids.tolist()):
            history, targets = part.histories.toarray()[k], part.targets.toarray()[k]
            assert np.array_equal(history + targets, dense[user])
            n = int((dense[user] > 0).sum())
            n_targets = int((targets > 0).sum())
            assert n_targets == (0 if n == 1 else min(max(round(n * (1 - fold_in)), 1), n - 1))


def test_a_strong_split_takes_a_fraction_or_a_number():
    inter = random_interactions()
    assert len(split.strong(inter, 0.1).test.user_ids) == 6
    assert len(split.strong(inter, 10).test.user_ids) == 10


@settings(max_examples=60)
@given(tables, st.sampled_from([0.0, 0.2, 0.4]), st.integers(0, 5))
def test_a_weak_split_holds_out_a_part_of_every_user_and_leaves_one(rows, validation, seed):
    inter = from_rows(rows)
    parts = split.weak(inter, 0.3, validation, seed)
    assert (parts.validation is None) == (validation == 0)
    check_within_users(inter, parts)
    sizes = np.diff(inter.matrix.indptr)
    targets = np.diff(parts.test.targets.indptr)
    assert np.array_equal(targets, np.clip(np.rint(sizes * 0.3), np.minimum(sizes - 1, 1), np.maximum(sizes - 1, 0)))
    assert np.diff(parts.train.matrix.indptr).min() >= 1


def test_random_splits_are_uniform_over_a_users_interactions():
    inter = read(sparse.csr_array(np.ones((2000, 5))))
    counts = split.weak(inter, 0.2, seed=3).test.targets.sum(axis=0)
    assert np.all(np.abs(counts - 400) < 5 * np.sqrt(2000 * 0.2 * 0.8))


@pytest.mark.parametrize("draw", [split.strong, split.weak, lambda i, seed: split.liang(i, 10, seed)])
def test_the_same_seed_gives_the_same_split_and_another_seed_another(draw):
    inter = random_interactions()
    one, two, other = draw(inter, seed=1), draw(inter, seed=1), draw(inter, seed=2)
    assert np.array_equal(one.test.targets.toarray(), two.test.targets.toarray())
    assert not np.array_equal(one.test.targets.toarray(), other.test.targets.toarray())


@settings(max_examples=60)
@given(tables, st.booleans())
def test_last_out_takes_the_latest_of_each_user(rows, validation):
    inter = from_rows(rows)
    latest, place = {}, {}
    for k, (u, i, t) in enumerate(rows):
        latest[u, i] = max(t, latest.get((u, i), t))
        place.setdefault((u, i), k)
    order = {u: sorted((latest[p], place[p], p[1]) for p in latest if p[0] == u) for u in {r[0] for r in rows}}
    if all(len(o) < 2 for o in order.values()):
        with pytest.raises(OffdiagError, match="two interactions"):
            split.last_out(inter, validation)
        return
    parts = split.last_out(inter, validation)
    check_within_users(inter, parts)
    for k, user in enumerate(inter.user_ids.tolist()):
        mine = [i for _, _, i in order[user]]
        test = inter.item_ids[parts.test.targets[[k]].indices].tolist()
        assert test == (mine[-1:] if len(mine) >= 2 else [])
        if validation:
            held = inter.item_ids[parts.validation.targets[[k]].indices].tolist()
            assert held == (mine[-2:-1] if len(mine) >= 3 else [])


@given(tables, st.integers(-1, 7), st.integers(-1, 7))
def test_by_time_splits_at_the_given_time(rows, at, validation_at):
    inter = from_rows(rows)
    low, high = inter.times.min(), inter.times.max()
    if not low < at <= high:
        with pytest.raises(OffdiagError, match="both sides"):
            split.by_time(inter, at)
        return
    parts = split.by_time(inter, at)
    check_within_users(inter, parts)
    assert parts.train.times.max() < at
    assert parts.test.targets.nnz == (inter.times >= at).sum()
    between = ((inter.times >= validation_at) & (inter.times < at)).sum()
    if low < validation_at < at and between:
        parts = split.by_time(inter, at, validation_at)
        check_within_users(inter, parts)
        assert parts.train.times.max() < validation_at
        assert parts.validation.targets.nnz == between


def test_by_time_reads_dates():
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "time": ["2024-01-01", "2024-02-01"]})
    inter = read(frame, time="time")
    for at in ("2024-01-15", date(2024, 1, 15), datetime(2024, 1, 15, 12), np.datetime64("2024-01-15"), 1705276800):
        assert split.by_time(inter, at).test.targets.nnz == 1


def test_a_given_split_lines_up_the_columns():
    train = read(pl.DataFrame({"user": [1, 2], "item": [10, 30]}))
    valid = read(pl.DataFrame({"user": [2], "item": [10]}))
    test = read(pl.DataFrame({"user": [1, 3], "item": [20, 10]}))
    parts = split.given(train, test, valid)
    assert parts.train.item_ids.tolist() == [10, 20, 30]
    assert parts.train.user_ids.tolist() == [1, 2]
    assert parts.train.matrix.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert parts.test.user_ids.tolist() == [1, 2, 3]
    assert parts.test.histories.toarray().tolist() == [[1, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert parts.test.targets.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert parts.validation.targets.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]
    with pytest.raises(OffdiagError, match="one type"):
        split.given(train, read(pl.DataFrame({"user": ["a"], "item": [1]})))


UNTIMED, TIMED = random_interactions(), from_rows([(1, 1, 1), (1, 2, 2)])
test_an_impossible_split_is_rejected = rejects(
    (lambda: split.strong(UNTIMED, 0.6), "received 0.6 of 60 users.*; hold out fewer"),
    (lambda: split.strong(UNTIMED, 0), "received 0 of 60 users.*; hold out fewer"),
    (lambda: split.strong(UNTIMED, 1.5), r"held_out must be a number in \(0, 1\), received 1.5; e.g. 0.2"),
    (lambda: split.strong(UNTIMED, 0.1, fold_in=1.0), r"fold_in must be a number in \(0, 1\), received 1.0"),
    (lambda: split.weak(UNTIMED, 0.0), "held_out must be .*received 0.0"),
    (lambda: split.weak(UNTIMED, 0.5, 0.5), r"received 0.5 \+ 0.5; leave some for train"),
    (lambda: split.liang(UNTIMED, 30), "between 1 and 29 for 60 users, received 30"),
    (lambda: split.liang(UNTIMED, 0), "between 1 and 29 for 60 users, received 0"),
    (lambda: split.last_out(UNTIMED), "times for last_out, received none; read with time="),
    (lambda: split.by_time(UNTIMED, 3), "times for by_time, received none; read with time="),
    (lambda: split.by_time(TIMED, "soon"), "ISO date such as 2024-05-31, received 'soon'"),
    (lambda: split.by_time(TIMED, None), "a number or a date, received None"),
    (lambda: split.by_time(TIMED, 2, 1), "expected validation_at to leave interactions before it.*received 1"),
)


def test_a_validation_part_is_carved_out_of_train_and_test_stays():
    inter = synthetic.interactions(80, 40, 1500, seed=2)
    whole = split.weak(inter, held_out=0.2, seed=1)
    carved = split.carve(whole, validation=0.25, seed=3)
    assert carved.test is whole.test
    together = carved.train.matrix + carved.validation.targets
    assert (together != whole.train.matrix).nnz == 0
    assert carved.train.matrix.multiply(carved.validation.targets).nnz == 0
    assert carved.validation.targets.nnz == pytest.approx(0.25 * whole.train.nnz, rel=0.1)
    assert (carved.validation.histories != carved.train.matrix).nnz == 0
    again = split.carve(whole, validation=0.25, seed=3)
    assert (again.validation.targets != carved.validation.targets).nnz == 0
    with pytest.raises(OffdiagError, match="has validation users already"):
        split.carve(carved)


# The Liang protocol against a slow, independent reading of its description, draw for draw


def slow_liang(events: pd.DataFrame, held_out: int, seed: int):
    """Row by row on the filtered table: (train pairs, columns, per part {user: (history, targets)})."""
    users = sorted(set(events["user"]))
    shuffled = [users[k] for k in np.random.RandomState(seed).permutation(len(users))]
    test = set(shuffled[-held_out:])
    validation = set(shuffled[-2 * held_out : -held_out])
    columns, train = [], []
    for user, item in zip(events["user"], events["item"], strict=True):
        if user not in test and user not in validation:
            train.append((user, item))
            if item not in columns:
                columns.append(item)
    parts = []
    for members in (validation, test):
        generator = np.random.RandomState(seed)
        held = {}
        for user in sorted(members):
            mine = [i for u, i in zip(events["user"], events["item"], strict=True) if u == user and i in columns]
            targets = []
            if len(mine) >= 5:
                drawn = generator.choice(len(mine), size=int(0.2 * len(mine)), replace=False)
                targets = [mine[k] for k in drawn]
            held[user] = (sorted(set(mine) - set(targets)), sorted(targets))
        parts.append(held)
    return train, columns, parts


def table(seed: int, names: bool) -> pd.DataFrame:
    """Ratings in random order, each pair once."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(70 * 50)[:1800]
    frame = pd.DataFrame({"user": cells // 50 * 3 + 1, "item": cells % 50 * 7, "rating": rng.integers(1, 6, 1800)})
    return frame.astype({"user": str, "item": str}) if names else frame


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("seed", [98765, 0, 7])
def test_every_draw_equals_the_slow_protocol(seed, names):
    frame = table(seed, names)
    kept = frame[frame["rating"] >= 4]
    kept = kept[kept.groupby("user")["item"].transform("size") >= 5]
    train, columns, parts = slow_liang(kept, held_out=12, seed=seed)

    inter = read(frame, value="rating")
    inter = prepare.min_counts(prepare.binarize(inter, at_least=4), users=5, items=0)
    ours = split.liang(inter, held_out_users=12, seed=seed)

    assert ours.train.item_ids.tolist() == columns
    coo = ours.train.matrix.tocoo()
    pairs = zip(ours.train.user_ids[coo.row].tolist(), ours.train.item_ids[coo.col].tolist(), strict=True)
    assert sorted(pairs) == sorted(train)
    targets = 0
    for part, expected in zip((ours.validation, ours.test), parts, strict=True):
        assert part.user_ids.tolist() == sorted(expected)
        assert part.histories.shape == part.targets.shape == (12, len(columns))
        for row, user in enumerate(part.user_ids.tolist()):
            history = sorted(ours.train.item_ids[part.histories[[row]].indices].tolist())
            target = sorted(ours.train.item_ids[part.targets[[row]].indices].tolist())
            assert (history, target) == expected[user]
            targets += len(target)
    assert targets > 20  # the comparison is not vacuous


def test_the_order_of_the_table_decides_the_draws():
    frame = table(3, False)
    shuffled = frame.sample(frac=1, random_state=1)
    one, two = (split.liang(read(f), 12) for f in (frame, shuffled))
    assert one.test.user_ids.tolist() == two.test.user_ids.tolist()
    assert one.train.item_ids.tolist() != two.train.item_ids.tolist()
    back = np.argsort(one.train.item_ids), np.argsort(two.train.item_ids)
    assert not np.array_equal(one.test.targets.toarray()[:, back[0]], two.test.targets.toarray()[:, back[1]])


def test_users_without_interactions_are_not_counted():
    frame = table(4, False)
    frame.loc[frame["user"] < 30, "rating"] = 1
    inter = read(frame, value="rating")
    with_empty = prepare.binarize(inter, at_least=5)  # leaves empty users in place
    without = prepare.min_counts(with_empty, users=1, items=0)
    assert without.n_users < with_empty.n_users
    one, two = split.liang(with_empty, 12), split.liang(without, 12)
    assert one.test.user_ids.tolist() == two.test.user_ids.tolist()
    assert np.array_equal(one.test.targets.toarray(), two.test.targets.toarray())


def test_storage_order_does_not_matter_only_ids_do():
    frame = table(5, False)
    inter = read(frame)
    moved = inter.select_users(positions=slice(None, None, -1)).select_items(positions=slice(None, None, -1))
    one, two = split.liang(inter, 12), split.liang(moved, 12)
    assert one.train.item_ids.tolist() == two.train.item_ids.tolist()
    assert np.array_equal(one.test.targets.toarray(), two.test.targets.toarray())
