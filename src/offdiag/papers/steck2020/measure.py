"""Seconds and peak memory of a call, where the system reports it."""

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
    """The result of the call, its seconds, and the bytes by which it raised the resident peak of this process."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # freed memory that was not returned would hide the need
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
