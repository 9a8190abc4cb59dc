"""What polars makes of a bad table, as one error: it may raise, or panic, which is no ordinary exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from offdiag.errors import OffdiagError


@contextmanager
def polars_failures(expected: str, name: str, advice: str, *others: type[Exception]) -> Iterator[None]:
    """One line for everything that a bad table makes of polars, and for the `others`."""
    import polars as pl

    kinds: tuple[type[Exception], ...] = (pl.exceptions.PolarsError, *others)
    try:
        yield
    except OffdiagError:
        raise
    except kinds as error:
        raise _explained(expected, name, advice, error) from None
    except BaseException as error:
        # A panic of the Rust code is no Exception, and its class is made when it happens: it is known by name only.
        if type(error).__name__ != "PanicException":
            raise
        raise _explained(expected, name, advice, error) from None


def _explained(expected: str, name: str, advice: str, error: BaseException) -> OffdiagError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    return OffdiagError(f"expected {expected}, received {name} ({reason}); {advice}")
