"""Likes and dislikes in one full-rank fit: inputs [X⁺, w·X⁻], targets X⁺.

Item i is predicted from all likes and dislikes but its own: the like and the dislike of one item are a group of inputs,
so ``offdiag.solvers.grouped`` solves it on the Gram of all inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import gram
from offdiag.models.fields import number
from offdiag.models.grouping import Grouping
from offdiag.progress import Progress
from offdiag.solvers import grouped
from offdiag.solvers.products import item_l2
from offdiag.weights import Grouped, Signed

if TYPE_CHECKING:
    from offdiag.models.full_rank import FullRankModel


def dislikes_of(model: FullRankModel, X: Any) -> sparse.csr_array | None:
    """The dislikes that this model learns from; None if its ``dislike_weight`` is 0."""
    if not getattr(model, "dislike_weight", 0.0):
        return None
    if getattr(model, "kept_weight", 0.0):
        raise OffdiagError("dislike_weight needs kept_weight=0: an item is then never predicted from itself; set it")
    found: sparse.csr_array | None = getattr(X, "dislikes", None)
    if found is None or not found.nnz:
        raise OffdiagError(
            f"dislike_weight={getattr(model, 'dislike_weight', 0.0):g} expects data with dislikes, received none; read "
            "them with od.read(…, value=…, dislike_below=…), or set dislike_weight=0"
        )
    return found


def solve(
    used: FullRankModel,
    X: sparse.csr_array,
    dislikes: sparse.csr_array,
    kinds: Grouping | None,
    rarity: NDArray[np.float64],
    progress: Progress | None,
) -> tuple[Signed, float | None, float]:
    """The weights, each column times its ``rarity``, the penalty if it is one number, and the objective."""
    m, strength = X.shape[1], float(getattr(used, "dislike_weight", 0.0))
    disliked = np.unique(dislikes.indices).astype(np.int64)
    inputs = sparse.hstack([X, strength * sparse.csr_array(dislikes[:, disliked])], format="csr")
    G = gram(inputs, number(used.user_power), dtype=used.dtype, progress=progress)
    own = np.arange(m) if kinds is None else kinds.numbers
    group = np.concatenate([own, own[disliked]])
    l2 = item_l2(number(used.l2) / G.scale, G.own_diagonal(), used.item_power)
    dropout = number(getattr(used, "dropout", 0.0))
    found = grouped.solve(G.values, G.n_items, group, dropout=dropout, l2=l2, targets=m, progress=progress)
    W, rows = Grouped(found.C, np.ones(G.n_items, dtype=found.C.dtype), group, found.blocks), np.arange(G.n_items)
    B = np.empty((G.n_items, m), dtype=found.C.dtype)
    shares = parallel.ranges(len(rows), 4 * parallel.n_threads())
    parallel.run_parallel(W.tile, [(rows, rows, 0, m, B, first, last) for first, last in shares])
    B[m:] *= strength
    B *= rarity.astype(B.dtype)
    return Signed(B, disliked), l2 if isinstance(l2, float) else None, found.objective * G.scale
