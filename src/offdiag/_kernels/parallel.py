"""Compiling a loop so that it releases the interpreter lock, and sharing its ranges among plain threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag._kernels import interrupts, machine_code


def compiled(function: Callable[..., Any], fastmath: Iterable[str] = ("contract",), inline: str = "never") -> Any:
    """Compile on first use, to run without the interpreter lock; cache the machine code for later runs if possible."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy", "inline": inline}
    loop = machine_code.kept(function, **options)
    loop.compile = _shielded(loop.compile)
    return loop


def _shielded(compile_loop: Callable[..., Any]) -> Callable[..., Any]:
    """LLVM calls back into Python through ctypes, which ignores exceptions: a Ctrl-C raised there would be lost."""

    def compile_whole(*args: Any) -> Any:
        with interrupts.Shield():
            return compile_loop(*args)

    return compile_whole


def in_any_order(function: Callable[..., Any]) -> Any:
    """The same, but the compiler may reorder sums, which makes them many times faster."""
    return compiled(function, ("contract", "reassoc"))


def inlined(function: Callable[..., Any]) -> Any:
    """The same, but its code is copied into each caller and optimised there."""
    return compiled(function, inline="always")


def n_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_parallel(
    work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], done: Callable[[int], None] | None = None
) -> None:
    """Call ``work(*task)`` for every task on all cores; ``done`` receives the number of finished tasks.

    Free threads take the next task, so tasks need not be equal. Ctrl-C drops the tasks that have not started.
    """
    tasks = list(tasks)
    if len(tasks) == 1 or n_threads() == 1:
        for finished, task in enumerate(tasks, 1):
            work(*task)
            if done:
                done(finished)
        return
    interrupts.interrupt_waits()
    with ThreadPoolExecutor(n_threads()) as pool:
        try:
            futures = [pool.submit(work, *task) for task in tasks]
            for finished, future in enumerate(as_completed(futures), 1):
                future.result()
                if done:
                    done(finished)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def ranges(n: int, parts: int) -> list[tuple[int, int]]:
    """0..n in at most ``parts`` ranges of nearly equal length."""
    edges = np.linspace(0, n, min(max(parts, 1), max(n, 1)) + 1).astype(np.int64)
    return [(int(a), int(b)) for a, b in pairwise(edges) if b > a]


def shares(cost: NDArray[Any], parts: int) -> list[tuple[int, int]]:
    """Ranges of items whose costs are about equal; together they cover all items."""
    edges = np.searchsorted(np.cumsum(cost), np.linspace(0, cost.sum(), max(parts, 1) + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], edges, [len(cost)]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]
