"""X → G = XᵀX where most pairs of items share no user and m² numbers would not fit: stores only nonzero entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels, memory, wording
from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import EXACT_FLOAT32, ROUNDING, Gram, as_matrix, check_left, is_exact
from offdiag.gramian.user_weights import Facts, Users, checked_power, weights_of
from offdiag.progress import Progress, of_tasks, reporter
from offdiag.solvers import popularity_order
from offdiag.weights import Sparse

ITEMS_AT_ONCE = 256  # a task for one core
BELIEVED = 1e-9  # of √(G_ii G_jj): how far below 0 a rounded sum may fall
NOTHING = 1e-6  # of the smallest user weight: a smaller sum over 0/1 data is rounding residue


@dataclass(frozen=True, eq=False)
class SparseGram(Users):
    """G = s·Σ_u n_u^(-user_power) x_u x_uᵀ by rows, both triangles; as ``Gram``, but for catalogues of any size.

    Zeros are never stored and rows ascend, so equal data gives equal arrays. 0/1 data without user weights is counted
    exactly, in float32 as long as every count fits exactly; all other sums are float64.
    """

    kind: ClassVar[str] = "sparse"
    indptr: NDArray[np.int64]  # (m + 1,)
    indices: NDArray[np.int32]
    values: NDArray[np.floating]  # without the factor s
    activity: NDArray[np.int64]  # activity[n] = number of users with n interactions
    item_counts: NDArray[np.int64]  # users per item
    item_sums: NDArray[np.float64]  # column sums of X: the popularity of each item
    user_power: float = 0.0

    @property
    def nbytes(self) -> int:
        return self.indptr.nbytes + self.indices.nbytes + self.values.nbytes

    def own_diagonal(self) -> NDArray[np.float64]:
        """diag(G) without the factor s."""
        g = np.zeros(self.n_items)
        _kernels.sparse_gram_rows.diagonal(self.indptr, self.indices, self.values, g)
        return g

    def tocsr(self) -> sparse.csr_array:
        """The numbers without the factor s; the arrays are shared."""
        return sparse.csr_array((self.values, self.indices, self.indptr), shape=(self.n_items, self.n_items))

    def toarray(self) -> NDArray[np.floating]:
        """G as a full array, m² numbers: for small problems and tests."""
        full: NDArray[np.floating] = self.tocsr().toarray()
        return full if self.scale == 1.0 else full * self.dtype.type(self.scale)

    def row(self, item: int) -> NDArray[np.float64]:
        """Row of one item, without the factor s."""
        out = np.zeros(self.n_items)
        at = slice(self.indptr[item], self.indptr[item + 1])
        out[self.indices[at]] = self.values[at]
        return out

    def part(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """G[items, items], without the factor s."""
        out = np.zeros((len(items), len(items)))
        _kernels.sparse_gram_rows.part(self.indptr, self.indices, self.values, items, self._where(items), out)
        return out

    def put(self, items: NDArray[np.int64], part: NDArray[np.float64], facts: Facts) -> SparseGram:
        """This Gram with G[items, items] (ascending items) and the facts replaced, without traces of rounding."""
        return self.put_exactly(items, self._without_traces(items, part, facts), facts)

    def put_exactly(
        self, items: NDArray[np.int64], part: NDArray[np.float64], facts: Facts, dtype: Any = None
    ) -> SparseGram:
        """The same with every number unchanged: makes one copy of the stored arrays."""
        where = self._where(items)
        lengths = np.diff(self.indptr)
        _kernels.sparse_gram_rows.put_lengths(self.indptr, self.indices, items, where, part, lengths)
        g = self.own_diagonal()
        g[items] = np.diagonal(part)
        kind = self._kind(g, facts) if dtype is None else dtype
        arrays = self._filled(_kernels.sparse_gram_rows.put_rows, lengths, kind, items, where, part)
        return SparseGram(*arrays, **facts, user_power=self.user_power)

    def moved(self, at: NDArray[np.int64]) -> SparseGram:
        """The same users over another catalogue: its item i is item at[i] of this one, or new (−1)."""
        place = np.full(self.n_items, -1, dtype=np.int64)
        known = np.flatnonzero(at >= 0)
        place[at[known]] = known
        lengths = np.zeros(len(at), dtype=np.int64)
        _kernels.sparse_gram_rows.moved_lengths(self.indptr, self.indices, at, place, lengths)
        arrays = self._filled(_kernels.sparse_gram_rows.moved_rows, lengths, self.dtype, at, place)
        return SparseGram(*arrays, **self._moved_facts(at), user_power=self.user_power)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> SparseGram:
        """From the arrays of a file, fully checked because compiled loops trust them."""
        G = cls(**arrays, user_power=float(about["user_power"]))
        G._check_facts()
        Sparse.from_arrays({"indptr": G.indptr, "indices": G.indices, "data": G.values}, G.n_items)
        return G

    def summed(
        self,
        rows: sparse.csr_array,
        sign: int,
        facts: Facts,
    ) -> SparseGram:
        """This Gram after adding (+1) or removing (−1) too many users for a dense part of it to fit."""
        other = sparse_gram(rows, self.user_power)
        before = self.own_diagonal()
        g, live = before + sign * other.own_diagonal(), facts["item_counts"] > 0
        touched = live & (other.item_counts > 0)
        exact = is_exact(self.user_power, self.values, other.values)
        least, rounding = (0.0, 0.0) if exact else (self._least(facts), ROUNDING)
        if not exact and not least:
            check_left(g[touched], before[touched])
        believed = 0.0 if exact else BELIEVED
        size = np.sqrt(before)
        args = (other.indptr, other.indices, other.values, sign, live, size, least, rounding, believed)
        lengths = np.zeros(self.n_items, dtype=np.int64)
        _kernels.sparse_gram_rows.summed_lengths(
            self.indptr, self.indices, self.values, *args, 0, self.n_items, lengths
        )
        if lengths.min(initial=0) < 0:
            raise OffdiagError(
                "these users cannot all have been in the Gram: two of their items do not have that many users in "
                "common; subtract only users that were added"
            )
        arrays = self._filled(_kernels.sparse_gram_rows.summed_rows, lengths, self._kind(g, facts), *args)
        return SparseGram(*arrays, **facts, user_power=self.user_power)

    def __repr__(self) -> str:
        return (
            f"SparseGram({self.n_items} items from {self.n_users} users, {len(self.values):,} pairs, "
            f"user_power={self.user_power:g}, {self.dtype.name}, {wording.size(self.nbytes)})"
        )

    def _where(self, items: NDArray[np.int64]) -> NDArray[np.int32]:
        where = np.full(self.n_items, -1, dtype=np.int32)
        where[items] = np.arange(len(items), dtype=np.int32)
        return where

    def _filled(
        self, kernel: Any, lengths: NDArray[np.int64], dtype: Any, *args: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.floating]]:
        """New rows of these lengths, filled by ``kernel`` on all cores."""
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        _require(int(ptr[-1]), np.dtype(dtype), len(lengths))
        indices, values = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1], dtype=dtype)

        def work(lo: int, hi: int) -> None:
            kernel(self.indptr, self.indices, self.values, *args, lo, hi, ptr, indices, values)

        parallel.run_parallel(work, parallel.ranges(len(lengths), -(-len(lengths) // ITEMS_AT_ONCE)))
        return ptr, indices, values

    def _kind(self, g: NDArray[np.float64], facts: Facts) -> Any:
        """The precision for a diagonal and its facts: Σx² = Σx = the number of users means that every x is 1."""
        counts, sums = facts["item_counts"], facts["item_sums"]
        ones = self.user_power == 0 and bool((g == counts).all() and (sums == counts).all())
        return np.float32 if ones and counts.max(initial=0) <= EXACT_FLOAT32 else np.float64

    def _least(self, facts: Facts) -> float:
        """A bound far below any entry of 0/1 data; 0 for other data."""
        before, after = self.item_counts == self.item_sums, facts["item_counts"] == facts["item_sums"]
        n = np.flatnonzero(facts["activity"][1:]) + 1.0
        return NOTHING * float((n**-self.user_power).min(initial=1.0)) if before.all() and after.all() else 0.0

    def _without_traces(self, items: NDArray[np.int64], part: NDArray[np.float64], facts: Facts) -> NDArray[np.float64]:
        """Zero the rounding residue of rounded sums for pairs that no user shares any more."""
        part = np.array(part, dtype=np.float64)
        live = facts["item_counts"][items] > 0
        before, g = self.part(items), np.diagonal(part).copy()
        if not is_exact(self.user_power, before, part):
            check_left(g[live], np.diagonal(before)[live])
            size = np.sqrt(np.diagonal(before))  # a pair is at most √(G_ii G_jj), but may have been more than now
            part[part <= np.maximum(ROUNDING * np.maximum(before, 1e-3 * np.outer(size, size)), self._least(facts))] = 0
            np.fill_diagonal(part, g)
        part[~live] = 0
        part[:, ~live] = 0
        return part


def of_packed(G: Gram) -> SparseGram:
    """The same Gram by rows."""
    values = layout.unpack(G.values, G.n_items)
    rows = sparse.csr_array(values)
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    return SparseGram(indptr, indices, rows.data, G.activity, G.item_counts, G.item_sums, G.user_power)


def sparse_gram(X: Any, user_power: float = 0.0, *, progress: Progress | bool | None = None) -> SparseGram:
    """G = XᵀX by rows, every user weighted by n_u^(-user_power).

    Cost: 2·Σ_u n_u² additions; memory: 12 bytes per interaction and 8 to 12 per pair of items that share a user; the
    pairs are counted before memory is allocated for them.
    """
    progress = reporter(progress)
    matrix = as_matrix(X)
    user_power = checked_power(user_power)
    m = matrix.shape[1]
    n_u = np.diff(matrix.indptr)
    weight = weights_of(n_u, user_power)
    item_counts = np.bincount(matrix.indices, minlength=m).astype(np.int64)
    item_sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
    memory.require(16 * matrix.nnz, f"the interactions with {m:,} items by item", "give the machine more memory")
    data = popularity_order.by_popularity(matrix, weight, np.arange(m, dtype=np.int32))
    lengths = np.zeros(m, dtype=np.int64)
    tasks = parallel.ranges(m, -(-m // ITEMS_AT_ONCE))

    def count(kernel: Any, begin: float, *out: Any) -> None:
        done = of_tasks(progress, "counting pairs", len(tasks), begin, 0.5)
        parallel.run_parallel(lambda lo, hi: kernel(*data.arrays(), lo, hi, *out), tasks, done)

    count(_kernels.sparse_gram_rows.row_lengths, 0.0, lengths)
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    ones = user_power == 0 and not len(data.data)
    exact = ones and int(item_counts.max(initial=0)) <= EXACT_FLOAT32
    dtype = np.dtype(np.float32 if exact else np.float64)
    _require(int(ptr[-1]), dtype, m)
    indices, values = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1], dtype=dtype)
    count(_kernels.sparse_gram_rows.count_rows, 0.5, ptr, indices, values)
    activity = np.bincount(n_u).astype(np.int64)
    return SparseGram(ptr, indices, values, activity, item_counts, item_sums, user_power)


def _require(entries: int, dtype: np.dtype[Any], m: int) -> None:
    memory.require(
        entries * (4 + dtype.itemsize) + 8 * m,
        f"the Gram of {m:,} items, of which {entries:,} pairs share a user,",
        "keep fewer items with od.prepare.min_counts(items=...)",
    )
