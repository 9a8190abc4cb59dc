"""What one campaign tried and what went wrong."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

PATHS = re.compile(r"/[^\s'\":|]*/(?=[^/\s'\":|]+/[^/\s'\":|]+)")  # of this machine; the last folder and the name stay


def cpu_seconds() -> float:
    """Of this program and all its copies that have ended."""
    own, copies = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + copies.ru_utime + copies.ru_stime


@dataclass
class Campaign:
    name: str
    about: str
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    trials: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    cpu: float = field(default_factory=cpu_seconds)

    def count(self, what: str, n: int = 1, *, trial: bool = True) -> None:
        """``trial`` is false for a second look at a trial that was counted."""
        self.counts[what] += n
        self.trials += n if trial else 0

    def wrong(self, what: str) -> None:
        self.findings.append(PATHS.sub("", what)[:2000])
        print(f"{self.name}: {self.findings[-1]}", file=sys.stderr, flush=True)

    def spent(self) -> float:
        return cpu_seconds() - self.cpu

    def summary(self) -> dict[str, int]:
        """The counts without what they are of: `a model: refused` of every model is `refused`."""
        found: Counter[str] = Counter()
        for name, n in self.counts.items():
            found[name.rpartition(": ")[2]] += n
        return dict(sorted(found.items()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "about": self.about,
            "trials": self.trials,
            "summary": self.summary(),
            "counts": dict(sorted(self.counts.items())),
            "findings": self.findings,
            "skipped": self.skipped,
            "figures": self.figures,
            "seconds": round(time.monotonic() - self.began, 1),
            "cpu_seconds": round(self.spent(), 1),
        }
