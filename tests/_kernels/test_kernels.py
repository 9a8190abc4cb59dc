import threading

import numpy as np
import pytest

from offdiag._kernels import parallel, topk


def test_ranges_cover_everything_once():
    for n in (0, 1, 2, 7, 100):
        for parts in (0, 1, 3, 200):
            assert [i for lo, hi in parallel.ranges(n, parts) for i in range(lo, hi)] == list(range(n))


def test_parallel_runs_every_task_once_and_reports_each():
    seen, heard, lock = [], [], threading.Lock()

    def work(i):
        with lock:
            seen.append(i)

    parallel.run_parallel(work, [(i,) for i in range(50)], heard.append)
    assert sorted(seen) == list(range(50))
    assert heard == list(range(1, 51))


def test_an_error_in_a_task_reaches_the_caller():
    def work(i):
        if i == 3:
            raise RuntimeError("task 3")

    with pytest.raises(RuntimeError, match="task 3"):
        parallel.run_parallel(work, [(i,) for i in range(10)])


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
