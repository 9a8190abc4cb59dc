"""X → G = XᵀX, the one statistic every full-rank model needs; users can be added to it and removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels, memory, wording
from offdiag.errors import OffdiagError, WrongTypeError
from offdiag.gramian import layout
from offdiag.gramian.item_bands import run_by_item
from offdiag.gramian.user_weights import Facts, Users, add_histograms, checked_power, weights_of
from offdiag.progress import Progress, reporter

EXACT_FLOAT32 = 2**24  # float32 holds every integer up to here
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # relative error that a sum may have
CHECKED_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Gram(Users):
    """G = s·Σ_u n_u^(-user_power) x_u x_uᵀ in packed storage, with the counts needed to add and remove users.

    ``values`` holds the sum without the factor s. The factor makes the mean weight of an interaction 1 (``scale_of``),
    so that ``l2`` means the same at every ``user_power``; it is derived from ``activity`` (how many users have n
    interactions), integers that add, so adding and removing users never leaves a trace in it.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> G, new = od.gram(X.matrix[:200]), od.gram(X.matrix[200:])
        >>> G + new
        Gram(40 items from 300 users, user_power=0, float32, 3.28 kB)
        >>> bool((((G + new) - new).values == G.values).all())
        True
    """

    kind: ClassVar[str] = "packed"
    values: NDArray[np.floating]  # packed, see offdiag.gramian.layout
    activity: NDArray[np.int64]  # activity[n] = number of users with n interactions
    item_counts: NDArray[np.int64]  # users per item
    item_sums: NDArray[np.float64]  # column sums of X: the popularity of each item
    user_power: float = 0.0

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def own_diagonal(self) -> NDArray[np.float64]:
        """diag(G) without the factor s.

        Example:
            >>> import offdiag as od
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).own_diagonal().tolist()
            [1.0, 2.0, 1.0]
        """
        return np.asarray(self.values[layout.diagonal_positions(self.n_items)], dtype=np.float64)

    def toarray(self) -> NDArray[np.floating]:
        """G as a full array, m² numbers: for small problems and tests.

        Example:
            >>> import offdiag as od
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).toarray().tolist()
            [[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]
        """
        full = layout.unpack(self.values, self.n_items)
        return full if self.scale == 1.0 else full * self.dtype.type(self.scale)

    def row(self, item: int) -> NDArray[np.float64]:
        """Row of one item, without the factor s.

        Example:
            >>> import offdiag as od
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).row(0).tolist()
            [1.0, 1.0, 0.0]
        """
        where = layout.positions(self.n_items, np.array([item]), np.arange(self.n_items))
        return np.asarray(self.values[where[0]], dtype=np.float64)

    def part(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """G[items, items], without the factor s.

        Example:
            >>> import offdiag as od
            >>> import numpy as np
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).part(np.array([0, 2])).tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        return np.asarray(self.values[layout.positions(self.n_items, items, items)], dtype=np.float64)

    def put(self, items: NDArray[np.int64], part: NDArray[np.float64], facts: Facts) -> Gram:
        """This Gram with G[items, items] and the facts replaced; the numbers are changed in place if possible.

        Example:
            >>> import offdiag as od
            >>> import numpy as np
            >>> G = od.gram([[1, 1, 0], [0, 1, 1]])
            >>> facts = {"activity": G.activity, "item_counts": G.item_counts, "item_sums": G.item_sums}
            >>> G.put(np.array([2]), np.array([[5.0]]), facts).row(2).tolist()
            [0.0, 1.0, 5.0]
        """
        values = self.values if self.values.flags.writeable else self.values.copy()
        values[layout.positions(self.n_items, items, items)] = part
        return replace(self, values=values, **facts)

    def moved(self, at: NDArray[np.int64]) -> Gram:
        """The same users over another catalogue: its item i is item at[i] of this one, or new (−1).

        Example:
            >>> import offdiag as od
            >>> import numpy as np
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).moved(np.array([1, -1, 0])).toarray().tolist()
            [[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
        """
        values = _kernels.packed_rows.moved(self.values, self.n_items, at)
        return replace(self, values=values, **self._moved_facts(at))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> Gram:
        """From the arrays of a file, whose shapes are checked because compiled loops trust them.

        Example:
            >>> import offdiag as od
            >>> G = od.gram([[1, 1, 0], [0, 1, 1]])
            >>> od.Gram.from_arrays(G.arrays(), {"user_power": 0.0})
            Gram(3 items from 2 users, user_power=0, float32, 24 bytes)
        """
        G = cls(**arrays, user_power=float(about["user_power"]))
        G._check_facts()
        if G.values.shape != (layout.size(G.n_items),) or G.dtype not in (np.float32, np.float64):
            raise ValueError("the Gram does not fit its items")
        return G

    def __add__(self, other: Gram) -> Gram:
        self._check(other)
        return replace(
            self,
            values=self.values + other.values,
            activity=add_histograms(self.activity, other.activity),
            item_counts=self.item_counts + other.item_counts,
            item_sums=self.item_sums + other.item_sums,
        )

    def __radd__(self, other: object) -> Gram:
        """So that ``sum(grams)`` works."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Gram) -> Gram:
        self._check(other)
        activity = add_histograms(self.activity, -other.activity)
        item_counts = self.item_counts - other.item_counts
        if activity.min(initial=0) < 0 or item_counts.min(initial=0) < 0:
            raise OffdiagError(
                "cannot subtract this Gram: it holds users that are not in the first one; "
                "subtract only users that were added"
            )
        values, item_sums = self.values - other.values, self.item_sums - other.item_sums
        # An item without users has no sums; rounded sums would keep a trace of it.
        for i in np.flatnonzero((item_counts == 0) & (other.item_counts > 0)):
            values[layout.positions(self.n_items, np.array([i]), np.arange(self.n_items))] = 0
            item_sums[i] = 0
        return replace(self, values=values, activity=activity, item_counts=item_counts, item_sums=item_sums)

    def __repr__(self) -> str:
        return (
            f"Gram({self.n_items} items from {self.n_users} users, user_power={self.user_power:g}, "
            f"{self.dtype.name}, {wording.size(self.nbytes)})"
        )

    def _check(self, other: object) -> None:
        if not isinstance(other, Gram):
            raise OffdiagError(f"a Gram adds to a Gram, not to {type(other).__name__}; wrap the data in od.gram(...)")
        if other.n_items != self.n_items:
            raise OffdiagError(f"two Grams must have the same items; these have {self.n_items} and {other.n_items}")
        if other.user_power != self.user_power:
            raise OffdiagError(
                f"two Grams must share user_power; these have {self.user_power:g} and {other.user_power:g}"
            )


def is_exact(user_power: float, *sums: NDArray[Any]) -> bool:
    """Whether these are integers without rounding error: counts, or sums of products of integers."""
    if user_power != 0:
        return False
    for numbers in map(np.ravel, sums):
        for lo in range(0, len(numbers), CHECKED_AT_ONCE):  # avoids a second array of that size
            some = numbers[lo : lo + CHECKED_AT_ONCE]
            if some.max() > 2.0**53 or not np.array_equal(np.rint(some), some):
                return False
    return True


def check_left(g: NDArray[Any], past: NDArray[Any]) -> None:
    """Raise unless what is left of items in use exceeds a million times the rounding error of their earlier sums."""
    if (g <= 1e6 * ROUNDING * past).any():
        raise OffdiagError(
            "what is left of some items is lost in the rounding of what was taken from them (values of very different "
            "size?); fit again on the data that is left (nothing was changed)"
        )


def as_matrix(X: Any) -> sparse.csr_array:
    """Any accepted form of data as a canonical CSR array of finite, non-negative values."""
    matrix = getattr(X, "matrix", X)
    if hasattr(matrix, "columns"):
        raise OffdiagError(
            f"expected a users×items matrix, received a table ({type(X).__name__}); "
            "read it with od.read(table, user=…, item=…)"
        )
    if not sparse.issparse(matrix):
        try:
            matrix = np.asarray(matrix)
        except ValueError as error:  # rows of different length
            raise OffdiagError(f"expected a users×items matrix, received {type(X).__name__} ({error})") from error
    if matrix.dtype.kind == "O" and matrix.ndim == 2 and not sparse.issparse(matrix):
        matrix = _numbers(matrix)
    if matrix.dtype.kind == "c":
        raise OffdiagError(f"Complex data not supported: expected real numbers, received {matrix.dtype}")
    if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
        raise OffdiagError(
            f"expected a users×items matrix of numbers (Interactions, scipy sparse or 2-D array), "
            f"received {type(X).__name__} of shape {matrix.shape} and type {matrix.dtype}; see od.read"
        )
    if matrix.dtype not in (np.float32, np.float64):  # before duplicates are summed: small integers would overflow
        small = matrix.dtype.itemsize <= 2 or abs(matrix).max() <= EXACT_FLOAT32 if 0 not in matrix.shape else True
        matrix = matrix.astype(np.float32 if small else np.float64)
    out = sparse.csr_array(matrix)
    try:
        out.check_format(full_check=True)
    except ValueError as error:
        raise OffdiagError(f"the sparse matrix is not valid ({error}); build it again") from error
    if out.data.size and not np.isfinite(out.data).all():
        raise OffdiagError("the interactions hold NaN or infinite values; remove or replace those rows first")
    if out.data.size and out.data.min() < 0:
        raise OffdiagError(
            f"Negative values in data: interactions must not be negative, received {out.data.min():g}; "
            "use od.prepare.binarize or drop those rows"
        )
    if not out.has_canonical_format or (out.data.size and not out.data.all()):
        out = out.copy()  # never change the caller's matrix
        out.sum_duplicates()
        out.eliminate_zeros()
    return out


def _numbers(objects: NDArray[np.object_]) -> NDArray[Any]:
    """An array of Python objects as numbers, if they all are; text is not turned into numbers."""
    if any(isinstance(value, str) for value in objects.flat):
        return objects.astype(np.str_)  # which is refused, with the type that it is
    try:
        return objects.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise WrongTypeError(
            f"expected a matrix of numbers, received an array of objects, of which some are not ({error})"
        ) from None


def gram(
    X: Any,
    user_power: float = 0.0,
    *,
    dtype: Any = None,
    progress: Progress | bool | None = None,
) -> Gram:
    """G = XᵀX with every user weighted by n_u^(-user_power); one pass over the pairs of each row, on all cores.

    Cost: Σ_u n_u²/2 additions; memory: m(m+1)/2 numbers for G and a sixteenth of that while it runs.
    Equivalent to ``(X.T @ diags(w) @ X).toarray()`` with w = s·weights_of(n_u, user_power). Sums are computed in
    float64 and rounded once to ``dtype``; the default is float32 if that counts 0/1 data exactly, otherwise float64. So
    Grams of 0/1 data add and subtract without error (two of different precision give the wider one).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.gram(X).toarray().shape
        (40, 40)
    """
    progress = reporter(progress)
    matrix = as_matrix(X)
    user_power = checked_power(user_power)
    m = matrix.shape[1]
    if dtype is None:
        counted = user_power == 0 and matrix.shape[0] <= EXACT_FLOAT32 and bool((matrix.data == 1).all())
        dtype = np.float32 if counted else np.float64
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise OffdiagError(f"the Gram is kept in float32 or float64, received {dtype}")
    memory.require(
        layout.size(m) * dtype.itemsize * 17 // 16,
        f"the Gram of {m:,} items",
        "keep fewer items with od.prepare.min_counts(items=...)",
    )
    n_u = np.diff(matrix.indptr)
    weight = weights_of(n_u, user_power)
    values = np.zeros(layout.size(m), dtype=dtype)
    item_counts, item_sums = _accumulate(matrix, weight, values, progress)
    return Gram(values, np.bincount(n_u).astype(np.int64), item_counts, item_sums, user_power)


def _accumulate(
    matrix: sparse.csr_array,
    weight: NDArray[np.float64],
    values: NDArray[np.floating],
    progress: Progress | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Add Σ_u weight_u x_u x_uᵀ into the packed buffer (which is zero); returns users per item and column sums."""
    n, m = matrix.shape
    indptr = matrix.indptr.astype(np.int64, copy=False)
    indices = matrix.indices.astype(np.int32, copy=False).view(np.uint32)
    counts, pairs, item_sums = np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(m)
    _kernels.pair_counts.item_totals(indptr, indices, matrix.data, counts, item_sums, pairs)

    h, e, _ = layout.layout(m)
    P = layout.rectangle(values, m) if m else values
    counting = bool((matrix.data == 1).all() and (weight[np.diff(indptr) > 0] == 1).all())
    counting &= n <= (EXACT_FLOAT32 if values.dtype == np.float32 else 2**53)

    def work(col_ptr: Any, users: Any, positions: Any, lo: int, hi: int) -> None:
        if counting:
            _kernels.pair_counts.gram_counts(indptr, indices, col_ptr, users, positions, lo, hi, P, h, e)
        else:
            acc = np.empty(m)
            _kernels.pair_counts.gram_values(
                indptr, indices, matrix.data, weight, col_ptr, users, positions, lo, hi, P, h, e, acc
            )

    def report(share: float) -> None:
        if progress:
            progress("counting pairs", share)

    run_by_item(indptr, indices, counts, pairs, work, max_bytes=values.nbytes // 16, report=report)
    return counts, item_sums
