"""Results as tables of polars, pandas and Arrow, or as plain dicts: one conversion for every class that has columns."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Tabular:
    """A result that can be read as a table.

    ``form`` is one of ``TABLES``; the first is the default. A value that does not exist is null.
    """

    TABLES: ClassVar[tuple[str, ...]] = ("long",)

    def _columns(self, form: str) -> Mapping[str, Any]:
        """The columns of the table: arrays, masked where null, or lists."""
        raise NotImplementedError

    def to_polars(self, form: str | None = None) -> pl.DataFrame:
        """The table as a polars data frame.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).recommend(X, k=5).to_polars().columns
            ['user', 'rank', 'item', 'score']
        """
        if form is not None and (len(self.TABLES) == 1 or not isinstance(form, str) or form not in self.TABLES):
            listed = ", ".join(map(repr, self.TABLES))
            raise OffdiagError(f"a {type(self).__name__} has these tables: {listed}; received {form!r}")
        return frame(self._columns(form or self.TABLES[0]))

    def to_pandas(self, form: str | None = None) -> pd.DataFrame:
        """The table as a pandas data frame; whole numbers with gaps are of type Int64, so that no id is rounded.

        Example:
            >>> import offdiag as od
            >>> od.synthetic.interactions(300, 40, 3_000, seed=0).to_pandas().shape
            (3000, 3)
        """
        made = self.to_polars(form)
        pandas = require("pandas")
        require("pyarrow")  # through which polars converts
        table = made.to_pandas()
        for column in made.iter_columns():
            if column.dtype.is_integer() and column.null_count():
                table[column.name] = pandas.array(column.to_list(), dtype="Int64")
        return table

    def to_arrow(self, form: str | None = None) -> pa.Table:
        """The table as a pyarrow table.

        Example:
            >>> import offdiag as od
            >>> od.synthetic.interactions(300, 40, 3_000, seed=0).to_arrow().column_names
            ['user', 'item', 'value']
        """
        require("pyarrow")
        return self.to_polars(form).to_arrow()

    def to_dicts(self, form: str | None = None) -> list[dict[str, Any]]:
        """The table as a list of dicts, one per row, of plain Python values.

        Example:
            >>> import offdiag as od
            >>> model = od.Popularity().fit(np.array([[1, 0, 1], [1, 1, 0]]))
            >>> model.recommend([[1]], k=1).to_dicts()
            [{'user': 0, 'rank': 1, 'item': 0, 'score': 0.5}]
        """
        return self.to_polars(form).to_dicts()


def frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Columns of equal length as one polars data frame."""
    import polars as pl

    return pl.DataFrame([series(name, values) for name, values in columns.items()])


def series(name: str, values: Any) -> pl.Series:
    """A column: masked places and nan become null, text stays text whatever its NumPy type."""
    import polars as pl

    if isinstance(values, pl.Series):
        return values.rename(name)
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        made = series(name, values.data)
        return made.set(pl.Series(mask), None) if mask.any() else made
    if not isinstance(values, np.ndarray):
        made = pl.Series(name, list(values), strict=False)
    elif values.dtype.kind == "M":
        made = pl.Series(name, values.astype("datetime64[us]"))
    elif values.dtype.kind in "UO":
        made = pl.Series(name, values.tolist(), strict=False)
    else:
        made = pl.Series(name, np.ascontiguousarray(values))
    return made.fill_nan(None) if made.dtype.is_float() else made


def distinct(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One place of each code, and for each place its code's place among those.

    A column of text that repeats, such as the items of many lists, is converted once per code:
    ``series(name, values[places]).gather(at)``.
    """
    last = np.full(codes.max(initial=-1) + 1, -1, dtype=np.int64)
    last[codes] = np.arange(len(codes))
    places = last[last >= 0]
    last[last >= 0] = np.arange(len(places))
    return places, last[codes]


def looked_up(ids: Any, texts: Mapping[str, str]) -> pl.Series:
    """The text that belongs to each id, null where there is none."""
    import polars as pl

    return series("", ids).cast(pl.String).replace_strict(dict(texts), default=None, return_dtype=pl.String)


def alike(values: list[Any]) -> list[Any]:
    """Values of one type: as they are where all are numbers or all text, else as text ("auto" among numbers)."""
    known = [value for value in values if value is not None]
    if all(checks.is_number(value) for value in known) or all(type(value) is type(known[0]) for value in known):
        return values
    return [None if value is None else str(value) for value in values]


def require(package: str) -> Any:
    """An optional library of tables, imported; without it, an error that says how to get it."""
    checks.choice("package", package, ("pandas", "pyarrow"))
    try:
        return import_module(package)
    except ImportError:
        raise OffdiagError(
            f"this table needs {package}, which is not installed: pip install 'offdiag[tables]', or use to_polars()"
        ) from None
