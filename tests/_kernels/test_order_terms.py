"""The terms of one event, written out by hand; sums of them are tested in gramian/test_order.py."""

import numpy as np

from offdiag._kernels import order_terms


def test_tails_sum_the_squares_of_what_follows():
    indptr, step = np.array([0, 0, 1, 5]), np.array([9.0, 0.1, 0.5, 0.25, 0.125])
    out = np.full(5, -1.0)
    order_terms.tails(indptr, step, out)
    last = 1.0  # of the source that ends with the last event but one
    middle = 1 + 0.25**2 * last
    assert out.tolist() == [-1.0, 1 + 0.5**2 * middle, middle, last, -1.0]


def test_whole_numbers_are_the_nearest():
    values = np.array([0.0, 0.4, 0.6, 1.5, 2.5, 1e9 + 0.7, 2.0**50 + 0.2])
    assert [order_terms.whole(x) for x in values] == np.rint(values).tolist()


def test_the_examples_between_two_events_are_counted():
    for window in (1, 2, 3, 5):
        for d in range(12):
            true = sum(0 <= at < window and 0 <= d - at < window for at in range(d + 1))
            assert max(order_terms.examples_between(d, window), 0) == true
