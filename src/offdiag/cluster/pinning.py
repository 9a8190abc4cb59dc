"""Local workers keep to a core each: our loops use every core a process may run on, and that would be all of them."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


def pin(cores: list[int], index: int) -> None:
    """This process, with the threads it has and those they will start, on one of the cores."""
    if not hasattr(os, "sched_setaffinity"):
        return
    mine = {cores[index % len(cores)]}
    threads = Path("/proc/self/task")
    names = [int(path.name) for path in threads.iterdir()] if threads.is_dir() else [0]
    for thread in names:
        with suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(thread, mine)


def plugin(distributed: Any) -> Any:
    """The class that does it in every worker, also in one that takes the place of another."""

    class Pin(distributed.WorkerPlugin):  # type: ignore[misc]  # made here, for Dask loads on first use
        name = "offdiag-pin"

        def __init__(self, cores: list[int]) -> None:
            self.cores = cores

        def setup(self, worker: Any) -> None:
            number = worker.name if isinstance(worker.name, int) else 0
            pin(self.cores, number)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started it

    return Pin
