"""Compression of a fitted linear model: its strongest weights, each in few bits. See docs/compression.md."""

from __future__ import annotations

import copy
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from offdiag import checks, memory
from offdiag.errors import OffdiagError
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress, reporter
from offdiag.solvers import pruning
from offdiag.weights import Compressed, Weights
from offdiag.weights.compressed import STORAGES

SHARE = 10  # by default, the weights become this many times smaller

Storage = Literal["float32", "float16", "int8"]
Model = TypeVar("Model", bound=Recommender)


def compress(
    model: Model,
    *,
    keep: int | None = None,
    storage: Storage = "int8",
    max_bytes: int | None = None,
    progress: Progress | bool | None = None,
) -> Model:
    """A new fitted model of the same class with only the strongest weights; ``model`` is not changed.

    ``keep``: at most this many in each column, that is for each item to be recommended. ``max_bytes``: as many as fit
    into this many bytes (``weights_.nbytes``), by one threshold for all columns, but at least one in each. Without
    either, a tenth of the bytes. Strength is |W_ji|·popularity_j^¼. ``compressed_`` describes what was done.

    Memory: two blocks of columns of 96 MB and the result; no further items × items matrix is ever held.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.EASE().fit(X)
        >>> od.compress(model, keep=10).weights_.nbytes < model.weights_.nbytes
        True
    """
    progress = reporter(progress)
    weights = _linear(model)
    checks.choice("storage", storage, STORAGES)
    for name, value in (("keep", keep), ("max_bytes", max_bytes)):
        if value is not None:
            checks.whole(name, value, 1, other=" or None")
    keep = None if keep is None else int(keep)
    max_bytes = None if max_bytes is None else int(max_bytes)
    small: Weights
    if weights.blended():
        small, entries = _parts(weights, model.popularity_, keep, storage, max_bytes, progress)
    else:
        small, entries = _strongest(weights, model.popularity_, keep, storage, max_bytes, progress)
    found = copy.copy(model)
    found.weights_ = small
    found.compressed_ = {
        "storage": storage,
        "keep": keep,
        "max_bytes": max_bytes,
        "entries": entries,
        "bytes": found.weights_.nbytes,
        "bytes_before": weights.nbytes,
        "weights_before": weights.kind,
    }
    return found


def _strongest(
    weights: Weights,
    popularity: NDArray[np.float64],
    keep: int | None,
    storage: Storage,
    max_bytes: int | None,
    progress: Progress | None,
) -> tuple[Compressed, int]:
    """The strongest weights in few bits, and how many they are."""
    m = weights.shape[0]
    budget = max_bytes if keep is not None else weights.nbytes // SHARE if max_bytes is None else max_bytes
    _require(weights, storage, keep, budget)
    columns = pruning.Columns(weights, progress)
    choice = pruning.within_columns(columns, popularity, m if keep is None else min(keep, m))
    if budget is None:
        form = pruning.form_of(columns, choice, storage)
    else:
        form = pruning.fit_into(columns, choice, storage, int(budget))
    if max_bytes is not None and form.nbytes > max_bytes:
        raise OffdiagError(
            f"expected max_bytes with room for one weight per item, {form.nbytes} bytes as {storage}, "
            f"received {max_bytes}; allow at least that"
        )
    return pruning.store(columns, choice, form), form.entries


def _parts(
    blend: Weights,
    popularity: NDArray[np.float64],
    keep: int | None,
    storage: Storage,
    max_bytes: int | None,
    progress: Progress | None,
) -> tuple[Weights, int]:
    """Each part by itself, ``max_bytes`` in proportion to their sizes; embeddings are small and stay as they are."""
    large = [part.embedding("encoder") is None and not part.compound and part.linear for part in blend.blended()]
    if not any(large):
        raise OffdiagError("expected a blend with a part to compress, received only embeddings and compound weights")
    before = sum(part.nbytes for part, is_large in zip(blend.blended(), large, strict=True) if is_large)
    left = None if max_bytes is None else max(max_bytes - (blend.nbytes - before), 1)
    parts, entries = list(blend.blended()), 0
    for p in np.flatnonzero(large):
        room = None if left is None else max(left * parts[p].nbytes // before, 1)
        parts[p], found = _strongest(blend.blended()[p], popularity, keep, storage, room, progress)
        entries += found
    return blend.with_parts(parts), entries


def _linear(model: object) -> Weights:
    if not isinstance(model, Recommender):
        raise OffdiagError(f"expected a fitted model, received {type(model).__name__}; load one with od.load(path)")
    weights = model._require_fit().weights_
    if not weights.blended() and (not weights.linear or weights.compound):
        raise OffdiagError(
            f"expected a linear model without a smooth part, whose scores are X @ W, received {type(model).__name__} "
            f"with {weights.kind} weights; it cannot be compressed"
        )
    return weights


def _require(weights: Weights, storage: str, keep: int | None, budget: int | None) -> None:
    """Check the memory for the columns read at a time and for the result."""
    m = weights.shape[0]
    entries, work = pruning.Columns.needs(weights)
    most = min(entries, m * min(m if keep is None else keep, m)) * (2 + np.dtype(storage).itemsize)
    room = most if budget is None else min(most, int(budget))
    if storage == "float16":
        room *= 3  # it passes through single precision
    instead = "keep fewer weights by a smaller keep or max_bytes"
    memory.require(work + room + 96 * m, f"compressing {m:,} items", instead)
