"""Pairs sorted into CSR order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from offdiag.data.sparse_rows import runs_of_rows, sort_pairs


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))), st.sampled_from([6, 2**40]))
def test_pairs_are_sorted_stably_by_row_and_column(pairs, n_cols):
    # With 2^40 columns a pair and its position do not fit in one integer: the other branch.
    rows, cols = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    expected = sorted(range(len(pairs)), key=lambda k: (pairs[k], k))
    order, columns = sort_pairs(rows, cols, 2**22 if n_cols > 6 else 6, n_cols)
    assert (list(range(len(pairs))) if order is None else order.tolist()) == expected
    assert (order is None) == (expected == list(range(len(pairs))))
    assert columns.tolist() == cols[expected].tolist()


@given(st.lists(st.integers(0, 5)), st.integers(1, 12))
def test_runs_hold_all_rows_and_about_as_many_entries_as_asked_for(lengths, entries):
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=int)])
    runs = runs_of_rows(indptr, entries)
    assert [row for lo, hi in runs for row in range(lo, hi)] == list(range(len(lengths)))
    assert all(indptr[hi] - indptr[lo] <= entries + 2 * 5 for lo, hi in runs)
