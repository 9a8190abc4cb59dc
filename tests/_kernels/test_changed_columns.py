"""Weights by row become supports by column, in the order in which columns are solved."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag._kernels import changed_columns


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_columns_hold_the_weights_of_items_that_stay_least_popular_first(m, seed):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((m, m)) < 0.4, rng.normal(size=(m, m)), 0)
    W = sparse.csr_array(dense)
    wider = m + int(rng.integers(0, 3))
    place = np.sort(rng.choice(wider, m, replace=False))
    place[rng.random(m) < 0.2] = -1
    at = np.full(wider, -1)
    at[place[place >= 0]] = np.flatnonzero(place >= 0)
    order = rng.permutation(wider).astype(np.int32)
    rank = np.argsort(order).astype(np.int32)
    new = np.zeros((wider, wider))
    stays = np.flatnonzero(place >= 0)
    new[np.ix_(place[stays], place[stays])] = dense[np.ix_(stays, stays)]
    by_rank = new[np.ix_(order, order)]
    ptr = np.concatenate([[0], np.cumsum(np.count_nonzero(by_rank, axis=0))])
    members, weights, cursor = np.full(ptr[-1], -1, dtype=np.int32), np.zeros(ptr[-1]), ptr[:-1].copy()
    changed_columns.rows_to_columns(
        W.indptr.astype(np.int64), W.indices.astype(np.int32), W.data, order, rank, at, place, cursor, members, weights
    )
    assert np.array_equal(cursor, ptr[1:])
    for c in range(wider):
        expected = np.flatnonzero(by_rank[:, c])[::-1]
        assert np.array_equal(members[ptr[c] : ptr[c + 1]], expected)
        assert np.array_equal(weights[ptr[c] : ptr[c + 1]], by_rank[expected, c])
