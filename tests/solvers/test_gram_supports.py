"""Rows of a stored Gram for the solver of sparse columns: the same parts as from the interactions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offdiag.gramian.sparse import sparse_gram
from offdiag.solvers import gram_supports, gram_triangles, popularity_order, support
from tests.laws.strategies import dtypes, interactions


@given(interactions(max_users=30, max_items=20, min_items=3), st.sampled_from([1, 2, 4, 7]), dtypes)
def test_stored_rows_give_the_triangles_of_the_interactions(X, k, dtype):
    stored = gram_supports.RankedGram.of(sparse_gram(X))
    counted = popularity_order.by_popularity(X, np.ones(X.shape[0]), stored.rank)
    found = support.choose(counted, popularity_order.diagonal(counted) + 1.0, k, dtype)
    held = gram_supports.StoredTriangles(stored, dtype), gram_triangles.Triangles(counted, found.below, dtype)
    blocks = gram_triangles.plan_some(found, np.dtype(dtype).itemsize, 300).blocks
    assert np.array_equal(np.concatenate([*blocks, []]), np.flatnonzero(np.diff(found.ptr)))
    for block in blocks:
        for triangles in held:
            triangles.hold(found, block)
        ours, theirs = (triangles.values[: triangles.start[-1]] for triangles in held)
        assert ours.tobytes() == theirs.tobytes()
