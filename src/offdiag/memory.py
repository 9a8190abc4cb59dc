"""Available memory, checked before a large allocation so that the process is not killed."""

import os
from pathlib import Path

from offdiag.errors import NotEnoughMemory
from offdiag.wording import size

_CONTAINER_LIMITS = tuple(
    tuple(f"/sys/fs/cgroup/{name}" for name in names)
    for names in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    )
)


def available() -> int | None:
    """Bytes this process may still take (machine and container limit), or None where the system does not report it."""
    figures = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        figures += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        if "SC_AVPHYS_PAGES" in getattr(os, "sysconf_names", {}):
            figures.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit, used, stat in _CONTAINER_LIMITS:
        try:
            most, now = int(Path(limit).read_text()), int(Path(used).read_text())
            counters = dict(line.split() for line in Path(stat).read_text().splitlines())
        except (OSError, ValueError):  # no such control group, or no limit ("max")
            continue
        cache = int(counters.get("total_inactive_file", counters.get("inactive_file", 0)))  # reclaimed when needed
        figures.append(most - now + cache)
    return min(figures) if figures else None


def require(n_bytes: int, what: str, instead: str) -> None:
    """Raise before an allocation that cannot fit, with the memory needed, the memory available and an alternative."""
    there = available()
    if there is not None and n_bytes > there:
        raise NotEnoughMemory(f"{what} needs {size(n_bytes)} of memory but {size(there)} is available; {instead}")


def begin_peak() -> int | None:
    """Bytes in memory now, where ``peak_since`` begins; None where the system does not tell (Linux does)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
        return _status("VmRSS:")
    except OSError:
        return None


def peak_since(begin: int | None) -> int:
    """By how many bytes memory rose at most since ``begin_peak``; 0 where that is not known."""
    try:
        return 0 if begin is None else max(_status("VmHWM:") - begin, 0)
    except OSError:
        return 0


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
