"""W of a model with items added after its fit: the fitted weights as they are, and new items as mixtures of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights import tiles
from offdiag.weights.packed import Packed
from offdiag.weights.protocol import Floats, Ints, Tile, Weights
from offdiag.weights.tiles import KINDS, Tiled

COLUMNS_AT_ONCE = 512
BAND_BYTES = 8 << 20  # of weights for each thread, which all sums read again: they stay in the last-level cache
SHOWN = 5  # items that a new one is like, as a reason


@dataclass(frozen=True, eq=False)
class Grown(Tiled):
    """W = [I; L] [B | C]: new items come after those of B, the fitted weights, which are not touched.

    A new item in a history counts as the items that it is like, L (new × fitted): W[new] = L [B | C]. Column C_i of
    a new item is its own (fitted × new). Scores of fitted items for histories without new ones are those of B, bit for
    bit, and removing all new items returns B itself.
    """

    kind: ClassVar[str] = "grown"
    base: Weights
    indptr: Ints  # (n_new + 1,) of L
    indices: NDArray[np.int32]
    data: Floats
    into: Floats  # C (m, n_new)

    def __post_init__(self) -> None:
        for name in ("compound", "lossy", "batch_invariant"):  # what holds for the fitted weights
            object.__setattr__(self, name, getattr(self.base, name))

    @property
    def shape(self) -> tuple[int, int]:
        m = self.base.shape[0] + len(self.indptr) - 1
        return m, m

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    @property
    def learned(self) -> Weights:
        return self.base

    @property
    def C(self) -> Floats | None:  # noqa: N802
        """The inverse that a change of users would overwrite."""
        return getattr(self.base, "C", None)

    @cached_property
    def like(self) -> sparse.csr_array:
        """L: what each new item is like, by rows."""
        shape = len(self.indptr) - 1, self.base.shape[0]
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=shape)

    def fold(self, X: sparse.csr_array) -> sparse.csr_array:
        """Histories over the fitted items: each new item replaced by the items that it is like."""
        m = self.base.shape[0]
        if not X.nnz or X.indices.max() < m:
            return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], m))
        new = sparse.csr_array(X[:, m:].astype(self.dtype) @ self.like)
        new.sort_indices()  # sums round by their order, which must not depend on the batch
        return sparse.csr_array(X[:, :m] + new)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import topk

        X = self.fold(X)
        yield from self.base.score_tiles(X)
        history, data = X.indices.astype(np.uint32), X.data.astype(self.dtype, copy=False)
        m, n = self.into.shape
        for lo in range(0, n, tiles.DENSE_WIDTH):
            hi = min(lo + tiles.DENSE_WIDTH, n)

            def score(first: int, last: int, lo: int = lo, hi: int = hi) -> Floats:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                topk.score_tile(X.indptr, history, data, self.into, lo, hi, first, out)
                return out

            yield m + lo, m + hi, score

    def scaled(self, columns: Floats) -> Grown:
        m = self.base.shape[0]
        into = self.into * columns[m:].astype(self.dtype, copy=False)
        return Grown(self.base.scaled(columns[:m]), self.indptr, self.indices, self.data, into)

    def diagonal(self) -> Floats:
        own = self.like.multiply(self.into.T).sum(axis=1) if len(self.data) else np.zeros(self.into.shape[1])
        return np.concatenate([self.base.diagonal(), np.asarray(own, dtype=self.dtype).ravel()])

    def column(self, items: Ints, target: int) -> Floats:
        m = self.base.shape[0]
        known, new = items[items < m], items[items >= m] - m
        out = np.empty(len(items), dtype=self.dtype)
        out[: len(known)] = self._column(known, target)
        for place, one in enumerate(new.tolist(), len(known)):
            row = slice(self.indptr[one], self.indptr[one + 1])
            out[place] = self.data[row] @ self._column(self.indices[row].astype(np.int64), target)
        return out

    def _column(self, items: Ints, target: int) -> Floats:
        m = self.base.shape[0]
        return self.base.column(items, target) if target < m else self.into[items, target - m]

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        m = self.base.shape[0]
        out = np.empty((hi - lo, self.shape[0]), dtype=self.dtype) if out is None else out
        split = min(max(m - lo, 0), hi - lo)
        if split:
            out[:split, :m] = self.base.columns(lo, lo + split)
        out[split:, :m] = self.into[:, max(lo - m, 0) : max(hi - m, 0)].T
        out[:, m:] = (self.like @ out[:, :m].T).T
        return out

    def toarray(self) -> Floats:
        top = np.hstack([self.base.toarray(), self.into])
        return np.vstack([top, self.like @ top])

    def select(self, new: Ints) -> Weights:
        """With only these of the new items, by position among them; without any, the fitted weights."""
        if not len(new):
            return self.base
        return grow(self.base, sparse.csr_array(self.like[new]), np.ascontiguousarray(self.into[:, new]))

    def likeness(self, new: int) -> list[tuple[int, float]]:
        """The known items that a new one is like most, by position, with their weights; at most SHOWN."""
        row = slice(self.indptr[new], self.indptr[new + 1])
        order = np.argsort(-self.data[row], kind="stable")[:SHOWN]
        order = order[self.data[row][order] > 0]
        return list(zip(self.indices[row][order].tolist(), self.data[row][order].tolist(), strict=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _OWN}
        return own | {f"{self.base.kind}.{name}": array for name, array in self.base.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        indptr, indices, data, into = (arrays[name] for name in _OWN)
        kinds = {name.partition(".")[0] for name in arrays if name not in _OWN}
        if len(kinds) != 1 or cls.kind in kinds:
            raise ValueError("the weights that were grown are not of one kind")
        if indptr.ndim != 1:
            raise ValueError("the rows of new items are not one after another")
        (kind,) = kinds
        n = len(indptr) - 1
        rest = {name.removeprefix(f"{kind}."): array for name, array in arrays.items() if name not in _OWN}
        base = KINDS[kind].from_arrays(rest, m - n)
        if (indptr.dtype.name, indices.dtype.name) != ("int64", "int32") or {data.dtype, into.dtype} != {base.dtype}:
            raise TypeError("the weights of new items are not of their types")
        fits = into.shape == (m - n, n) and n >= 0 and data.ndim == 1 and data.shape == indices.shape
        if not fits or indptr[0] != 0 or indptr[-1] != len(data) or np.any(np.diff(indptr) < 0):
            raise ValueError(f"the weights of new items do not fit {m} items")
        if len(indices) and not 0 <= indices.min() <= indices.max() < m - n:
            raise ValueError("new items are like items that do not exist")
        return cls(base, indptr, indices, data, into)


_OWN = ("indptr", "indices", "data", "into")


def grow(base: Weights, like: sparse.csr_array, into: Floats) -> Grown:
    """Weights with new items, which are like others (new × fitted) and have these columns (fitted × new)."""
    like.sort_indices()
    parts = like.indptr.astype(np.int64), like.indices.astype(np.int32), like.data.astype(base.dtype)
    return Grown(base, *parts, into)


def mix_columns(W: Weights, R: sparse.csr_array) -> Floats:
    """W Rᵀ: column r is the sum of the columns of W, each times its weight in row r of R."""
    if isinstance(W, Packed):
        return _mix_packed(W, R)
    out = np.zeros((R.shape[0], W.shape[0]), dtype=W.dtype)
    by_column = sparse.csc_array(R.astype(W.dtype))
    for lo in range(0, W.shape[0], COLUMNS_AT_ONCE):
        hi = min(lo + COLUMNS_AT_ONCE, W.shape[0])
        if by_column.indptr[hi] > by_column.indptr[lo]:
            part: Floats = by_column[:, lo:hi] @ W.columns(lo, hi)
            out += part
    return np.ascontiguousarray(out.T)


def _mix_packed(W: Packed, R: sparse.csr_array) -> Floats:
    """The same from C, which is symmetric: of a band of its columns, the rows that R needs are added up.

    Unlike a list, every sum needs a hundred rows, so a band is as narrow as the cache demands.
    """
    from offdiag._kernels import parallel, topk

    m, n = W.shape[0], R.shape[0]
    out = np.empty((m, n), dtype=W.dtype)
    counts = np.bincount(R.indices, minlength=m)
    rows = np.flatnonzero(counts)
    places = np.empty(len(rows), dtype=np.int64)
    places[np.argsort(-counts[rows], kind="stable")] = np.arange(len(rows))
    place_of = np.zeros(m, dtype=np.uint32)
    place_of[rows] = places
    used, shares = place_of[R.indices], (R.data * W.scale[R.indices]).astype(W.dtype)
    C = Packed(W.C, np.ones_like(W.scale), np.zeros_like(W.own))
    width = max(16, BAND_BYTES // (max(len(rows), 1) * W.dtype.itemsize))

    def mix(first: int, last: int) -> None:
        band = np.empty(len(rows) * width, dtype=W.dtype)
        for lo in range(first, last, width):
            hi = min(lo + width, last)
            part = band[: len(rows) * (hi - lo)].reshape(len(rows), hi - lo)
            C.tile(rows, places, lo, hi, part, 0, len(rows))
            sums = np.empty((n, hi - lo), dtype=W.dtype)
            topk.score_tile(R.indptr, used, shares, part, 0, hi - lo, 0, sums)
            out[lo:hi] = sums.T

    parallel.run_parallel(mix, parallel.ranges(m, 4 * parallel.n_threads()))
    if W.own.any():
        place = np.repeat(np.arange(n), np.diff(R.indptr))
        np.add.at(out, (R.indices, place), (R.data * W.own[R.indices]).astype(W.dtype))
    return out
