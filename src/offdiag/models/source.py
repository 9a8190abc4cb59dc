"""What a model learns from, checked: interactions or a Gram, and what every fitted model keeps of them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.columns import Roles
from offdiag.data.frames import is_frame
from offdiag.data.interactions import Interactions
from offdiag.data.read import read
from offdiag.data.remembered import read_remembered
from offdiag.errors import MissingColumnsError, OffdiagError
from offdiag.gramian.packed import Gram, as_matrix
from offdiag.gramian.sparse import SparseGram
from offdiag.living.past import Past
from offdiag.models import wide_frames
from offdiag.models.fields import Auto, check_item_ids, check_not_empty
from offdiag.solvers.products import GramProduct, PairProduct, Product

AT_ONCE = 1 << 18  # entries that are counted at a time


class Reading(TypedDict, total=False):
    """How ``fit`` reads a table: the arguments of ``od.read`` with the same names."""

    user: str | int
    item: str | int
    value: str | int | None
    time: str | int | None
    duplicates: str | None
    keep: str
    format: str | None
    separator: str | None
    header: bool | None
    text_ids: bool
    encoding: str
    user_ids: Iterable[Any] | None
    item_ids: Iterable[Any] | None
    query: str | None
    table: str | None
    missing: str
    negative: str
    decimal: str
    date_format: str | None
    normalise_users: bool
    where: str | None
    action: str | int | None
    weights: Mapping[str, float] | None
    dislike_below: float | None


@dataclass(frozen=True, eq=False)
class Source:
    """The arguments of ``Recommender._store`` that follow from the data alone."""

    item_ids: NDArray[Any]
    popularity: NDArray[np.float64]
    n_users: int
    past: Past
    columns: Roles | None = None
    counts_users: bool = False  # popularity is the number of users of each item


def read_data(X: Any, reading: Mapping[str, Any] | None = None) -> tuple[sparse.csr_array, Source]:
    """The matrix of whatever ``fit`` takes: users×items, or a table to read."""
    X = data_of(X, dict(reading or {}))
    matrix = as_matrix(X)
    n, m = matrix.shape
    check_not_empty(matrix.nnz, n, m)
    item_ids = check_item_ids(getattr(X, "item_ids", None), m)
    popularity = _totals(matrix.indices, m, matrix.data)
    columns = X.columns if isinstance(X, Interactions) else None
    counts_users = np.array_equal(popularity, _totals(matrix.indices, m))
    return matrix, Source(item_ids, popularity, n, Past.of_fit(matrix, X), columns, counts_users)


def _totals(indices: NDArray[Any], m: int, data: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Entries per item, or the sums of their values; a part at a time, because ``bincount`` copies into 64 bits."""
    out = np.zeros(m)
    step = max(AT_ONCE, m)
    for lo in range(0, len(indices), step):
        weights = None if data is None else data[lo : lo + step]
        out += np.bincount(indices[lo : lo + step], weights=weights, minlength=m)
    return out


def data_of(X: Any, reading: Mapping[str, Any], **usual: Any) -> Any:
    """X, or what ``od.read`` makes of it if it is a table; ``usual`` options apply unless ``reading`` has others."""
    if "groups" in reading:
        raise OffdiagError(
            "this model does not learn from groups; leave them out, or fit one that does: docs/groups.md"
        )
    for word in reading.keys() - Reading.__annotations__.keys():
        near = difflib.get_close_matches(word, Reading.__annotations__, n=1)
        raise TypeError(
            f"fit() got an unexpected keyword argument {word!r}" + f"; did you mean {near[0]!r}?" * len(near)
        )
    if isinstance(X, Interactions) and reading:
        raise OffdiagError(
            f"expected {', '.join(reading)} only with a table, received Interactions, which are read already; leave out"
        )
    if not reading and wide_frames.is_wide(X):
        return wide_frames.interactions(X)
    if not reading and not _is_table(X):
        return X
    try:
        return read(X, **usual | dict(reading))
    except MissingColumnsError as error:
        if reading or not is_frame(X):
            raise
        raise MissingColumnsError(
            f"{error}; if its rows are users and its columns items: fit(table.to_numpy(), item_ids=list(table.columns))"
        ) from None


def _is_table(X: Any) -> bool:
    """Whether X is for ``od.read``: a table, a file, a database; not numbers of users×items."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(part, str | os.PathLike) for part in X)
    return isinstance(X, str | os.PathLike) or is_table_in_memory(X)


def is_table_in_memory(X: Any) -> bool:
    """Whether X is a table of events: a frame, a dict of columns, a stream of Arrow."""
    if isinstance(X, Interactions | np.ndarray) or sparse.issparse(X):
        return False
    return is_frame(X) or isinstance(X, Mapping) or any(hasattr(X, name) for name in ("__arrow_c_stream__", "to_table"))


def read_histories(X: Any, columns: Roles | None, keep: str = "pairs") -> Any:
    """Histories of any form; a table of events is read with the columns of the fit, times only where it has them."""
    if wide_frames.is_wide(X):
        return wide_frames.interactions(X)
    return read_remembered(X, columns, optional=("time",), keep=keep) if is_table_in_memory(X) else X


def read_gram(G: Gram | SparseGram, item_ids: Any) -> Source:
    check_not_empty(G.n_interactions, G.n_users, G.n_items)
    counts_users = np.array_equal(G.item_sums, G.item_counts)
    item_ids = check_item_ids(item_ids, G.n_items)
    return Source(item_ids, G.item_sums.copy(), G.n_users, Past.of_fit(G), counts_users=counts_users)


def product_of(G: Gram | SparseGram, dtype: str) -> Product:
    """G @ V in this precision."""
    if isinstance(G, SparseGram):
        return PairProduct(G, dtype)
    return GramProduct(G if G.dtype == np.dtype(dtype) else G.astype(dtype))


def check_gram(G: Any, user_power: float | Auto, *, also: type | None = None) -> None:
    """Check that G is a Gram (or an ``also``) and has the user weights that the model asks for."""
    if not isinstance(G, Gram if also is None else Gram | also):
        raise OffdiagError(f"fit_gram takes a Gram (see od.gram), received {type(G).__name__}; use fit for data")
    if user_power not in ("auto", G.user_power):
        raise OffdiagError(
            f"this Gram was made with user_power={G.user_power:g} but the model asks for "
            f"{user_power:g}; make them equal or leave the model's at 'auto'"
        )
