"""A model as plain NumPy arrays, which twenty lines of NumPy can score (docs/export.md)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.files import atomic

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender
    from offdiag.weights import Weights


def write_arrays(model: Recommender, path: str | os.PathLike[str]) -> list[str]:
    """Write a linear model to an ``.npz`` file and return the names of its arrays.

    ``item_ids`` and ``popularity`` are always there. Scores of histories x (users × items) are ``x @ U @ V.T`` if the
    file holds ``U`` and ``V``, ``x @ W`` if it holds ``W``, and ``x`` times the sparse matrix with ``data``,
    ``indices`` and ``indptr`` (CSR, items × items) otherwise. An empty history gets the popular items.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.export.write_arrays(od.EASE(l2=10.0).fit(X), "ease.npz")
        ['item_ids', 'popularity', 'W']
    """
    weights = linear_weights(model)
    found: dict[str, NDArray[Any]] = {"item_ids": np.asarray(model.item_ids_), "popularity": model.popularity_}
    found |= matrices(weights)
    with atomic.replacing(Path(os.path.realpath(path))) as file:
        np.savez(file, **found)  # type: ignore[arg-type]  # the stubs want a str or a path
    return list(found)


def linear_weights(model: Recommender) -> Weights:
    """The weights of a fitted linear model; others have no matrix that another program could multiply by."""
    weights = getattr(model, "weights_", None)
    name = type(model).__name__
    if weights is None:
        raise OffdiagError(f"expected a fitted model, received {name} without weights; call fit(X) first")
    if not weights.linear:
        raise OffdiagError(f"expected a linear model, received {name}, whose scores are no product with a matrix")
    linear: Weights = weights
    return linear


def matrices(weights: Weights) -> dict[str, NDArray[Any]]:
    """The matrices of the weights in the form that takes least memory: U and V, a sparse W, or a dense one."""
    U, V = weights.embedding("encoder"), weights.embedding("decoder")
    if U is not None and V is not None:
        return {"U": U, "V": V}
    if weights.nnz is not None:
        W = weights.tocsr()
        return {"data": W.data, "indices": W.indices, "indptr": W.indptr}
    m = weights.shape[0]
    memory.require(m * m * weights.dtype.itemsize, f"a dense matrix of {m:,} items", "compress the model first")
    return {"W": weights.toarray()}
