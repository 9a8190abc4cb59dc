"""Commands in forked copies of one loaded program: a hundred of them start in the time of one.

The parent itself reads no table and ranks nothing, so the copies are as good as new programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNEXPECTED = 70  # exit code of a copy from which an exception escaped


@dataclass(frozen=True)
class Ran:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    seconds: float

    @property
    def broken(self) -> str | None:
        """What is wrong with how it ended, whatever it was asked to do; None if nothing."""
        if self.code not in (0, 2, 130, -signal.SIGKILL):
            return f"exit code {self.code}: {self.err[-600:]}"
        if "Traceback" in self.err or "Traceback" in self.out:
            return f"a traceback: {self.err[-600:]}"
        if self.code == 2 and not _one_line(self.err):
            return f"an error that is not one line of offdiag: {self.err[-600:]}"
        return None


def _one_line(err: str) -> bool:
    lines = [line for line in err.splitlines() if line]
    return bool(lines) and lines[-1].startswith("offdiag: ")


def load() -> None:
    """Import what the commands import and load the compiled loops they share, without starting a thread."""
    import numpy as np
    import optuna  # noqa: F401
    import polars  # noqa: F401
    import scipy.linalg  # noqa: F401

    import offdiag as od
    from offdiag import autopilot, cli, evaluation, list_files, persist, tuning  # noqa: F401
    from offdiag.living import events, exact_change, state  # noqa: F401

    X = np.eye(8) + np.eye(8)[::-1]
    model = od.EASE(l2=20.0, user_power=0.5).fit(X)
    model.recommend(X, k=2)
    model.forget(X[:1])
    od.SparseEDLAE(neighbours=2, l2=1.0).fit(X)
    cli.application()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        cli.main(["update", "--help"])
    assert threading.active_count() == 1, "a copy has only the thread that forked"


def command(
    words: Sequence[str],
    folder: Path,
    *,
    kill_after: float | None = None,
    before: Callable[[], None] | None = None,
    timeout: float = 180.0,
) -> Ran:
    """Run one command of offdiag in a copy; ``before`` sets its limits, ``kill_after`` ends it with kill -9."""

    def call() -> int:
        from offdiag import cli

        return cli.main(list(words))

    return run(call, folder, kill_after=kill_after, before=before, timeout=timeout)


def run(
    call: Callable[[], int],
    folder: Path,
    *,
    kill_after: float | None = None,
    before: Callable[[], None] | None = None,
    timeout: float = 180.0,
) -> Ran:
    out, err = _pipe(), _pipe()
    start = time.monotonic()
    child = os.fork()
    if not child:
        _become(call, folder, before, out[1], err[1])
    os.close(out[1])
    os.close(err[1])
    handle = os.pidfd_open(child)
    try:
        ended, _, _ = select.select([handle], [], [], timeout if kill_after is None else kill_after)
        if not ended:
            os.kill(child, signal.SIGKILL if kill_after is not None else signal.SIGABRT)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(handle)
    seconds = time.monotonic() - start
    texts = []
    for stream, _ in (out, err):
        os.set_blocking(stream, False)
        with open(stream, "rb") as read:
            texts.append((read.read() or b"").decode(errors="replace"))
    return Ran(os.waitstatus_to_exitcode(status), texts[0], texts[1], seconds)


def _pipe() -> tuple[int, int]:
    """A pipe that holds all that a command prints; a limit on files does not apply to it."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    return ends


def _become(call: Callable[[], int], folder: Path, before: Callable[[], None] | None, out: int, err: int) -> None:
    """The copy: never returns."""
    code = UNEXPECTED
    try:
        os.chdir(folder)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the copy ends
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if before is not None:
            before()
        code = call()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def ask(question: Callable[[], Any], folder: Path, timeout: float = 120.0) -> Any:
    """The answer of a function, which runs in a copy; RuntimeError if the copy fails."""

    def call() -> int:
        print(json.dumps(question()))
        return 0

    ran = run(call, folder, timeout=timeout)
    if ran.code != 0:
        raise RuntimeError(f"exit code {ran.code}: {ran.err[-800:]}")
    return json.loads(ran.out.splitlines()[-1])
