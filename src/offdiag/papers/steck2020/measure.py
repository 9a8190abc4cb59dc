"""Seconds of a call and the memory it took at its peak, where the system tells."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

_Found = TypeVar("_Found")


def measured(call: Callable[[], _Found]) -> tuple[_Found, float, int | None]:
    """What the call returned, its seconds, and by how many bytes it raised the resident peak of this process."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # memory that was freed but not given back would hide the need
        ctypes.CDLL(None).malloc_trim(0)
    before = _start()
    start = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - start
    peak = None if before is None else _status("VmHWM:")
    return found, seconds, None if before is None or peak is None else max(peak - before, 0)


def _start() -> int | None:
    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the earlier peak
    except OSError:  # another system, or not allowed here
        return None
    return _status("VmRSS:")


def _status(key: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)
