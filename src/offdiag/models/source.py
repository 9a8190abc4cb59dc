"""What a model learns from, checked: interactions or a Gram, and what every fitted model keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram, as_matrix
from offdiag.gramian.sparse import SparseGram
from offdiag.living.past import Past
from offdiag.models.fields import Auto, check_item_ids, check_not_empty
from offdiag.solvers.products import GramProduct, PairProduct, Product


@dataclass(frozen=True, eq=False)
class Source:
    """The arguments of ``Recommender._store`` that follow from the data alone."""

    item_ids: NDArray[Any]
    popularity: NDArray[np.float64]
    n_users: int
    past: Past


def read_data(X: Any) -> tuple[sparse.csr_array, Source]:
    """The matrix of Interactions, a scipy sparse matrix or an array of users×items."""
    matrix = as_matrix(X)
    n, m = matrix.shape
    check_not_empty(matrix.nnz, n, m)
    item_ids = check_item_ids(getattr(X, "item_ids", None), m)
    popularity = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
    return matrix, Source(item_ids, popularity, n, Past.of_fit(matrix, X))


def read_gram(G: Gram | SparseGram, item_ids: Any) -> Source:
    check_not_empty(G.n_interactions, G.n_users, G.n_items)
    return Source(check_item_ids(item_ids, G.n_items), G.item_sums.copy(), G.n_users, Past.of_fit(G))


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
