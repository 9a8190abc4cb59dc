"""One thread ranks for all requests; those that arrive while it is busy are batched into one call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import ranking
from offdiag.server.handover import Handover
from offdiag.server.limits import Refusal, Turns
from offdiag.server.model import ServedModel, rows

BATCH = 64  # requests in one call: more would only make the first of them wait
IDS = 8192  # ids in the histories of one call, for the same reason
SLOW_WAITING = 64  # explanations and comparisons, or searches, that may wait; more are turned away at once
K_CLASSES = (32, 128, 1024)  # lists of similar length are ranked together

Ranked = tuple[NDArray[np.int64], NDArray[np.floating]]
Kind = tuple[
    int, bool, bool, int, int | None
]  # model, whether choices count by age, seen ones excluded, length, filter


@dataclass(eq=False, slots=True)
class Job:
    served: ServedModel
    history: NDArray[np.int32]  # columns, ascending, not empty
    k: int
    exclude_seen: bool
    allowed: NDArray[np.bool_] | None
    values: NDArray[np.floating] | None  # what each of the history counts for; None: 1
    future: asyncio.Future[Ranked]

    def kind(self) -> Kind:
        """Jobs of the same kind go into one call."""
        size = next((c for c in K_CLASSES if self.k <= c), self.served.n_items)
        only = None if self.allowed is None else id(self.allowed)
        return id(self.served), self.values is None, self.exclude_seen, size, only


class Pool:
    """Threads for slow work outside the event loop; work that has not started is dropped with its request."""

    def __init__(self, threads: int, name: str, handover: Handover) -> None:
        self._threads, self._handover = ThreadPoolExecutor(threads, name), handover

    async def run(self, work: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
        _refuse_if_full(self._threads._work_queue.qsize(), SLOW_WAITING)
        with self._handover:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _refuse_if_full(waiting: int, most: int) -> None:
    if waiting >= most:
        raise Refusal(503, "too many requests are waiting; try again in a moment", retry_after="1")


class Scorer:
    """Ranks in a thread of its own, without a fixed delay: an idle scorer takes a request at once."""

    def __init__(self, waiting: int, observe: Callable[[int], None] = lambda size: None) -> None:
        self.waiting = waiting
        self.observe = observe  # called with the size of every batch
        self.reasons = Turns(1)  # lists whose reasons are being computed: on the event loop, a few items at a time
        self.parts = Turns(2)  # parts of large requests: one is ranked while the next is prepared
        self.handover = Handover()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def top_k(
        self,
        served: ServedModel,
        history: list[int],
        k: int,
        exclude_seen: bool = True,
        allowed: NDArray[np.bool_] | None = None,
        values: NDArray[np.floating] | None = None,
    ) -> Ranked:
        """Columns and scores of the k best, or fewer if there are not as many."""
        _refuse_if_full(self._queue.qsize(), self.waiting)
        if self._thread is None:
            self.start()
        future: asyncio.Future[Ranked] = asyncio.get_running_loop().create_future()
        k = min(k, served.n_items)
        self._queue.put(Job(served, np.array(history, np.int32), k, exclude_seen, allowed, values, future))
        with self.handover:
            return await future

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="offdiag scorer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while self._one_batch():
            pass

    def _one_batch(self) -> bool:
        """Rank one batch; False means stop. No references remain, so an idle scorer keeps no old model alive."""
        job = self._queue.get()
        batch: list[Job] = []
        ids = 0
        while job is not None:
            batch.append(job)
            ids += len(job.history)
            if len(batch) == BATCH or ids >= IDS:
                break
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
        if batch:
            self._rank(batch)
        return job is not None

    def _rank(self, batch: list[Job]) -> None:
        groups: dict[Kind, list[Job]] = {}
        for job in batch:
            if not job.future.done():  # a client that gave up needs no answer
                groups.setdefault(job.kind(), []).append(job)
        for jobs in groups.values():
            self.observe(len(jobs))
            try:
                outcome: list[Ranked | Exception] = [*rank(jobs)]
            except Exception as error:  # passed to the waiting requests; the thread must survive
                outcome = [error] * len(jobs)
            _deliver(jobs, outcome)


def rank(jobs: list[Job]) -> list[Ranked]:
    """The answers to jobs of the same kind, from one call."""
    served, k = jobs[0].served, max(job.k for job in jobs)
    values = [job.values for job in jobs if job.values is not None]  # of all jobs of a kind, or of none
    X = rows([job.history for job in jobs], served.n_items, values)
    found, scores = ranking.top_k(
        served.weights, X, k, exclude_seen=jobs[0].exclude_seen, allowed=jobs[0].allowed
    )  # fmt: skip
    real = (found >= 0).sum(axis=1).tolist()
    ends = [min(job.k, n) for job, n in zip(jobs, real, strict=True)]
    return [(found[at, :end], scores[at, :end]) for at, end in enumerate(ends)]


def _deliver(jobs: list[Job], outcome: list[Ranked | Exception]) -> None:
    """Pass answers to the waiting event loops, one wake-up per batch."""

    def deliver() -> None:
        for job, result in zip(jobs, outcome, strict=True):
            if job.future.done():
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

    try:
        jobs[0].future.get_loop().call_soon_threadsafe(deliver)
    except RuntimeError:  # the loop has ended: no request is waiting any more
        return
