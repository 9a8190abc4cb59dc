"""Supports and stored rows from users in several places are those from all users at once, to the bit."""

import pickle
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.gramian.user_weights import weights_of
from offdiag.solvers import gram_bands, gram_rows, popularity_order, support
from tests.laws.strategies import dtypes, interactions, powers


def spread(X, power, cuts):
    """All users as Rows, and the same users in several places."""
    weight = weights_of(np.diff(X.indptr), power)
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=X.shape[1]))
    edges = [0, *sorted(cuts), X.shape[0]]
    some = [popularity_order.by_popularity(X[a:b], weight[a:b], rank) for a, b in pairwise(edges)]
    return popularity_order.by_popularity(X, weight, rank), some


def band_by_band(some, H, k, dtype, counts, edges):
    found, stored = [], []
    for lo, hi in pairwise(edges):
        added = gram_bands.add([gram_bands.count(data, np.arange(lo, hi)) for data in some])
        found.append(gram_bands.choose(added, lo, H, k, dtype, counts))
        stored.append(gram_bands.store(added, lo, found[-1].below, len(H), dtype))
    return support.join(found), stored


def rows_of(shelf):
    """Each row of a Shelf, by item, as {column: value}."""
    place, ptr, column_ptr, columns, values = shelf
    rows = {}
    for item in np.flatnonzero(place >= 0).tolist():
        r = place[item]
        row, listed = values[ptr[r] : ptr[r + 1]].tolist(), columns[column_ptr[r] : column_ptr[r + 1]].tolist()
        rows[item] = {j: value for j, value in zip(listed or range(len(row)), row, strict=True) if value}
    return rows


@given(interactions(max_users=20, max_items=25), powers, dtypes, st.integers(1, 9), st.data())
def test_users_in_several_places_give_the_same_supports_and_rows(X, power, dtype, k, data):
    n, m = X.shape
    whole, some = spread(X, power, data.draw(st.lists(st.integers(0, n), max_size=3)))
    H = popularity_order.diagonal(whole) * 1.5 + 1.0
    edges = [0, *sorted(set(data.draw(st.lists(st.integers(1, m), max_size=3))) - {m}), m]
    expected = support.choose(whole, H, k, dtype)
    found, stored = band_by_band(some, H, k, dtype, np.diff(whole.col_ptr), edges)
    for name in ("ptr", "rows", "values", "parent", "below"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    wanted = data.draw(st.sets(st.integers(0, m - 1), min_size=1))
    items = np.array(sorted(wanted), dtype=np.int32)
    n_head = data.draw(st.integers(0, m))
    tail = items[items >= n_head]
    bands = [rows for rows in stored if np.isin(tail, rows.items).any()]
    picked = [gram_bands.first_rows(rows, n_head) for rows in stored]
    picked += [gram_bands.pick([rows], tail[np.isin(tail, rows.items)], items) for rows in bands[::-1]]
    if len(bands):
        together = gram_bands.pick(bands, tail, items)
        assert [len(together.items), together.ptr[-1]] == [len(tail), sum(one.ptr[-1] for one in picked[len(stored) :])]
    shelf = gram_rows.Shelf(whole, expected.below, m, np.dtype(dtype))
    ours, full = rows_of(gram_bands.join(picked).shelf(m)), rows_of(shelf.arrays())
    assert ours.keys() == {*range(n_head), *tail.tolist()}
    for i, row in ours.items():
        among = full[i] if i < n_head else {j: value for j, value in full[i].items() if j in wanted}
        assert row == among


@given(
    interactions(max_users=20, max_items=25), st.integers(1, 24), st.lists(st.integers(0, 24), min_size=1, max_size=4)
)
def test_a_bench_holds_the_head_and_one_tail_after_another(X, n_head, tails):
    """Tails of any order of sizes; a copy of the bench, made while it has a tail, has the head."""
    m = X.shape[1]
    whole, some = spread(X, 0.5, [])
    H = popularity_order.diagonal(whole) * 1.5 + 1.0
    _, stored = band_by_band(some, H, 3, "float32", np.diff(whole.col_ptr), [0, m])
    head, items = gram_bands.first_rows(stored[0], n_head), np.arange(m, dtype=np.int32)
    bench = gram_bands.Bench(head)
    for first in tails:
        tail = items[max(first, n_head) :]
        picked = [gram_bands.pick(stored, tail, items)] if len(tail) else []
        expected = rows_of(gram_bands.join([head, *picked]).shelf(m))
        for one in (bench, pickle.loads(pickle.dumps(bench))):
            with one.rows(picked) as rows:
                assert rows_of(rows.shelf(m)) == expected


def test_counts_of_ones_are_sent_in_single_precision():
    X = od.synthetic.interactions(50, 20, 300, seed=0).matrix
    (whole, _), (weighted, _) = spread(X, 0.0, []), spread(X, 0.5, [])
    assert gram_bands.count(whole, np.arange(20)).values.dtype == np.float32
    assert gram_bands.count(weighted, np.arange(20)).values.dtype == np.float64


def test_picked_rows_hold_only_the_columns_asked_for():
    X = od.synthetic.interactions(60, 25, 200, seed=0).matrix
    whole, some = spread(X, 0.0, [20])
    H = popularity_order.diagonal(whole) + 1.0
    _, (stored,) = band_by_band(some, H, 3, "float32", np.diff(whole.col_ptr), [0, 25])
    listed = np.diff(stored.column_ptr) > 0
    assert listed.any()  # rows of both formats
    assert (np.diff(stored.ptr) > 0)[~listed].any()
    items = np.arange(1, 25, 2, dtype=np.int32)
    picked, full = rows_of(gram_bands.pick([stored], items, items).shelf(25)), rows_of(stored.shelf(25))
    assert picked == {i: {j: value for j, value in full[i].items() if j in items} for i in items.tolist()}
    assert any(len(picked[i]) < len(full[i]) for i in items[listed[items]].tolist())
