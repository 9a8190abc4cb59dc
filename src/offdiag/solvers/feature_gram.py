"""G + w F Fᵀ: features of items as users, who each have the items with that feature [Jeunen20].

Problem   the Gram of the users and of one pseudo-user for each feature, of weight w
Cost      one multiply-add for each pair of items that share a feature; m²/2 for a feature that many items have
Memory    a block of rows, nothing of order m²
Equals    ``G + w * F @ F.T``
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from offdiag import memory
from offdiag.gramian import layout
from offdiag.solvers import Doubles, Floats, blas
from offdiag.solvers.products import Product

COMMON = 0.05  # of the items: columns that are filled more than this are multiplied as dense ones
WIDTH = 256  # dense columns at a time
ROWS_BYTES = 64 << 20  # of F Fᵀ that are held at a time


def squares(F: sparse.csr_array) -> Doubles:
    """diag(F Fᵀ)."""
    return np.asarray(F.multiply(F).sum(axis=1), dtype=np.float64).ravel()


def add(values: Floats, F: sparse.csr_array, weight: float) -> None:
    """Add w F Fᵀ to a packed m×m matrix in place."""
    m = F.shape[0]
    filled = np.bincount(F.indices, minlength=F.shape[1])
    common = np.flatnonzero(filled > COMMON * m)
    rare = np.flatnonzero((filled > 0) & (filled <= COMMON * m))
    for lo in range(0, len(common), WIDTH):
        some = F[:, common[lo : lo + WIDTH]].toarray()
        blas.add_outer(values, np.ascontiguousarray(some, dtype=values.dtype), weight)
    if len(rare):
        _add_rare(values, sparse.csr_array(F[:, rare]), weight)


def added_rows(G: sparse.csr_array, F: sparse.csr_array, weight: float) -> dict[str, Any]:
    """The same for a matrix by rows: the arrays of the sum.

    Cost and memory: a number for each pair of items that share a feature; m² if one feature is in all.
    """
    m = F.shape[0]
    filled = np.bincount(F.indices, minlength=F.shape[1]).astype(np.float64)
    pairs = int(min((filled**2).sum(), float(m) * m))
    memory.require(
        24 * (pairs + G.nnz), f"the Gram of {m:,} items, of which {pairs:,} pairs share a feature,",
        "leave out features that many items have, or fit again on the changed data",
    )  # fmt: skip
    F = F.astype(np.float64)
    total = sparse.csr_array(G.astype(np.float64) + weight * sparse.csr_array(F @ F.T))
    total.eliminate_zeros()
    total.sort_indices()
    return {
        "indptr": total.indptr.astype(np.int64),
        "indices": total.indices.astype(np.int32),
        "values": total.data,
    }


def _add_rare(values: Floats, F: sparse.csr_array, weight: float) -> None:
    """Row i of the lower triangle in two pieces, as the packed layout has it."""
    m = F.shape[0]
    h, e, _ = layout.layout(m)
    P = layout.rectangle(values, m)
    by_feature = sparse.csr_array(F.T)
    height = max(ROWS_BYTES // (8 * m), 1)
    for lo in range(0, m, height):
        block = weight * (F[lo : lo + height] @ by_feature).toarray()
        for i, row in enumerate(block, lo):
            if i < h:
                P[i, i + e :] += row[i:].astype(values.dtype)
            else:
                P[i - h + 1 - e, : i - h + 1] += row[h : i + 1].astype(values.dtype)


class FeatureProduct:
    """V → G V + w F (Fᵀ V), for solvers that know the data by products only."""

    def __init__(self, product: Product, F: sparse.csr_array, weight: float) -> None:
        self.m, self.dtype = product.m, product.dtype
        self.g = product.g + weight * squares(F)
        self._product = product
        self._F = sparse.csr_array(F * np.sqrt(weight)).astype(self.dtype)

    def __call__(self, V: Floats) -> Floats:
        out = self._product(V)
        out += self._F @ (self._F.T @ V)
        return out
