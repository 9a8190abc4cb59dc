"""X → G = XᵀX, the one statistic every full-rank model needs; it adds and subtracts, so data can come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory, packed
from offdiag.errors import OffdiagError
from offdiag.progress import Progress

EXACT_FLOAT32 = 2**24  # every integer up to here is a float32


@dataclass(frozen=True, eq=False)
class Gram:
    """G = s·Σ_u n_u^(-user_power) x_u x_uᵀ in packed storage, with what is needed to add and remove users.

    ``values`` holds the sum without the factor s. The factor makes the mean weight of an interaction 1, so that
    ``l2`` means the same at every ``user_power``; it is derived from ``activity`` (how many users have n
    interactions), integers that add, so adding and removing users never leaves a trace in it.
    """

    values: NDArray[np.floating]  # packed, see offdiag.packed
    activity: NDArray[np.int64]  # activity[n] = number of users with n interactions
    item_sums: NDArray[np.float64]  # column sums of X: the popularity of each item
    user_power: float = 0.0

    @property
    def n_items(self) -> int:
        return len(self.item_sums)

    @property
    def n_users(self) -> int:
        return int(self.activity.sum())

    @property
    def n_interactions(self) -> int:
        return int(self.activity @ np.arange(len(self.activity)))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    @property
    def scale(self) -> float:
        """s = Σ n_u / Σ n_u·n_u^(-user_power)."""
        if self.user_power == 0 or self.n_interactions == 0:
            return 1.0
        n = np.arange(1, len(self.activity), dtype=np.float64)
        return float(self.n_interactions / np.dot(self.activity[1:], n ** (1 - self.user_power)))

    def diagonal(self) -> NDArray[np.floating]:
        """g = diag(G)."""
        g: NDArray[np.floating] = self.values[packed.diagonal_positions(self.n_items)] * self.dtype.type(self.scale)
        return g

    def toarray(self) -> NDArray[np.floating]:
        """G as a full array, m² numbers: for small problems and tests."""
        full = packed.unpack(self.values, self.n_items)
        return full if self.scale == 1.0 else full * self.dtype.type(self.scale)

    def copy(self) -> Gram:
        return replace(self, values=self.values.copy())

    def __add__(self, other: Gram) -> Gram:
        self._check(other)
        return replace(
            self,
            values=self.values + other.values,
            activity=_add(self.activity, other.activity),
            item_sums=self.item_sums + other.item_sums,
        )

    def __sub__(self, other: Gram) -> Gram:
        self._check(other)
        activity = _add(self.activity, -other.activity)
        if activity.min(initial=0) < 0:
            raise OffdiagError(
                "cannot subtract this Gram: it holds users that are not in the first one; "
                "subtract only users that were added"
            )
        return replace(
            self,
            values=self.values - other.values,
            activity=activity,
            item_sums=self.item_sums - other.item_sums,
        )

    def __repr__(self) -> str:
        return (
            f"Gram({self.n_items} items from {self.n_users} users, user_power={self.user_power:g}, "
            f"{self.dtype.name}, {memory.readable(self.nbytes)})"
        )

    def _check(self, other: object) -> None:
        if not isinstance(other, Gram):
            raise OffdiagError(f"a Gram adds to a Gram, not to {type(other).__name__}; wrap the data in od.gram(...)")
        if other.n_items != self.n_items:
            raise OffdiagError(f"two Grams must have the same items; these have {self.n_items} and {other.n_items}")
        if other.user_power != self.user_power or other.dtype != self.dtype:
            raise OffdiagError(
                f"two Grams must share user_power and dtype; these have user_power {self.user_power:g} and "
                f"{other.user_power:g}, {self.dtype.name} and {other.dtype.name}"
            )


def _add(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of two histograms of different length, without trailing zeros (so equal data gives equal arrays)."""
    out = np.zeros(max(len(a), len(b)), dtype=np.int64)
    out[: len(a)] += a
    out[: len(b)] += b
    return out[: int(np.flatnonzero(out)[-1]) + 1] if out.any() else out[:0]


def as_matrix(X: Any) -> sparse.csr_array:
    """Any accepted form of data as a canonical CSR array of finite, non-negative values."""
    matrix = getattr(X, "matrix", X)
    if not sparse.issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
            raise OffdiagError(
                f"expected a users×items matrix of numbers (Interactions, scipy sparse or 2-D array), "
                f"received {type(X).__name__} of shape {matrix.shape} and type {matrix.dtype}; see od.read"
            )
    out = sparse.csr_array(matrix)
    if out.data.dtype not in (np.float32, np.float64):
        out = out.astype(np.float32 if abs(out.data).max(initial=0) <= EXACT_FLOAT32 else np.float64)
    if out.data.size and not np.isfinite(out.data).all():
        raise OffdiagError("the interactions hold NaN or infinite values; remove or replace those rows first")
    if out.data.size and out.data.min() < 0:
        raise OffdiagError(
            f"interactions must not be negative, received {out.data.min():g}; "
            "use od.prepare.binarize or drop those rows"
        )
    if not out.has_canonical_format or (out.data.size and not out.data.all()):
        out = out.copy()  # never change the caller's matrix
        out.sum_duplicates()
        out.eliminate_zeros()
    return out


def gram(
    X: Any,
    user_power: float = 0.0,
    *,
    dtype: Any = np.float32,
    progress: Progress | None = None,
) -> Gram:
    """G = XᵀX with every user weighted by n_u^(-user_power); one pass over the pairs of each row, on all cores.

    Cost: Σ_u n_u²/2 additions; memory: m(m+1)/2 numbers for G and 8–12 bytes per interaction while it runs.
    Equivalent to ``(X.T @ diags(w) @ X).toarray()`` with w scaled to an interaction-mean of 1. 0/1 data is counted
    exactly; anything else is summed in float64 and rounded once.
    """
    matrix = as_matrix(X)
    if not np.isfinite(user_power):
        raise OffdiagError(f"user_power must be a finite number (0 weights all users alike), received {user_power}")
    n, m = matrix.shape
    dtype = np.dtype(dtype)
    memory.require(
        packed.size(m) * dtype.itemsize + 12 * matrix.nnz,
        f"the Gram of {m:,} items",
        "keep fewer items with od.prepare.min_counts(items=...)",
    )
    n_u = np.diff(matrix.indptr)
    values = np.zeros(packed.size(m), dtype=dtype)
    weight = np.zeros(n)
    np.power(n_u, -float(user_power), where=n_u > 0, out=weight, dtype=np.float64)
    _accumulate(matrix, weight, values, progress)
    return Gram(
        values=values,
        activity=np.bincount(n_u).astype(np.int64),
        item_sums=np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64),
        user_power=float(user_power),
    )


def _accumulate(
    matrix: sparse.csr_array,
    weight: NDArray[np.float64],
    values: NDArray[np.floating],
    progress: Progress | None,
) -> None:
    """Add Σ_u weight_u x_u x_uᵀ into the packed buffer (which is zero)."""
    from offdiag import kernels

    n, m = matrix.shape
    if matrix.nnz == 0:
        return
    h, e, _ = packed.layout(m)
    P = packed.rectangle(values, m)
    indptr = matrix.indptr.astype(np.int64, copy=False)
    indices = matrix.indices.astype(np.int32, copy=False).view(np.uint32)
    counts = np.bincount(indices, minlength=m)
    col_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    users = np.empty(matrix.nnz, dtype=np.int32)
    positions = np.empty(matrix.nnz, dtype=np.int32 if matrix.nnz < 2**31 else np.int64)
    kernels.transpose_positions(indptr, indices, col_ptr[:-1].copy(), users, positions)

    # Equal shares of work, not of items: an item costs about the sum of its users' row lengths.
    cost = np.bincount(indices, weights=np.repeat(np.diff(indptr), np.diff(indptr)), minlength=m)
    edges = np.searchsorted(np.cumsum(cost), np.linspace(0, cost.sum(), 64 * kernels.n_threads() + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], edges, [m]]))
    parts = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    counting = bool((matrix.data == 1).all() and (weight[np.diff(indptr) > 0] == 1).all())
    exact_up_to = EXACT_FLOAT32 if values.dtype == np.float32 else 2**53
    if counting and n <= exact_up_to:

        def work(lo: int, hi: int) -> None:
            kernels.gram_counts(indptr, indices, col_ptr, users, positions, lo, hi, P, h, e)
    else:
        data = matrix.data.astype(np.float64, copy=False)

        def work(lo: int, hi: int) -> None:
            kernels.gram_values(indptr, indices, data, weight, col_ptr, users, positions, lo, hi, P, h, e, np.empty(m))

    done = None if progress is None else lambda finished: progress("counting pairs", finished / len(parts))
    kernels.run_parallel(work, parts, done)
