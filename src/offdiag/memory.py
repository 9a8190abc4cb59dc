"""What memory there is, asked before a large allocation rather than found out by being killed."""

import os
from pathlib import Path

from offdiag.errors import NotEnoughMemory


def available() -> int | None:
    """Bytes this process may still take (machine and container limit), or None where the system does not tell."""
    figures = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        figures += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        if "SC_AVPHYS_PAGES" in getattr(os, "sysconf_names", {}):
            figures.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        if limit != "max":
            figures.append(int(limit) - int(used))
    except (OSError, ValueError):
        pass
    return min(figures) if figures else None


def readable(n_bytes: float) -> str:
    """1.62e9 → '1.62 GB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}" if unit != "bytes" else f"{int(n_bytes)} bytes"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def require(n_bytes: int, what: str, instead: str) -> None:
    """Raise before an allocation that cannot fit: the figure needed, the figure there, and the way out."""
    there = available()
    if there is not None and n_bytes > there:
        raise NotEnoughMemory(
            f"{what} needs {readable(n_bytes)} of memory but {readable(there)} is available; {instead}"
        )
