"""Past sessions instead of weights: a history is scored by the sessions that are like it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import Tiled

NOT_A_FILE = (
    "a model of past sessions holds the rows of users, and no file of offdiag ever does; fit it again where it is "
    "needed, or save another model"
)


@dataclass(frozen=True, eq=False)
class Sessions(Tiled):
    """Scores Σ_s sim(x, s)/step_s·s over the sessions s nearest to a history x, of those that share an item with it.

    The values of x only say which item came last: a larger one is more recent. Sessions are rows of 0/1, the most
    recent last. They are rows of users, so neither a file nor a pickle takes them.
    """

    kind: ClassVar[str] = "sessions"
    in_files: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    ptr: Ints  # (sessions + 1,)
    members: NDArray[np.int32]  # items of each session
    where: Ints  # (m + 1,)
    sessions: NDArray[np.int32]  # of each item
    sample: int
    neighbours: int
    window: int

    @classmethod
    def of(cls, rows: sparse.csr_array, *, sample: int, neighbours: int, window: int) -> Sessions:
        """From rows of users×items, the most recent last."""
        by_item = rows.tocsc()
        lists = (
            (by.indptr.astype(np.int64, copy=False), by.indices.astype(np.int32, copy=False)) for by in (rows, by_item)
        )
        (ptr, members), (where, sessions) = lists
        return cls(ptr, members, where, sessions, sample, neighbours, window)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.where) - 1, len(self.where) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import session_neighbours

        ends, items = latest_first(X, self.window)

        def score(first: int, last: int) -> Floats:
            out = np.empty((last - first, self.shape[1]), dtype=self.dtype)
            session_neighbours.score_rows(
                ends, items, self.ptr, self.members, self.where, self.sessions, self.sample, self.neighbours,
                first, last, out,
            )  # fmt: skip
            return out

        yield 0, self.shape[1], score

    def scaled(self, columns: Floats) -> NoReturn:
        raise OffdiagError("scores of past sessions cannot be scaled by item; fit a linear model for that")

    def column(self, items: Ints, target: int) -> NoReturn:
        raise OffdiagError("past sessions are no matrix: what one item adds to a score depends on the whole history")

    def toarray(self) -> NoReturn:
        raise OffdiagError("past sessions are no matrix; score histories with predict")

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in ("ptr", "members", "where", "sessions")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        raise ValueError(NOT_A_FILE)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # never changed

    def __reduce__(self) -> NoReturn:
        raise OffdiagError(NOT_A_FILE)


def latest_first(X: sparse.csr_array, window: int) -> tuple[Ints, NDArray[np.int32]]:
    """The ``window`` items of each row with the largest values, largest first; values of 0 are too old to count."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    order = np.lexsort((-X.data, rows))
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], np.diff(X.indptr))
    kept = order[(place < window) & (X.data[order] > 0)]
    ends = np.searchsorted(rows[kept], np.arange(X.shape[0] + 1))
    return ends.astype(np.int64), X.indices[kept].astype(np.int32)
