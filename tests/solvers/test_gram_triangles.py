"""Triangles of the Gram by column: the numbers of the dense Gram, within the memory allowed, and the same weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offdiag.solvers import gram_rows, gram_triangles, popularity_order, support
from tests.fixtures.sparse_catalogue import example
from tests.laws import oracles
from tests.laws.strategies import interactions


def by_popularity(X):
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=X.shape[1]))
    return popularity_order.by_popularity(X, np.ones(X.shape[0]), rank), np.argsort(rank)


@given(interactions(max_users=30, max_items=20, min_items=3), st.sampled_from([1, 2, 4, 7]), st.integers(1, 500))
def test_every_column_has_its_part_of_the_gram(X, k, block_bytes):
    data, order = by_popularity(X)
    found = support.choose(data, popularity_order.diagonal(data) + 1.0, k, np.float32)
    plan = gram_triangles.plan(found, 4, block_bytes)
    assert sorted(np.concatenate(plan.blocks)) == list(range(X.shape[1]))
    G = oracles.gram(X.toarray())[np.ix_(order, order)]
    triangles = gram_triangles.Triangles(data, found.below, np.float32)
    for block in plan.blocks:
        triangles.hold(found, block)
        assert not plan.by_column or len(block) == 1 or triangles.values.nbytes <= block_bytes
        for t, i in enumerate(block):
            S = found.rows[found.ptr[i] : found.ptr[i + 1]]
            expected = G[np.ix_(S, S)].T[np.triu_indices(len(S), 1)]
            assert np.array_equal(triangles.values[triangles.start[t] : triangles.start[t + 1]], expected)


def test_rows_and_triangles_give_the_same_bits():
    data, _ = by_popularity(example())
    H = popularity_order.diagonal(data) + 5.0
    kinds = support.Groups(np.arange(len(H)) % 7, 1.5)
    for groups in (support.ALONE, kinds):
        results = []
        for block_bytes, arrange in (
            (10_000, gram_rows.plan),
            (10_000, gram_triangles.plan),
            (2_000, gram_rows.plan),
        ):
            found = support.choose(data, H, 6, "float32", groups=groups)
            plan = arrange(found, 4, block_bytes)
            explained = support.solve(data, H, found, plan)
            results.append((plan.by_column, found.values.tobytes() + explained.tobytes()))
        assert [by_column for by_column, _ in results] == [False, True, False]
        assert len({values for _, values in results}) == 1


def test_the_plan_takes_what_counts_fewer_rows():
    data, _ = by_popularity(example())
    few = support.choose(data, popularity_order.diagonal(data) + 1.0, 3, "float32")
    many = support.choose(data, popularity_order.diagonal(data) + 1.0, data.n_items - 1, "float32")
    assert gram_triangles.plan(few, 4, 4_000).by_column
    assert gram_rows.plan(few, 4, 4_000).passes > gram_triangles.plan(few, 4, 4_000).passes
    room, _ = gram_rows.row_sizes(many.below)
    assert not gram_triangles.plan(many, 4, 8 * int(room.sum())).by_column
    assert gram_rows.plan(many, 4, 8 * int(room.sum())).passes == 1
