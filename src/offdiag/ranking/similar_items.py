"""Items similar to an item: by the scores that it leads to, or by the cosine of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.data.ids import positions
from offdiag.errors import OffdiagError
from offdiag.ranking.filters import allowed_mask, report_filters
from offdiag.ranking.histories import id_list
from offdiag.recommendations import Recommendations, named_lists
from offdiag.weights import LowRank, Scorer, Tile, Weights
from offdiag.weights.heaps import top_k
from offdiag.wording import shorten

SPACES = ("score", "encoder", "decoder")  # in which ``similar`` compares items


def similar(
    weights: Weights,
    item_ids: NDArray[Any],
    items: Any,
    k: int,
    *,
    space: str = "score",
    allow: Any = None,
    block: Any = None,
    strict: bool = False,
) -> Recommendations:
    """For each item, the k most similar other items.

    "score": what ``recommend`` gives for a history of only that item, the largest entries of its row of W.
    "encoder", "decoder": the largest cosines with its row of U or V; an item that was not learned has cosine 0.
    """
    if not isinstance(space, str) or space not in SPACES:
        raise OffdiagError(f"space must be one of {', '.join(map(repr, SPACES))}, received {space!r}")
    k = min(checks.whole("k", k, 1), max(len(item_ids) - 1, 0))
    wanted = id_list(items) if isinstance(items, list | tuple | set | frozenset | np.ndarray) else [items]
    where = positions(wanted, item_ids)
    if (where < 0).any():
        missing = [x for x, place in zip(wanted, where, strict=True) if place < 0]
        raise OffdiagError(f"the model has no item {shorten(missing)}; ids are compared exactly, with their type")
    mask, ignored = allowed_mask(allow, block, item_ids, strict=strict)
    report_filters(ignored)
    asked = weights if space == "score" else _Cosine(_embedding(weights, space))
    one = sparse.csr_array(
        (np.ones(len(where), np.float32), where.astype(np.int32), np.arange(len(where) + 1)),
        shape=(len(where), len(item_ids)),
    )
    indices, scores = top_k(asked, one, k, allowed=mask)
    return named_lists(
        indices, scores, item_ids, [()] * len(wanted), ignored, user_ids=item_ids[where], names=("item", "similar")
    )


def _embedding(weights: Weights, space: str) -> NDArray[np.floating]:
    embedding = weights.embedding("encoder" if space == "encoder" else "decoder")
    if embedding is None:
        raise OffdiagError(
            f"space={space!r} compares item embeddings, which LowRankDLAE, LowRankEDLAE, ZeroDiagonalLAE, "
            f"WeightDecayLAE and Spectral have; received a model with {weights.kind} weights, use space='score'"
        )
    return embedding


class _Cosine(Scorer):
    """The cosines of some rows of E with all rows, as ``top_k`` reads scores: E is neither copied nor normalised."""

    def __init__(self, E: NDArray[np.floating]) -> None:
        self._products = LowRank(E, E)
        norms = np.sqrt(np.einsum("ij,ij->i", E, E, dtype=np.float64))
        known = norms > np.finfo(E.dtype).tiny  # one over anything smaller is infinite
        self._scale = np.divide(1, norms, out=np.zeros_like(norms), where=known).astype(E.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._products.dtype

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        """Each row of X selects one row of E."""
        rows = sparse.csr_array((self._scale[X.indices], X.indices, X.indptr), shape=X.shape)
        for lo, hi, score in self._products.score_tiles(rows):
            scale = self._scale[lo:hi]

            def cosine(first: int, last: int, score: Any = score, scale: Any = scale) -> NDArray[np.floating]:
                return score(first, last) * scale  # type: ignore[no-any-return]

            yield lo, hi, cosine
