import numpy as np
import pytest

from offdiag._kernels import topk


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_the_heap_keeps_the_best_and_sorts_them(k):
    rng = np.random.default_rng(k)
    scores = rng.integers(0, 6, (30, 40)).astype(np.float32)  # many ties
    heap_scores = np.full((30, k), -np.inf, dtype=np.float32)
    heap_items = np.full((30, k), 40, dtype=np.int64)
    allowed = np.ones(40, dtype=np.bool_)
    none = np.zeros(31, dtype=np.int32)
    for lo in range(0, 40, 9):
        part = np.ascontiguousarray(scores[:, lo : lo + 9])
        topk.select_tile(part, lo, allowed, none, none, 0, heap_scores, heap_items)
    topk.sort_heaps(0, 30, heap_scores, heap_items)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert np.array_equal(heap_items, expected)
