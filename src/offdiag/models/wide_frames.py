"""Data frames with a row per user and a column per item, as scikit-learn hands them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.frames import is_frame
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import as_matrix

if TYPE_CHECKING:
    import polars as pl


def is_wide(X: Any) -> bool:
    """Whether a frame can only be a matrix: no column could hold ids of users or items.

    A frame of whole numbers could be either a matrix or a table of events, and a wrong guess would be silent. So only
    flags and numbers with a fraction decide; anything else is read as a table of events.
    """
    if not is_frame(X):
        return False
    frame = _as_polars(X)
    return frame is not None and frame.width > 0 and all(_holds_no_ids(column) for column in frame)


def interactions(X: Any) -> Interactions:
    """The matrix, with the names of the columns as ids of the items."""
    frame = _as_polars(X)
    assert frame is not None
    names = _names(X)
    text = all(isinstance(name, str) for name in names)
    if not text and not all(isinstance(name, int | np.integer) for name in names):
        raise OffdiagError(f"expected names of columns that are all text or all whole numbers, received {names[:5]}")
    matrix = as_matrix(frame.to_numpy())
    return Interactions(
        sparse.csr_array(matrix), np.arange(len(frame)), np.array(names, dtype=np.str_ if text else None)
    )


def check_names(X: Any, item_ids: NDArray[Any], model: str) -> None:
    """Check that the columns of a frame are those of the fit, in their order; the message is that of scikit-learn."""
    names, known = _names(X), item_ids.tolist()
    if names == known:
        return
    unseen, missing = sorted(set(names) - set(known), key=str), sorted(set(known) - set(names), key=str)
    parts = [("Feature names unseen at fit time", unseen), ("Feature names seen at fit time, yet now missing", missing)]
    lines = [f"{title}:\n{_listed(some)}" for title, some in parts if some]
    if not lines:
        lines = ["Feature names must be in the same order as they were in fit.\n"]
    raise OffdiagError(
        "The feature names should match those that were passed during fit.\n"
        + "".join(lines)
        + f"Give {model} the columns that it was fitted on, or Interactions, whose items are found by id."
    )


def _listed(names: list[Any], most: int = 5) -> str:
    return "".join(f"- {name}\n" for name in names[:most]) + ("- ...\n" if len(names) > most else "")


def _names(X: Any) -> list[Any]:
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _as_polars(X: Any) -> pl.DataFrame | None:
    """The frame, if all its columns are floats or flags; others may hold ids, and are not converted to find out."""
    import polars as pl

    if isinstance(X, pl.DataFrame):
        return X if all(dtype.is_float() or dtype == pl.Boolean for dtype in X.dtypes) else None
    if hasattr(X, "column_names"):  # pyarrow's
        return _as_polars(pl.DataFrame(X))
    if isinstance(X, pl.LazyFrame) or not all(getattr(dtype, "kind", "O") in "fb" for dtype in X.dtypes):
        return None
    return pl.DataFrame({str(place): X.iloc[:, place].to_numpy() for place in range(X.shape[1])})


def _holds_no_ids(column: pl.Series) -> bool:
    import polars as pl

    return column.dtype == pl.Boolean or bool((column.is_finite() & (column.floor() != column)).any())
