"""Ctrl-C that waits until something is whole, and is never lost on the way."""

from __future__ import annotations

import signal
import threading
from typing import Any, Self


class Shield:
    """Defers Ctrl-C until the release, so that no change is left incomplete. It begins and ends held."""

    def __enter__(self) -> Self:
        self._held, self._pending = True, False
        before = signal.getsignal(signal.SIGINT)
        self._before = before if threading.current_thread() is threading.main_thread() and callable(before) else None
        if self._before is not None:
            signal.signal(signal.SIGINT, self._handler)
        return self

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        if self._pending and self._before is not None:
            self._pending = False
            self._before(signal.SIGINT, None)  # raises KeyboardInterrupt, or waits for an outer shield

    def _handler(self, number: int, frame: Any) -> None:
        if self._held:
            self._pending = True
        elif self._before is not None:
            self._before(number, frame)

    def __exit__(self, *_: object) -> None:
        try:
            self._held = True
        finally:
            if self._before is not None:
                signal.signal(signal.SIGINT, self._before)
        self.release()  # after an error, too: the program may handle that and continue


def interrupt_waits() -> None:
    """Let Ctrl-C end a wait for a thread: polars asks the system to continue such waits."""
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)
