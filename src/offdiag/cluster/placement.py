"""How tasks are placed on workers: homes, tree reductions, results fetched in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from offdiag.cluster import session
from offdiag.cluster.stages import Stage

if TYPE_CHECKING:
    from distributed import Client, Future

GATHERED_AT_ONCE = 1 << 28  # bytes fetched in one request


@dataclass(frozen=True)
class Homes:
    """Which worker a task should run on; only a preference, so another takes over when one is lost."""

    workers: list[str]

    @classmethod
    def of(cls, client: Client) -> Homes:
        return cls(sorted(session.workers_of(client)))

    def __len__(self) -> int:
        return max(len(self.workers), 1)

    def near(self, number: int) -> dict[str, Any]:
        """Options of a task that belongs to worker ``number`` mod W."""
        if not self.workers:
            return {}
        return {"workers": [self.workers[number % len(self.workers)]], "allow_other_workers": True}


def tree(work: Stage, function: Callable[..., Any], futures: Sequence[Future], at_once: int = 8) -> Future:
    """function(function(a, b, …), function(…), …): results are combined a few at a time; no worker holds all."""
    level = list(futures)
    while len(level) > 1:
        level = [
            work.submit(function, *level[lo : lo + at_once]) if lo + 1 < len(level) else level[lo]
            for lo in range(0, len(level), at_once)
        ]
    return level[0]


def total(*arrays: NDArray[Any]) -> NDArray[Any]:
    """The sum of the arrays."""
    out = arrays[0].copy()  # the arguments belong to other tasks
    for array in arrays[1:]:
        out += array
    return out


def in_batches(sizes: Sequence[int]) -> Iterator[range]:
    """Consecutive ranges whose sizes sum to at most ``GATHERED_AT_ONCE``, or that hold a single element."""
    lo = total = 0
    for at, size in enumerate(sizes):
        if at > lo and total + size > GATHERED_AT_ONCE:
            yield range(lo, at)
            lo, total = at, 0
        total += size
    if lo < len(sizes):
        yield range(lo, len(sizes))
