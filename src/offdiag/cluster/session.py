"""A connection to Dask workers: opened, checked and closed; a user error gives one line, not a traceback."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag import checks, memory
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.wording import one_line, size

if TYPE_CHECKING:
    from distributed import Client

SILENCE = 30.0  # seconds without an answer after which the scheduler is considered lost
USABLE = 0.8  # fraction of a worker's memory limit above which Dask stops giving it tasks
# No data on disk: a worker that would have to spill is too small, which is reported at the start or when Dask kills it.
_LOCAL_SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    # A task runs where its data is; those of one stage are handed out as workers become free.
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.profile.enabled": False,
    # Dask asks the C library to return every freed page at once; getting them back took half of a worker's time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}
# Dask removes a local worker for good if it is down 15 s after it was lost, even if it was only lost a second time
# and its nanny is just restarting it. Nannies live in this process, so no worker is ever truly gone.
_NEVER_GIVEN_UP = {"distributed.deploy.lost-worker-timeout": "1000 h"}


def dask_distributed() -> Any:
    """The library, or an error that explains how to install it."""
    try:
        import distributed
    except ImportError:
        raise OffdiagError("od.cluster needs Dask: pip install 'offdiag[cluster]'") from None
    return distributed


@contextmanager
def connect(
    address: str | None = None,
    *,
    workers: int | None = None,
    memory_limit: int | str | None = None,
    timeout: float = 5.0,
) -> Iterator[Client]:
    """A Dask client; on exit it is closed, along with everything that was started for it.

    ``address``: "tcp://host:port" of a running scheduler; "local", "local:4" or None starts that many workers on this
    machine, each a single-threaded process (one per core unless ``workers`` is given). ``memory_limit``: per local
    worker, bytes or "4GB"; by default they share the free memory. ``timeout``: seconds to wait for the scheduler.

    A script that starts local workers needs ``if __name__ == "__main__":``, because each worker imports it again.

    Example:
        >>> import offdiag as od
        >>> with od.cluster.connect("local:1") as client:
        ...     len(client.scheduler_info()["workers"])
        1
    """
    distributed = dask_distributed()
    local = address is None or address == "local" or address.startswith("local:")
    with ExitStack() as opened:
        if local:
            client = _local(distributed, opened, _local_count(address, workers), memory_limit, timeout)
        else:
            if workers is not None or memory_limit is not None:
                raise OffdiagError(
                    f"workers and memory_limit are for local clusters, received them with {address!r}; leave them out"
                )
            client = _remote(distributed, opened, str(address), timeout)
        check_workers(client, timeout)
        yield client


def _local_count(address: str | None, workers: int | None) -> int:
    _, _, count = (address or "local").partition(":")
    if count and (not count.isdecimal() or int(count) < 1):
        raise OffdiagError(f"expected local or local:N with N workers, received {address!r}; e.g. local:2")
    if count and workers is not None and workers != int(count):
        raise OffdiagError(f"expected one number of workers, received {address!r} and workers={workers}; give one")
    if workers is not None:
        checks.whole("workers", workers, 1)
    return int(count) if count else workers or len(_cores())


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _limit(memory_limit: int | str | None, n: int) -> int:
    from dask.utils import parse_bytes

    if memory_limit is None:
        return int(0.9 * (memory.available() or n * 2**32) / n)
    try:
        limit = int(parse_bytes(memory_limit))
    except ValueError:
        limit = 0
    if limit < 1:
        raise OffdiagError(f"memory_limit must be bytes or text such as '4GB', received {memory_limit!r}")
    return limit


def _local(distributed: Any, opened: ExitStack, n: int, memory_limit: int | str | None, timeout: float) -> Client:
    import dask

    limit = _limit(memory_limit, n)
    folder = tempfile.mkdtemp(prefix="offdiag-cluster-")
    opened.callback(shutil.rmtree, folder, ignore_errors=True)
    opened.enter_context(dask.config.set(_NEVER_GIVEN_UP))  # read whenever a worker is lost
    # Workers take the settings of the moment they are described.
    with _ctrl_c_waits(), dask.config.set(_LOCAL_SETTINGS):
        try:
            cluster = distributed.LocalCluster(
                n_workers=n, threads_per_worker=1, processes=True, memory_limit=limit, local_directory=folder,
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
            )  # fmt: skip
            opened.callback(_close, cluster)
            client = distributed.Client(cluster, timeout=max(timeout, 10.0), set_as_default=True)
            opened.callback(_close, client)
            client.wait_for_workers(n, timeout=max(timeout, 60.0))
        except (OSError, RuntimeError, TimeoutError) as error:
            raise OffdiagError(
                f"the local workers did not start ({one_line(error)}); a script that starts them must keep its own "
                "work under if __name__ == '__main__':"
            ) from None
    client.register_plugin(_pin_plugin(distributed)(_cores()))
    return client


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C until after the block. Workers started in it never receive it; this process stops them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # Python's own process, which would unblock the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pin(cores: list[int], index: int) -> None:
    """Pin this process to one of the cores, with its threads and those they will start.

    Our loops use every core that a process may run on, so each local worker would use all of them.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    mine = {cores[index % len(cores)]}
    threads = Path("/proc/self/task")
    names = [int(path.name) for path in threads.iterdir()] if threads.is_dir() else [0]
    for thread in names:
        with suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(thread, mine)


def _pin_plugin(distributed: Any) -> Any:
    """The plugin class that pins every worker, including replacements."""

    class Pin(distributed.WorkerPlugin):  # type: ignore[misc]  # defined here because Dask is imported on first use
        name = "offdiag-pin"

        def __init__(self, cores: list[int]) -> None:
            self.cores = cores

        def setup(self, worker: Any) -> None:
            number = worker.name if isinstance(worker.name, int) else 0
            _pin(self.cores, number)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started it

    return Pin


def _remote(distributed: Any, opened: ExitStack, address: str, timeout: float) -> Client:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about version mismatches: reported below, in one line
        quiet = logging.getLogger("distributed")
        level = quiet.level
        quiet.setLevel(logging.CRITICAL)
        try:
            client = within(timeout + 2, lambda: distributed.Client(address, timeout=timeout))
        except Exception as error:  # anything may be raised if it is not a scheduler
            raise OffdiagError(
                f"no Dask scheduler answered at {address!r} within {timeout:g} s ({one_line(error)}); start one with "
                "`dask scheduler` and give its address, e.g. tcp://host:8786"
            ) from None
        finally:
            quiet.setLevel(level)
    opened.callback(_close, client)
    return client


def _close(thing: Any) -> None:
    with suppress(OSError, TimeoutError, RuntimeError):
        thing.close(timeout=10)


def versions() -> dict[str, str]:
    """Versions that must match between the processes of a cluster."""
    import distributed

    import offdiag

    python = ".".join(platform.python_version_tuple()[:2])
    return {"offdiag": offdiag.__version__, "python": python, "distributed": distributed.__version__}


def check_workers(client: Client, timeout: float = 10.0) -> None:
    """Check that there are workers and that their versions match those of this process."""
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        where = client.scheduler.address if client.scheduler else "the scheduler"
        raise OffdiagError(
            f"the scheduler at {where} has had no worker for {timeout:g} s; start some with `dask worker {where}`"
        ) from None
    here = versions()
    for worker, theirs in client.run(versions, on_error="return").items():
        if isinstance(theirs, OSError):  # the scheduler still lists a worker that has just died: the others do its work
            continue
        if isinstance(theirs, BaseException):  # a foreign process may raise anything when it runs our function
            raise OffdiagError(
                f"the workers cannot run offdiag ({one_line(theirs)}); "
                "install the same version, with its extra, on each"
            )
        for name, version in here.items():
            if theirs[name] != version:
                raise OffdiagError(
                    f"expected {name} {version} on every worker, as here, received {theirs[name]} on {worker}; "
                    "install the same version on all"
                )


def current(client: Client | None) -> Client:
    """The given client, or the open one."""
    if client is not None:
        return client
    distributed = dask_distributed()
    try:
        return distributed.get_client()
    except ValueError:
        raise OffdiagError(
            "no cluster is connected; use `with od.cluster.connect(...) as client:` and pass client=client"
        ) from None


def workers_of(client: Client) -> dict[str, dict[str, Any]]:
    """What the scheduler knows about each worker, by address."""
    try:
        return dict(within(SILENCE, lambda: client.scheduler_info(n_workers=-1))["workers"])
    except TimeoutError:
        raise OffdiagError(f"the scheduler has not answered for {SILENCE:g} s; start it again") from None


def background(call: Callable[[], Any]) -> futures.Future[Any]:
    """Start a call that may hang, in a thread that does not keep the process alive."""
    result: futures.Future[Any] = futures.Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of a call that may hang, or TimeoutError, in which case the call is abandoned."""
    result = background(call)
    if not futures.wait([result], seconds).done:
        raise TimeoutError(f"no answer for {seconds:g} s")
    return result.result()


def limit_of(client: Client) -> int | None:
    """The smallest memory limit of any worker; None if there is no limit."""
    limits = [worker["memory_limit"] for worker in workers_of(client).values() if worker["memory_limit"]]
    return min(limits) if limits else None


def require(client: Client, n_bytes: int, what: str, instead: str) -> None:
    """Raise before work that cannot fit in a worker; the error gives the memory needed, the limit, and a way out."""
    limit = limit_of(client)
    if limit is not None and n_bytes > USABLE * limit:
        raise NotEnoughMemory(
            f"{what} needs {size(n_bytes)} on a worker but the smallest has {size(limit)}, "
            f"of which {USABLE:.0%} can be used; {instead}"
        )
