"""What one client may ask for, and the errors that say so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one request and of all connections of a process; most are options of ``offdiag serve``."""

    k: int = 1000  # items in one list
    history: int = 5000  # ids in one history
    filter: int = 20_000  # ids in `allow` or `block`
    body: int = 1 << 20  # bytes
    seconds: float = 10.0  # from the first byte of the body to the answer
    waiting: int = 2000  # requests that may wait for the scorer; more are turned away at once
    headers: int = 32 << 10  # bytes of the request line and all headers
    connections: int = 1024  # open at once
    per_address: int = 512  # of them from one address, so that no single client can take all
    large: int = 64 << 20  # bytes of all bodies being received together, not counting the first SMALL of each

    SMALL = 64 << 10  # bytes of a body that are always received


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """An answer other than 200: its status and one line for the client."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers
