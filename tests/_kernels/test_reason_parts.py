"""The largest part of a score, by hand."""

import numpy as np

from offdiag._kernels import reason_parts


def test_the_largest_part_and_its_share_of_the_positive_ones():
    indptr, indices, data = np.array([0, 3, 3]), np.array([0, 1, 2]), np.array([1.0, 2.0, 1.0], np.float32)
    columns = np.array([[0.5, 0.75, -9.0, 0.0], [-1.0, 0.0, 0.0, 0.0]], np.float32)  # items 3 and 4
    listed = np.array([3, 4, 3, -1])  # two users, k = 2
    best, share = np.full(4, -1), np.full(4, np.nan)
    reason_parts.strongest(
        0, 3, np.array([0, 1, 2]), 2, listed, 3, columns[None], indptr, indices, data[None], best, share
    )
    assert best.tolist() == [1, -1, -1, -1], "nothing adds to item 4, and the second history is empty"
    assert share[0] == 1.5 / 2.0
    assert np.isnan(share[1:]).all()


def test_between_equal_parts_the_earlier_column_is_taken():
    best, share = np.full(1, -1), np.full(1, np.nan)
    ones = np.ones(2, np.float32)
    rows = (np.array([0, 2]), np.array([1, 4]), ones[None])
    reason_parts.strongest(0, 1, np.array([0]), 1, np.array([0]), 0, np.ones((1, 1, 5), np.float32), *rows, best, share)
    assert (best[0], share[0]) == (1, 0.5)


def test_the_parts_of_two_weights_are_added_before_they_are_compared():
    best, share = np.full(1, -1), np.full(1, np.nan)
    indptr, indices = np.array([0, 2]), np.array([0, 1])
    data = np.array([[1.0, 1.0], [2.0, 0.5]], np.float32)
    columns = np.array([[[1.0, 3.0]], [[0.0, -4.0]]], np.float32)  # 1·1 + 2·0 and 1·3 − 0.5·4
    reason_parts.strongest(0, 1, np.array([0]), 1, np.array([0]), 0, columns, indptr, indices, data, best, share)
    assert (best[0], share[0]) == (0, 0.5)
