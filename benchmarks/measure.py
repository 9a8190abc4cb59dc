"""Time and extra peak memory of one call in this process: peak resident memory above the level before the call."""

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
