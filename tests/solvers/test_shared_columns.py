"""Columns of many settings from one Gram against those of each setting, and the selection against sorting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offdiag._kernels import shared_columns as kernels
from offdiag.solvers import gram_rows, popularity_order, shared_columns, support
from offdiag.solvers.shared_columns import WholeGram
from tests.fixtures.sparse_catalogue import example
from tests.laws.strategies import interactions


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0, np.inf]), min_size=1, max_size=40), st.data())
def test_the_kth_largest_is_that_of_a_sort(numbers, data):
    k = data.draw(st.integers(1, len(numbers)))
    assert kernels.largest(np.array(numbers), len(numbers), k) == sorted(numbers, reverse=True)[k - 1]


@given(interactions(max_users=25, max_items=18, min_items=2), st.lists(st.integers(1, 17), min_size=1, max_size=4))
def test_supports_and_columns_are_those_of_each_setting(X, neighbours):
    m = X.shape[1]
    neighbours = [min(k, m - 1) for k in neighbours]
    whole = WholeGram.count(X, 0.0, np.float64, None)
    H = [2.0 * whole.g + 0.5 * (n + 1) for n in range(len(neighbours))]
    data = popularity_order.by_popularity(X, np.ones(X.shape[0]), whole.rank)
    for n, (found, explained) in enumerate(shared_columns.solve(whole, H, neighbours, np.float64)):
        expected = support.choose(data, H[n], neighbours[n], np.float64)
        left = support.solve(data, H[n], expected, gram_rows.plan(expected, 8, 1 << 20))
        for name in ("ptr", "rows", "values"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        np.testing.assert_array_equal(explained, left)


def test_the_need_of_memory_is_an_upper_bound():
    X = example()
    assert WholeGram.count(X, 0.5, np.float32, None).G.nbytes <= shared_columns.bytes_needed(X) + 8 * (X.shape[1] + 1)


def test_the_solving_order_holds_every_item_once():
    whole = WholeGram.count(example(), 0.0, np.float32, None)
    assert sorted(whole.order) == list(range(90))
