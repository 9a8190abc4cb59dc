"""Weights and histories in, ranked lists and reasons out: recommend, similar, explain."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, list_files, notebook, reasons, rerank, tables
from offdiag.data.frames import is_frame
from offdiag.data.ids import positions
from offdiag.data.read import read
from offdiag.errors import OffdiagError, UnknownItemsWarning
from offdiag.gramian.packed import as_matrix
from offdiag.list_files import Written
from offdiag.pair_filter import PairFilter, without_pairs
from offdiag.progress import Progress
from offdiag.recommendations import Reasons, Recommendations, named, named_lists
from offdiag.rerank import Rerank
from offdiag.weights import USERS_AT_ONCE, LowRank, Scorer, Tile, Weights
from offdiag.wording import shorten

USERS_PER_PASS = 16_384  # bounds the working memory; each pass reads the weights once
SPACES = ("score", "encoder", "decoder")  # in which ``similar`` compares items


@dataclass(frozen=True, eq=False)
class Explanation(tables.Tabular):
    """Why an item got its score: the contribution of each item in the history. They sum to ``score`` exactly.

    As a table: item, contribution and, if it was made by a model, rank_without; strongest first.
    ``rank`` and ``rank_without`` are computed when first read, from the weights the explanation was made with.
    """

    item: Any
    score: float
    items: NDArray[Any]
    contributions: NDArray[np.float64]  # strongest first
    unknown: list[Any]
    _find: Callable[[int, int], NDArray[np.int64]] | None = field(default=None, repr=False)

    @cached_property
    def rank(self) -> int | None:
        """Its rank in ``recommend`` with all unseen items as candidates, from 1; None if it is in the history."""
        return int(self._places(0, 1)[0]) or None

    @cached_property
    def rank_without(self) -> NDArray[np.int64]:
        """For each of ``items``: the rank if the history lacked that item; 0 where ``item`` is in the history."""
        return self._places(1, len(self.items) + 1)

    def _columns(self, form: str) -> Mapping[str, Any]:
        columns: dict[str, Any] = {"item": self.items, "contribution": self.contributions}
        if self._find is None:
            return columns
        return columns | {"rank_without": np.ma.masked_equal(self.rank_without, 0)}

    def _repr_html_(self) -> str:
        facts = {"score": f"{self.score:.4g}"}
        if self._find is not None:
            facts["rank"] = f"{self.rank:,}" if self.rank else "in the history"
        return notebook.card(f"Why {self.item}", facts, self.to_polars())

    def _places(self, begin: int, end: int) -> NDArray[np.int64]:
        if self._find is None:
            raise OffdiagError("this explanation was put together without a model; model.explain knows the ranks")
        return self._find(begin, end)


def top_k(
    weights: Scorer,
    X: sparse.csr_array,
    k: int,
    *,
    exclude_seen: bool = True,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Columns and scores of the k best items per row of X; -1 and -inf where none are left.

    Equal scores go to the earlier column, so the result does not depend on batches, tiles or threads.
    """
    n, m = X.shape
    allowed = np.ones(m, dtype=np.bool_) if allowed is None else allowed
    items = np.full((n, k), m, dtype=np.int64)
    scores = np.full((n, k), -np.inf, dtype=weights.dtype)
    if k == 0:
        return items, scores
    for start in range(0, n, USERS_PER_PASS):
        stop = min(start + USERS_PER_PASS, n)
        part = X if stop - start == n else X[start:stop]
        _fill_heaps(weights, part, exclude_seen, allowed, scores[start:stop], items[start:stop])
    items[items == m] = -1
    return items, scores


def _fill_heaps(
    weights: Scorer,
    X: sparse.csr_array,
    exclude_seen: bool,
    allowed: NDArray[np.bool_],
    heap_scores: NDArray[np.floating],
    heap_items: NDArray[np.int64],
) -> None:
    from offdiag._kernels import parallel, topk

    seen_ptr = X.indptr if exclude_seen else np.zeros_like(X.indptr)
    shares = parallel.ranges(X.shape[0], -(-X.shape[0] // USERS_AT_ONCE))

    def rank(score: Any, lo: int, first: int, last: int) -> None:
        topk.select_tile(score(first, last), lo, allowed, seen_ptr, X.indices, first, heap_scores, heap_items)

    if select := weights.selector(X, seen_ptr, allowed, heap_scores, heap_items):
        parallel.run_parallel(select, shares)
    else:
        for lo, hi, score in weights.score_tiles(X):
            if allowed[lo:hi].any():
                parallel.run_parallel(rank, [(score, lo, first, last) for first, last in shares])
    parallel.run_parallel(topk.sort_heaps, [(first, last, heap_scores, heap_items) for first, last in shares])


def encode(histories: Any, item_ids: NDArray[Any]) -> tuple[sparse.csr_array, list[list[Any]]]:
    """Histories of any accepted form as rows over the catalogue, and the ids that are not in it, per history."""
    m = len(item_ids)
    if hasattr(histories, "matrix") and hasattr(histories, "item_ids"):  # Interactions: match columns by id
        where = positions(histories.item_ids, item_ids)
        matrix = as_matrix(histories)
        if np.array_equal(where, np.arange(m)):
            return matrix, [[] for _ in range(matrix.shape[0])]
        user = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        column = where[matrix.indices]
        known = column >= 0
        unknown: list[list[Any]] = [[] for _ in range(matrix.shape[0])]
        for u, i in zip(user[~known].tolist(), matrix.indices[~known].tolist(), strict=True):
            unknown[u].append(histories.item_ids[i].item())
        entries: Any = (matrix.data[known], (user[known], column[known]))
        return as_matrix(sparse.coo_array(entries, shape=(matrix.shape[0], m))), unknown
    if sparse.issparse(histories) or (isinstance(histories, np.ndarray) and histories.ndim == 2):
        matrix = as_matrix(histories)
        if matrix.shape[1] != m:
            raise OffdiagError(
                f"histories given as a matrix must have the model's {m} columns, received {matrix.shape[1]}; "
                "pass Interactions or lists of item ids to match items by id"
            )
        return matrix, [[] for _ in range(matrix.shape[0])]
    lists = _as_lists(histories)
    lengths = [len(history) for history in lists]
    together = [x for history in lists for x in history]
    place = positions(together, item_ids)
    user = np.repeat(np.arange(len(lists)), lengths)
    unknown = [[] for _ in lists]
    for at in np.flatnonzero(place < 0):
        unknown[user[at]].append(together[at])
    pairs = np.unique(user[place >= 0] * m + place[place >= 0])  # an id given twice is one interaction
    indptr = np.searchsorted(pairs, np.arange(len(lists) + 1) * m)
    ones = np.ones(len(pairs), dtype=np.float32)
    return sparse.csr_array((ones, (pairs % m).astype(np.int32), indptr), shape=(len(lists), m)), unknown


def _as_lists(histories: Any) -> list[list[Any]]:
    """A sequence of sequences of ids; a flat sequence of ids is one history."""
    if isinstance(histories, str) or not isinstance(histories, Sequence | np.ndarray | set | frozenset):
        raise OffdiagError(
            f"expected histories as a matrix, Interactions or lists of item ids, received {type(histories).__name__}; "
            "one history is a list such as ['a', 'b']"
        )
    outer = list(histories)
    nested = [isinstance(x, Sequence | np.ndarray | set | frozenset) and not isinstance(x, str) for x in outer]
    if not outer or all(nested):
        return [_id_list(x) for x in outer]
    if any(nested):
        raise OffdiagError("histories mix lists and single ids; pass one list of ids per user")
    return [_id_list(histories)]


def _id_list(ids: Any) -> list[Any]:
    """Ids as a list of plain values, without masked places."""
    if isinstance(ids, np.ma.MaskedArray):
        ids = ids.compressed()
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def allowed_mask(
    allow: Any, block: Any, item_ids: NDArray[Any], *, strict: bool = False
) -> tuple[NDArray[np.bool_] | None, list[Any]]:
    """Which columns may be recommended, and the ids of the two lists that are not in the catalogue.

    Unknown ids are ignored: a stock list may be newer than the model. An ``allow`` of unknown ids allows nothing.
    """
    if allow is None and block is None:
        return None, []
    mask = np.ones(len(item_ids), dtype=np.bool_) if allow is None else np.zeros(len(item_ids), dtype=np.bool_)
    unknown: list[Any] = []
    for name, ids, value in (("allow", allow, True), ("block", block, False)):
        if ids is None:
            continue
        wanted = _filter_ids(ids, name)
        where = positions(wanted, item_ids)
        missing = [x for x, place in zip(wanted, where, strict=True) if place < 0]
        if missing and strict:
            raise OffdiagError(
                f"{name} holds ids that are not in the catalogue: {shorten(distinct(missing))}; "
                "remove them, or leave out strict to ignore them"
            )
        unknown += missing
        mask[where[where >= 0]] = value
    return mask, distinct(unknown)


def _filter_ids(ids: Any, name: str) -> list[Any]:
    """One list of ids; per-user lists and single ids are rejected, since guessing would let a blocked item through."""
    if isinstance(ids, str) or not isinstance(ids, Sequence | np.ndarray | set | frozenset):
        raise OffdiagError(f"{name} takes a list of item ids, received {type(ids).__name__}; write {name}=[...]")
    wanted = _id_list(ids)
    if any(isinstance(x, list | tuple | set | frozenset | np.ndarray) for x in wanted):
        raise OffdiagError(f"{name} takes one list of item ids for all histories, received a list of lists")
    return wanted


def distinct(ids: Iterable[Any]) -> list[Any]:
    """Each id once, in order of first appearance; compared by ``repr``, since 1 == True == 1.0."""
    return list({repr(x): x for x in ids}.values())


def report_unknown(unknown: list[list[Any]], *, strict: bool = False, stacklevel: int = 4) -> None:
    """Warn about ids of histories that are not in the catalogue; with ``strict``, raise an error."""
    missing = sorted(distinct(x for ids in unknown for x in ids), key=str)
    if missing and strict:
        raise OffdiagError(
            f"the histories hold ids that are not in the catalogue: {shorten(missing)}; "
            "remove them, or leave out strict to ignore them"
        )
    if missing:
        _warn(f"{len(missing)} ids are not in the catalogue and were left out: {shorten(missing)}", stacklevel)


def _warn(text: str, stacklevel: int) -> None:
    warnings.warn(text, UnknownItemsWarning, stacklevel=stacklevel + 1)


@dataclass(frozen=True, eq=False)
class Question:
    """What every list of one call has in common; checked once, asked for any number of batches of histories."""

    weights: Weights
    item_ids: NDArray[Any]
    popularity: NDArray[np.float64]
    k: int
    exclude_seen: bool = True
    allowed: NDArray[np.bool_] | None = None
    blocked: PairFilter | None = None
    unknown_in_filters: list[Any] = field(default_factory=list)
    with_reasons: bool = False
    reranked: Rerank | None = None

    def lists(self, histories: Any, first: int = 0) -> Recommendations:
        """The lists of some histories, the first of which is at position ``first``; nothing is warned about."""
        X, unknown = encode(histories, self.item_ids)
        user_ids = getattr(histories, "user_ids", None)
        if user_ids is None and first:
            user_ids = np.arange(first, first + X.shape[0])
        users = np.arange(X.shape[0]) if user_ids is None else user_ids
        rows = None if self.blocked is None else self.blocked.rows(users)
        if self.reranked is None:
            indices, scores = self.rank(X, self.k, rows)
        else:
            indices, scores = self.reranked.choose(self.rank, X, rows, self.k, self.weights.dtype)
        found = None
        if self.with_reasons:
            columns, shares = reasons.strongest(self.weights, X, indices)
            found = Reasons(named(columns, self.item_ids), np.ma.masked_invalid(shares))
        popular = np.diff(X.indptr) == 0
        return named_lists(
            indices, scores, self.item_ids, unknown, self.unknown_in_filters,
            user_ids=user_ids, reasons=found, popular=popular,
        )  # fmt: skip

    def batches(
        self, histories: Any, *, titles: Mapping[Any, str] | None = None, strict: bool = False, first: int = 0
    ) -> Iterator[Recommendations]:
        """The lists of any number of histories, some at a time, so that memory does not grow with their number.

        ``first`` is the position of the first history, where users have no ids.
        """
        n = list_files.batch_size(self.k, USERS_PER_PASS)
        histories = _one_per_row(histories)
        for some in list_files.slices(histories, n):
            lists = self.lists(some, first)
            first += len(lists)
            if strict:
                report_unknown(lists.unknown_in_histories, strict=True)
            yield lists if titles is None else lists.with_titles(titles)

    def rank(
        self, X: sparse.csr_array, k: int, blocked: sparse.csr_array | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Columns and scores of the k best items per row; an empty row gets the popular items, by their share."""
        if blocked is not None:
            return without_pairs(self.rank, X, k, blocked, self.weights.dtype)
        indices, scores = top_k(self.weights, X, k, exclude_seen=self.exclude_seen, allowed=self.allowed)
        empty = np.diff(X.indptr) == 0
        if empty.any():
            shares = reasons.shares_of(self.popularity)
            candidates = np.arange(len(self.item_ids)) if self.allowed is None else np.flatnonzero(self.allowed)
            best = candidates[np.argsort(-shares[candidates], kind="stable")][:k]
            indices[empty], scores[empty] = -1, -np.inf
            indices[empty, : len(best)] = best
            scores[empty, : len(best)] = shares[best]
        return indices, scores


def ask(
    weights: Weights,
    item_ids: NDArray[Any],
    popularity: NDArray[np.float64],
    k: int,
    *,
    exclude_seen: bool = True,
    allow: Any = None,
    block: Any = None,
    strict: bool = False,
    with_reasons: bool = False,
    reranked: Rerank | None = None,
) -> Question:
    """A question with its filters checked; ``block`` is a list of item ids, or a table of users and items."""
    k = min(checks.whole("k", k, 1), len(item_ids))
    if checks.flag("reasons", with_reasons) and not weights.linear:
        raise OffdiagError(
            "reasons need a linear model: in a net, what one item adds depends on the others; leave them out"
        )
    pairs = _pair_filter(block, item_ids)
    mask, ignored = allowed_mask(allow, None if pairs else block, item_ids, strict=strict)
    if pairs and pairs.unknown_items:
        if strict:
            raise OffdiagError(
                f"block holds ids that are not in the catalogue: {shorten(pairs.unknown_items)}; "
                "remove them, or leave out strict to ignore them"
            )
        ignored = distinct([*ignored, *pairs.unknown_items])
    return Question(weights, item_ids, popularity, k, exclude_seen, mask, pairs, ignored, with_reasons, reranked)


def _pair_filter(block: Any, item_ids: NDArray[Any]) -> PairFilter | None:
    """A table of users and items as a filter; None for anything else."""
    if is_frame(block):
        block = read(block)
    if not hasattr(block, "matrix"):
        return None
    matrix, unknown = encode(block, item_ids)
    return PairFilter(block.user_ids, matrix, distinct(item for items in unknown for item in items))


def reranking(
    weights: Weights,
    item_ids: NDArray[Any],
    *,
    diversity: float = 0.0,
    at_most: int | None = None,
    categories: Mapping[Any, Any] | None = None,
    by: str = "weights",
) -> Rerank:
    """A reranking of this model's lists; similarities are its own weights or shared categories."""
    diversity, at_most = rerank.check(diversity, at_most, categories, by)
    codes = None if categories is None else rerank.category_codes(categories, item_ids)
    similarity = None
    if diversity and by == "categories" and codes is not None:
        similarity = rerank.from_categories(codes)
    elif diversity:
        if not weights.linear:
            raise OffdiagError(
                "diversity by weights needs a linear model, whose weights say which items are similar; "
                "give categories and by='categories'"
            )
        m = len(item_ids)
        one_each = sparse.eye_array(m, format="csr", dtype=np.float32)
        similarity = rerank.from_neighbours(*top_k(weights, one_each, min(rerank.NEIGHBOURS, m - 1)))
    return Rerank(diversity, similarity, codes, at_most)


def choose_histories(histories: Any, users: Any, data: Any) -> Any:
    """The histories themselves, or those of some users of the data."""
    if users is None and data is None:
        if histories is None:
            raise OffdiagError("expected histories, or users=[…] with data=Interactions, received neither; give one")
        return histories
    if histories is not None or data is None or not hasattr(data, "select_users"):
        raise OffdiagError(
            "expected users=[…] together with data=Interactions and no histories; od.read makes Interactions of a table"
        )
    return data if users is None else data.select_users(ids=users)


def _one_per_row(histories: Any) -> Any:
    """Histories that can be cut into parts: a matrix or Interactions as they are, anything else as lists of ids."""
    if hasattr(histories, "matrix"):
        return histories
    if sparse.issparse(histories) or (isinstance(histories, np.ndarray) and histories.ndim == 2):
        return as_matrix(histories)
    return _as_lists(histories)


def write(
    question: Question,
    histories: Any,
    path: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    titles: Mapping[Any, str] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Recommend for any number of histories and write the lists as they are made."""
    batches = question.batches(histories, titles=titles, strict=strict)
    n_lists = list_files.len_of(_one_per_row(histories))
    done = list_files.write(batches, path, rows_per_file=rows_per_file, progress=progress, n_lists=n_lists)
    report_unknown([list(done.unknown)])
    report_filters(question)
    return done


def recommend(question: Question, histories: Any, *, strict: bool = False) -> Recommendations:
    """The k best items for each history; an empty history gets the most popular items, scored by their share."""
    lists = question.lists(histories)
    report_unknown(lists.unknown_in_histories, strict=strict)
    report_filters(question)
    return lists


def report_filters(question: Question, *, stacklevel: int = 4) -> None:
    """Warn about ids of allow and block that are not known."""
    if ignored := question.unknown_in_filters:
        _warn(f"{len(ignored)} ids of allow and block are not in the catalogue: {shorten(ignored)}", stacklevel)
    if question.blocked is not None and (strangers := question.blocked.unknown_users()):
        _warn(f"{len(strangers)} users of block have no history here: {shorten(strangers)}", stacklevel)


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
    wanted = _id_list(items) if isinstance(items, list | tuple | set | frozenset | np.ndarray) else [items]
    where = positions(wanted, item_ids)
    if (where < 0).any():
        missing = [x for x, place in zip(wanted, where, strict=True) if place < 0]
        raise OffdiagError(f"the catalogue has no item {shorten(missing)}; ids are compared exactly, with their type")
    mask, ignored = allowed_mask(allow, block, item_ids, strict=strict)
    if ignored:
        _warn(f"{len(ignored)} ids of allow and block are not in the catalogue: {shorten(ignored)}", stacklevel=3)
    asked = weights if space == "score" else _Cosine(_embedding(weights, space))
    one = sparse.csr_array(
        (np.ones(len(where), np.float32), where.astype(np.int32), np.arange(len(where) + 1)),
        shape=(len(where), len(item_ids)),
    )
    indices, scores = top_k(asked, one, k, allowed=mask)
    return named_lists(
        indices, scores, item_ids, [[] for _ in wanted], ignored, user_ids=item_ids[where], names=("item", "similar")
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


def explain(
    weights: Weights,
    item_ids: NDArray[Any],
    history: Any,
    item: Any,
    popularity: NDArray[np.float64] | None = None,
) -> Explanation:
    """What each item of one history contributes to the score of ``item``; its ranks also need the popularity."""
    nothing = isinstance(history, Sequence) and len(history) == 0  # one empty history
    X, unknown = encode([[]] if nothing else history, item_ids)
    if X.shape[0] != 1:
        raise OffdiagError(f"explain takes one history, received {X.shape[0]}; call it once per user")
    target = int(positions([item], item_ids)[0])
    if target < 0:
        raise OffdiagError(f"the catalogue has no item {item!r}; ids are compared exactly, with their type")
    parts = X.data.astype(np.float64) * weights.column(X.indices.astype(np.int64), target)
    if parts.size and parts.any():
        # On a common grid 2^-40 below the largest, sums are exact in any order, and the grid is finer than float32.
        grid = 2.0 ** (np.ceil(np.log2(np.abs(parts).max())) - 40)
        parts = np.round(parts / grid) * grid
    order = np.argsort(-np.abs(parts), kind="stable")

    def find(begin: int, end: int) -> NDArray[np.int64]:
        assert popularity is not None
        found = reasons.places(weights, popularity, X, target, begin, end)
        return found[order] if begin else found

    return Explanation(
        item_ids[target].item(),
        float(parts.sum()),
        item_ids[X.indices][order],
        parts[order],
        unknown[0],
        None if popularity is None else find,
    )
