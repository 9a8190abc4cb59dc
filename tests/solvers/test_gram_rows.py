"""Rows of the Gram in blocks: every column once, within the memory allowed, with the numbers of the dense Gram."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offdiag._kernels import column_layout
from offdiag.solvers import gram_rows, popularity_order, support
from tests.laws import oracles
from tests.laws.strategies import interactions


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_the_family_order_holds_every_item_once_and_parents_first(m, seed):
    rng = np.random.default_rng(seed)
    parent = np.array([rng.integers(-1, i) if i else -1 for i in range(m)], dtype=np.int32)
    order = np.empty(m, dtype=np.int32)
    column_layout.family_order(parent, np.full(m, -1, np.int32), np.full(m, -1, np.int32), order)
    assert sorted(order) == list(range(m))
    place = np.argsort(order)
    assert all(place[parent[i]] < place[i] for i in range(m) if parent[i] >= 0)


@given(interactions(max_users=30, max_items=20, min_items=3), st.sampled_from([1, 2, 4, 7]), st.integers(1, 2_000))
def test_blocks_hold_every_column_once_and_keep_to_their_memory(X, k, block_bytes):
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=X.shape[1]))
    data = popularity_order.by_popularity(X, np.ones(X.shape[0]), rank)
    H = popularity_order.diagonal(data) + 1.0
    found = support.choose(data, H, k, np.float32)
    plan = gram_rows.plan(found, 4, block_bytes, block_items=5)
    assert sorted(np.concatenate(plan.blocks)) == list(range(X.shape[1]))
    assert max(map(len, plan.blocks)) <= 5
    shelf = gram_rows.Shelf(data, found.below, plan.n_head, np.float32)
    G = oracles.gram(X.toarray())[np.ix_(np.argsort(rank), np.argsort(rank))]
    for block in plan.blocks:
        shelf.hold(found, block)
        needed = {j for i in block for j in found.rows[found.ptr[i] : found.ptr[i + 1]]}
        size = 4 * shelf.ptr[-1] + 4 * shelf.column_ptr[-1]
        assert size <= block_bytes or len(block) == 1
        for j in needed | set(range(plan.n_head)):
            r = shelf.place[j]
            row = np.zeros(j)
            listed = shelf.columns[shelf.column_ptr[r] : shelf.column_ptr[r + 1]]
            values = shelf.values[shelf.ptr[r] : shelf.ptr[r + 1]]
            row[listed if len(listed) else slice(None if len(values) else 0)] = values
            assert np.array_equal(row, G[j, :j])
