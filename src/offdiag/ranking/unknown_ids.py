"""Ids that are not in the catalogue: left out of lists and filters, but never silently."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

from offdiag.errors import OffdiagError, UnknownItemsWarning
from offdiag.wording import shorten


def distinct(ids: Iterable[Any]) -> list[Any]:
    """Each id once, in order of first appearance; compared by ``repr``, since 1 == True == 1.0."""
    return list({repr(x): x for x in ids}.values())


def refuse(where: str, missing: list[Any]) -> NoReturn:
    """With ``strict``, an unknown id is an error."""
    raise OffdiagError(
        f"{where} ids that the model does not know: {shorten(distinct(missing))}; "
        "remove them, or leave out strict to ignore them"
    )


def report_unknown(unknown: Iterable[Iterable[Any]], *, strict: bool = False, stacklevel: int = 4) -> None:
    """Warn about ids of histories that are not in the catalogue; with ``strict``, raise an error."""
    missing = sorted(distinct(x for ids in unknown for x in ids), key=str)
    if missing and strict:
        refuse("the histories hold", missing)
    if missing:
        ids, were = ("id is", "was") if len(missing) == 1 else ("ids are", "were")
        text = f"{len(missing):,} {ids} unknown to the model and {were} left out: {shorten(missing)}"
        warn(text, stacklevel)


def warn(text: str, stacklevel: int) -> None:
    """A warning at the line that is ``stacklevel`` calls above this one."""
    warnings.warn(text, UnknownItemsWarning, stacklevel=stacklevel + 1)
