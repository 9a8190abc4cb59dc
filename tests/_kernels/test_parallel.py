import threading

import pytest

from offdiag._kernels import parallel


def test_ranges_cover_everything_once():
    for n in (0, 1, 2, 7, 100):
        for parts in (0, 1, 3, 200):
            assert [i for lo, hi in parallel.ranges(n, parts) for i in range(lo, hi)] == list(range(n))


def test_every_task_runs_once_and_is_reported():
    seen, reported, lock = [], [], threading.Lock()

    def work(i):
        with lock:
            seen.append(i)

    parallel.run_parallel(work, [(i,) for i in range(50)], reported.append)
    assert sorted(seen) == list(range(50))
    assert reported == list(range(1, 51))


def test_an_error_in_a_task_reaches_the_caller():
    def work(i):
        if i == 3:
            raise RuntimeError("task 3")

    with pytest.raises(RuntimeError, match="task 3"):
        parallel.run_parallel(work, [(i,) for i in range(10)])
