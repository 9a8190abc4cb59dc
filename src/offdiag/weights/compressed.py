"""W of which only the strong entries are stored, in few bits each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights import tiles
from offdiag.weights.tiles import Tile, Tiled

STORAGES = ("float32", "float16", "int8")
_GAPS = ("uint8", "uint16", "uint32")


@dataclass(frozen=True, eq=False)
class Compressed(Tiled):
    """W by rows: entry p of row j is codes[p]·scale[column], ``gaps[p]`` columns after the one that follows the last.

    Places of row j are indptr[j]..indptr[j + 1]. Steps too long for a gap are made with zeros between. Scores are
    summed in float32 straight from the codes; nothing is unpacked.
    """

    kind: ClassVar[str] = "compressed"
    indptr: NDArray[np.unsignedinteger]  # (m + 1,) uint32, or int64 where there are 2³² entries
    gaps: NDArray[np.unsignedinteger]  # (nnz,) uint8, uint16 or uint32
    codes: NDArray[Any]  # (nnz,) float32, float16 or int8
    scale: NDArray[np.float32]  # (m,)

    def scaled(self, ratio: NDArray[np.floating]) -> Compressed:
        """Column i times ratio[i]; the codes are shared."""
        return Compressed(self.indptr, self.gaps, self.codes, self.scale * ratio.astype(np.float32))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], m: int) -> Compressed:
        """From the arrays of a file, checked in full, since the compiled loops take them for granted."""
        weights = cls(**arrays)
        known = weights.indptr.dtype.name in ("uint32", "int64") and weights.gaps.dtype.name in _GAPS
        if not known or weights.codes.dtype.name not in STORAGES or weights.scale.dtype != np.float32:
            raise TypeError("the compressed weights are not of their types")
        if weights.indptr.shape != (m + 1,) or weights.scale.shape != (m,):
            raise ValueError(f"the compressed weights do not fit {m} items")
        if weights.gaps.ndim != 1 or weights.gaps.shape != weights.codes.shape:
            raise ValueError("the compressed weights do not fit each other")
        weights.check()
        return weights

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.scale), len(self.scale)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def storage(self) -> str:
        return self.codes.dtype.name

    def check(self) -> None:
        """Raise ValueError unless every row lies inside the arrays and ends inside the catalogue."""
        from offdiag._kernels import coded_rows, parallel

        m, fine = len(self.scale), []

        def part(first: int, last: int) -> None:
            fine.append(coded_rows.valid_gaps(self.indptr, self.gaps, m, first, last))

        if self.indptr[0] != 0 or self.indptr[-1] != len(self.gaps):
            raise ValueError("the rows do not fit the entries")
        parallel.run_parallel(part, parallel.ranges(m, 4 * parallel.n_threads()))
        if not all(fine):
            raise ValueError("the rows do not fit the catalogue")

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import coded_rows

        m = self.shape[0]
        rows, history = np.unique(X.indices, return_inverse=True)  # items nobody in this batch has are never read
        data = X.data.astype(np.float32, copy=False)
        begin, last_of = self.indptr[rows].astype(np.int64), self.indptr[rows + 1].astype(np.int64)
        before = np.full(len(rows), -1, dtype=np.int64)
        codes, table = self._readable()
        few = max(1, tiles.USERS_AT_ONCE // max(X.shape[0], 1))  # for few users, wider tiles in the same room
        for lo in range(0, m, tiles.DENSE_WIDTH * few):
            hi = min(lo + tiles.DENSE_WIDTH * few, m)
            end, after = np.empty_like(begin), np.empty_like(before)
            coded_rows.skip_to(self.gaps, begin, before, last_of, hi, end, after)

            def score(
                first: int,
                last: int,
                lo: int = lo,
                hi: int = hi,
                at: tuple[NDArray[np.int64], ...] = (begin, before, end),
            ) -> NDArray[np.floating]:
                out = np.empty((last - first, hi - lo), dtype=np.float32)
                coded_rows.score_coded_tile(
                    X.indptr, history, data, *at, self.gaps, codes, table, self.scale, lo, first, out
                )
                return out

            yield lo, hi, score
            begin, before = end, after

    def selector(
        self,
        X: sparse.csr_array,
        seen_ptr: NDArray[Any],
        allowed: NDArray[np.bool_],
        heap_scores: NDArray[np.floating],
        heap_items: NDArray[np.int64],
    ) -> Callable[[int, int], None]:
        """A function that puts the k best items of users first..last into their heaps, from any thread.

        Only items that the history leads to are looked at, and as many others, whose score is 0, as a list needs.
        """
        from offdiag._kernels import coded_rows

        data = X.data.astype(np.float32, copy=False)
        codes, table = self._readable()

        def select(first: int, last: int) -> None:
            coded_rows.select_coded(
                X.indptr, X.indices, data, seen_ptr, self.indptr, self.gaps, codes, table, self.scale,
                allowed, first, last, heap_scores, heap_items,
            )  # fmt: skip

        return select

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        """W[items, target]: what each of the items says about the target."""
        from offdiag._kernels import coded_rows

        places = np.empty(len(items), dtype=np.int64)
        coded_rows.find(self.indptr, self.gaps, items, target, places)
        out = np.zeros(len(items), dtype=np.float32)
        stored = places >= 0
        out[stored] = self.codes[places[stored]].astype(np.float32) * self.scale[target]
        return out

    def tocsr(self) -> sparse.csr_array:
        """Unpacked into scipy's form, eight bytes for each entry; the zeros of long steps are left out."""
        from offdiag._kernels import coded_rows

        columns = np.empty(len(self.gaps), dtype=np.int32)
        coded_rows.columns_of(self.indptr, self.gaps, 0, self.shape[0], columns)
        values = self.codes.astype(np.float32)
        values *= self.scale[columns]
        out = sparse.csr_array((values, columns, self.indptr.astype(np.int64)), shape=self.shape)
        out.eliminate_zeros()
        return out

    def toarray(self) -> NDArray[np.floating]:
        return self.tocsr().toarray()

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"indptr": self.indptr, "gaps": self.gaps, "codes": self.codes, "scale": self.scale}

    def _readable(self) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The codes as compiled code can read them, and the number behind each, unless it is the code itself."""
        if self.storage == "float16":  # processors without half precision would emulate it, number by number
            return self.codes.view(np.uint16), halves()
        return self.codes, np.empty(0, dtype=np.float32)

    def __getattr__(self, name: str) -> Any:
        if name in ("U", "V", "Q", "sigma"):
            raise OffdiagError(
                "compressed weights are entries of W without embeddings or a spectrum; use the model they were made of"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@cache
def halves() -> NDArray[np.float32]:
    """The number behind each of the 65,536 codes of half precision: 256 kB, which stay in the cache."""
    with np.errstate(invalid="ignore"):  # some of the codes are no numbers
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
