"""Several serving processes: they share one listening socket, and the pages of the mapped models."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from offdiag import persist
from offdiag.errors import OffdiagError
from offdiag.server.logs import OperatorLog
from offdiag.server.metrics import counters_of, shared_memory
from offdiag.server.process import Service, work
from offdiag.server.store import by_name

AGAIN = 1.0  # seconds before a dead process is restarted
START = 300.0  # seconds that loading may take
LOOK = 0.2  # seconds between two checks for signals


def supervise(service: Service, listener: socket.socket, say: Callable[[str], None], address: str) -> None:
    """Start the workers, restart any that die, forward signals, and wait for all of them at the end."""
    for path in by_name(service.models).values():
        persist.describe(path)  # an invalid file is reported once, here
    signals, operator = _Signals(), OperatorLog()
    memory = shared_memory(service.workers)
    crew = [_Worker(service, listener, memory, row) for row in range(service.workers)]
    try:
        for worker in crew:
            worker.wait(signals)
        if not signals.stop:
            say(f"{address}, {service.workers} processes")
        while not signals.stop:
            if signals.reload:
                signals.reload = False
                for worker in crew:
                    worker.signal(signal.SIGHUP)
            connection.wait([worker.process.sentinel for worker in crew], timeout=LOOK)
            for at, worker in enumerate(crew):
                if not worker.process.is_alive() and not signals.stop:
                    operator(f"a serving process {worker.end()}; starting another")
                    time.sleep(AGAIN)
                    crew[at] = _Worker(service, listener, memory, at)
    finally:
        listener.close()
        for worker in crew:
            worker.signal(signal.SIGTERM)
        for worker in crew:
            worker.process.join()
        operator.flush()


class _Signals:
    """SIGTERM or Ctrl-C, and SIGHUP, as flags."""

    def __init__(self) -> None:
        self.stop = self.reload = False
        for number, name in ((signal.SIGTERM, "stop"), (signal.SIGINT, "stop"), (signal.SIGHUP, "reload")):
            signal.signal(number, lambda *_, name=name: setattr(self, name, True))


class _Worker:
    def __init__(self, service: Service, listener: socket.socket, memory: Any, row: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._message: str | None = None
        self.process = context.Process(target=_run, args=(service, listener, memory, row, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def wait(self, signals: _Signals) -> None:
        """Wait until the worker serves or a signal says stop; an error in the worker is raised here."""
        serves, end = False, time.monotonic() + START
        with suppress(EOFError):
            while not signals.stop and time.monotonic() < end:
                if self._pipe.poll(LOOK):
                    self._message = self._pipe.recv()
                    serves = self._message is None
                    break
        if not serves and not signals.stop:
            self.process.join(1.0)
            raise OffdiagError(f"a serving process {self.end()}")

    def end(self) -> str:
        """How the worker ended: its own message, or its exit code."""
        with suppress(EOFError, OSError):
            while self._pipe.poll():
                self._message = self._pipe.recv() or self._message
        if self._message is not None:
            return f"failed: {self._message}"
        code = self.process.exitcode
        return "does not start" if code is None else f"ended with code {code}"

    def signal(self, number: int) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)


def _run(service: Service, listener: socket.socket, memory: Any, row: int, pipe: Any) -> None:
    """Run a worker from start to end. It sends None once it serves, or a line that says why it cannot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides

    try:
        work(service, listener, counters_of(memory, row), lambda: pipe.send(None), pipe.fileno())
    except OffdiagError as error:
        pipe.send(str(error))
        sys.exit(2)
