"""One error for anything polars does with a bad table: it may raise, or panic, which is not an ordinary exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from offdiag.errors import OffdiagError


@contextmanager
def polars_failures(expected: str, name: str, advice: str, *others: type[Exception]) -> Iterator[None]:
    """Turn any polars failure on a bad table, and the `others`, into a one-line error."""
    import polars as pl

    kinds: tuple[type[Exception], ...] = (pl.exceptions.PolarsError, *others)
    try:
        yield
    except OffdiagError:
        raise
    except kinds as error:
        raise _explained(expected, name, advice, error) from None
    except BaseException as error:
        # A Rust panic is not an Exception and its class is created when it happens: only its name identifies it.
        if type(error).__name__ != "PanicException":
            raise
        raise _explained(expected, name, advice, error) from None


def _explained(expected: str, name: str, advice: str, error: BaseException) -> OffdiagError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    return OffdiagError(f"expected {expected}, received {name} ({reason}); {advice}")
