"""Time and extra peak memory of one call in this process, and what other programs did meanwhile.

Memory is the peak of resident memory above the level before the call.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{key} is not in /proc/self/status")


def measured(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result of the call, its seconds and the bytes by which it raised the resident peak."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the earlier peak
    before = _status("VmRSS:")
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    return result, {"seconds": seconds, "extra_peak_bytes": max(_status("VmHWM:") - before, 0)}


def moment() -> tuple[float, float, float]:
    """Now: the clock, the processor seconds of the whole machine, and those of this process and its children."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    busy = sum(ticks) - ticks[3] - ticks[4]  # all but idle and waiting for a disk
    return time.perf_counter(), busy / os.sysconf("SC_CLK_TCK"), processor_seconds()


def processor_seconds() -> float:
    """User and system time of this process, all threads, and of its finished children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def others(since: tuple[float, float, float]) -> float:
    """The cores that other programs kept busy since that moment, on average."""
    clock, busy, own = (now - then for now, then in zip(moment(), since, strict=True))
    return max(0.0, (busy - own) / clock)


def machine() -> dict[str, Any]:
    """The machine on which the figures were measured."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "page_bytes": resource.getpagesize(),
    }
