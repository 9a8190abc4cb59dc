"""A stage of work on the cluster: waits without hanging, explains errors, and reports time, memory and traffic."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from offdiag import wording
from offdiag.cluster import session
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = 30.0  # seconds without a usable worker after which all are considered lost
SMALLER_PARTS = "give the workers more memory or split the data into more, smaller parts"


@dataclass(frozen=True)
class Report:
    """The cost of a stage: seconds, peak resident memory of each worker, and bytes that workers sent.

    ``busy_seconds``: processor time of each worker, which other programs on its machine change little.

    ``expected_bytes``: how many it was expected to send, if that was estimated beforehand.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> reports = []
        >>> _ = od.cluster.gram(X, reports=reports)
        >>> [report.stage for report in reports]
        ['counting pairs']
    """

    stage: str
    seconds: float
    peak_bytes: dict[str, int]  # by worker address
    moved_bytes: int
    busy_seconds: dict[str, float]  # by worker address
    expected_bytes: int | None = None

    def __str__(self) -> str:
        peak = wording.size(max(self.peak_bytes.values(), default=0))
        expected = "" if self.expected_bytes is None else f" ({wording.size(self.expected_bytes)} expected)"
        return (
            f"{self.stage}: {wording.seconds(self.seconds)} on {len(self.peak_bytes)} workers, at most {peak} on one, "
            f"{wording.size(self.moved_bytes)} moved{expected}"
        )


class _Used(NamedTuple):
    """By a worker since it started, but for the peak memory, which can be reset."""

    peak: int
    sent: int
    seconds: float  # of a processor


def _usage(dask_worker: Any, *, forget_peak: bool = False) -> _Used:
    """What the worker has used so far; with ``forget_peak`` the peak is measured from now on."""
    sent, busy = int(getattr(dask_worker, "transfer_outgoing_bytes_total", 0)), time.process_time()
    with suppress(OSError):
        if forget_peak:
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return _Used(int(line.split()[1]) * 1024, sent, busy)
    return _Used(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, sent, busy)


@dataclass
class Stage:
    """One named piece of work."""

    client: Client
    name: str
    progress: Progress | None = None
    patience: float = field(default_factory=lambda: PATIENCE)
    lower: str = SMALLER_PARTS  # what to do when memory runs out
    expected_bytes: int | None = None  # to be sent by the workers
    _stuck_since: float | None = field(default=None, repr=False)
    _limit: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        with suppress(OSError, TimeoutError):  # queried now: later there may be no worker left to ask
            self._limit = session.limit_of(self.client)

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future:
        """Submit a task under a new key, so that an equal name never returns an old result."""
        with warnings.catch_warnings():
            # Data sent with a task survives the loss of its worker; scattered data would not.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(function, *arguments, pure=False, **options)

    def wait(self, futures: Sequence[Future], start: float = 0.0, stop: float = 1.0) -> None:
        """Wait until all have finished, or the first has failed; the progress runs from ``start`` to ``stop``."""
        reported = -1.0

        def finished() -> bool:
            nonlocal reported
            # All of them, every time: a finished result can be lost with its worker, and is then computed again.
            left = sum(not self._finished(future) for future in futures)
            fraction = start + (stop - start) * (1 - left / max(len(futures), 1))
            if self.progress and fraction > reported:
                self.progress(self.name, fraction)
                reported = fraction
            return not left

        self._wait_until(finished, 0.1)

    def _wait_until(self, done: Callable[[], bool], longest_pause: float) -> None:
        pause, looked = 0.002, time.monotonic()
        while not done():
            time.sleep(pause)
            pause = min(pause * 1.3, longest_pause)
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                self._check_cluster()

    def _finished(self, future: Future) -> bool:
        """Whether the result is available; raises if it never will be."""
        if future.status in ("error", "cancelled"):
            self._fail(future)
        return bool(future.status == "finished")

    def gather(self, futures: Sequence[Future], start: float = 0.0, stop: float = 1.0) -> list[Any]:
        """The results of the futures, in order."""
        self.wait(futures, start, stop)
        return self._fetch(list(futures))

    def _fetch(self, futures: list[Future]) -> list[Any]:
        """The results; fetched in a thread, because Dask would wait forever if the workers were lost now."""
        fetched = session.background(lambda: self.client.gather(futures))
        while not wait([fetched], 1.0).done:
            self._check_cluster()
        with self.explain_errors():
            return list(fetched.result())

    def each(self, start: Callable[[int], Future], n: int, at_once: int) -> Iterator[tuple[int, Any]]:
        """(number, result) of the futures that ``start(number)`` submits for 0..n, as they finish.

        At most ``at_once`` are submitted at a time, so few results and arguments are held.
        """
        running: dict[int, Future] = {}
        handed_out = done = 0
        while done < n:
            while len(running) < at_once and handed_out < n:
                running[handed_out] = start(handed_out)
                handed_out += 1
            self._wait_until(lambda: any(self._finished(future) for future in running.values()), 0.05)
            for number in [at for at, future in running.items() if self._finished(future)]:
                (result,) = self._fetch([running.pop(number)])
                done += 1
                if self.progress:
                    self.progress(self.name, done / n)
                yield number, result

    def _fail(self, future: Future) -> None:
        with self.explain_errors():
            future.result(timeout=10)
        raise OffdiagError(f"{self.name}: the cluster gave a task up ({future.status}); run it again")

    def _check_cluster(self) -> None:
        """Detect a cluster that will never finish: no scheduler, no workers, or none that accepts tasks."""
        if self.client.status != "running":
            raise OffdiagError(f"{self.name}: the connection to the scheduler is {self.client.status}; start it again")
        with self.explain_errors():
            workers = session.workers_of(self.client)
        able = [worker for worker in workers.values() if worker.get("status", "running") == "running"]
        if able:
            self._stuck_since = None
            return
        self._stuck_since = self._stuck_since or time.monotonic()
        if time.monotonic() - self._stuck_since > self.patience:
            if workers:
                raise self.out_of_memory("all workers have paused because their memory is full")
            raise OffdiagError(
                f"{self.name}: no worker has been there for {self.patience:g} s; start some with `dask worker` "
                "and run it again"
            )

    def out_of_memory(self, what: str) -> NotEnoughMemory:
        room = f"memory limit {wording.size(self._limit)} per worker" if self._limit else "no memory limit is set"
        return NotEnoughMemory(f"{self.name}: {what} ({room}); {self.lower}")

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn errors raised by Dask into one line that says what to do."""
        import distributed
        from distributed.comm import CommClosedError

        try:
            yield
        except OffdiagError:
            raise
        except distributed.scheduler.KilledWorker:
            raise self.out_of_memory("workers were ended again and again while they worked on the same task") from None
        except MemoryError:
            raise self.out_of_memory("a worker could not get the memory it asked for") from None
        except (CancelledError, CommClosedError, OSError, TimeoutError) as error:
            why = wording.one_line(error)
            raise OffdiagError(f"{self.name}: the connection to the cluster broke ({why}); run it again") from None


@contextmanager
def stage(
    client: Client,
    name: str,
    progress: Progress | None = None,
    reports: list[Report] | None = None,
    lower: str = SMALLER_PARTS,
) -> Iterator[Stage]:
    """A Stage; on exit its Report is appended to the list."""
    work = Stage(client, name, progress, lower=lower)
    if progress:
        progress(name, 0.0)
    if reports is None:
        yield work
        return
    with work.explain_errors():
        before = client.run(_usage, forget_peak=True, on_error="ignore")
    start = time.perf_counter()
    yield work
    seconds = time.perf_counter() - start
    with work.explain_errors():
        after = client.run(_usage, on_error="ignore")
    new = _Used(0, 0, 0.0)  # a worker that was started meanwhile
    moved = sum(max(used.sent - before.get(worker, new).sent, 0) for worker, used in after.items())
    busy = {worker: used.seconds - before.get(worker, new).seconds for worker, used in after.items()}
    peaks = {worker: used.peak for worker, used in after.items()}
    reports.append(Report(name, seconds, peaks, moved, busy, work.expected_bytes))
