"""What is asked of a model: how long the lists are, what they may hold; and the lists for any histories."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, list_files, reasons
from offdiag.data.catalogue import Catalogue
from offdiag.errors import OffdiagError
from offdiag.list_files import Written
from offdiag.pair_filter import PairFilter, without_pairs
from offdiag.progress import Progress
from offdiag.ranking import filters, new_places
from offdiag.ranking.dislikes import encode_dislikes, signed_rows
from offdiag.ranking.histories import encode, one_per_row
from offdiag.ranking.recency import Recency
from offdiag.ranking.unknown_ids import distinct, refuse, report_unknown
from offdiag.recommendations import Reasons, Recommendations, named, named_lists
from offdiag.rerank import Rerank
from offdiag.weights import Weights, heaps


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
    recency: Recency | None = None
    new_places: int = 0  # of each list, for items that nobody has chosen yet

    def lists(self, histories: Any, first: int = 0, disliked: Any = None) -> Recommendations:
        """The lists of some histories, the first of which is at position ``first``; nothing is warned about.

        ``disliked`` holds a list of ids for each history: they are in no list, and count where the model learned how.
        """
        X, unknown = encode(histories, self.item_ids, self.recency)
        found_dislikes = encode_dislikes(histories, disliked, self.item_ids, X.shape[0])
        user_ids = getattr(histories, "user_ids", None)
        if user_ids is None and first:
            user_ids = np.arange(first, first + X.shape[0])
        users = np.arange(X.shape[0]) if user_ids is None else user_ids
        rows, liked = None if self.blocked is None else self.blocked.rows(users), X
        if found_dislikes is not None:
            refused, strange = found_dislikes
            unknown = [(*one, *other) for one, other in zip(unknown, strange, strict=True)]
            rows = refused if rows is None else sparse.csr_array(rows + refused)
            X = signed_rows(X, refused) if self.weights.takes_dislikes else X
        if self.reranked is None:
            indices, scores = self.rank(X, self.k, rows)
        else:
            indices, scores = self.reranked.choose(self.rank, X, rows, self.k, self.weights.dtype)
        if self.new_places:
            self._give_places(X, rows, indices, scores)
        found = None
        if self.with_reasons:
            columns, shares = reasons.strongest(self.weights, liked, indices)
            found = Reasons(named(columns, self.item_ids), np.ma.masked_invalid(shares))
        popular = np.diff(X.indptr) == 0
        return named_lists(
            indices, scores, self.item_ids, unknown, self.unknown_in_filters,
            user_ids=user_ids, reasons=found, popular=popular,
        )  # fmt: skip

    def _give_places(
        self,
        X: sparse.csr_array,
        blocked: sparse.csr_array | None,
        indices: NDArray[np.int64],
        scores: NDArray[np.floating],
    ) -> None:
        """New items at the end of lists with too few, in place; an empty history still gets what is popular."""
        first = self.weights.learned.shape[0]
        new = np.arange(len(self.item_ids)) >= first
        few = new_places.lacking(indices, first, self.new_places)
        few = few[np.diff(X.indptr)[few] > 0]
        if not len(few) or not new.any():
            return
        only = replace(self, allowed=new if self.allowed is None else new & self.allowed)
        best = only.rank(X[few], self.new_places, None if blocked is None else blocked[few])
        indices[few], scores[few] = new_places.give((indices[few], scores[few]), best, first)

    def batches(
        self,
        histories: Any,
        *,
        catalogue: Catalogue | None = None,
        columns: Sequence[str] = ("title",),
        strict: bool = False,
        first: int = 0,
        disliked: Sequence[Any] | None = None,
    ) -> Iterator[Recommendations]:
        """The lists of any number of histories, some at a time, so that memory does not grow with their number.

        ``first`` is the position of the first history, where users have no ids.
        """
        n, done = list_files.batch_size(self.k, heaps.USERS_PER_PASS), 0
        for some in list_files.slices(one_per_row(histories, ordered=self.recency is not None), n):
            lists = self.lists(some, first, None if disliked is None else disliked[done : done + n])
            first, done = first + len(lists), done + n
            if strict:
                report_unknown(lists.unknown_in_histories, strict=True)
            yield lists.with_catalogue(catalogue, columns)

    def rank(
        self, X: sparse.csr_array, k: int, blocked: sparse.csr_array | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Columns and scores of the k best items per row; an empty row gets the popular items, by their share."""
        if blocked is not None:
            return without_pairs(self.rank, X, k, blocked, self.weights.dtype)
        indices, scores = heaps.top_k(self.weights, X, k, exclude_seen=self.exclude_seen, allowed=self.allowed)
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
    recency: Recency | None = None,
    new_places: int = 0,
) -> Question:
    """A question with its filters checked; ``block`` is a list of item ids, or a table of users and items."""
    k = checks.whole("k", k, 1)
    if checks.whole("new_places", new_places, 0, k) and reranked is not None and reranked.at_most is not None:
        raise OffdiagError("new_places and a quota (one_per_group, at_most) exclude each other; leave one of them out")
    k, new_places = min(k, len(item_ids)), min(new_places, len(item_ids))
    if checks.flag("reasons", with_reasons) and not weights.additive:
        raise OffdiagError(
            "reasons need a linear model: in a net, what one item adds depends on the others; leave them out"
        )
    pairs = filters.pair_filter(block, item_ids)
    mask, ignored = filters.allowed_mask(allow, None if pairs else block, item_ids, strict=strict)
    if pairs and pairs.unknown_items:
        if strict:
            refuse("block holds", pairs.unknown_items)
        ignored = distinct([*ignored, *pairs.unknown_items])
    return Question(
        weights, item_ids, popularity, k, exclude_seen, mask, pairs, ignored, with_reasons, reranked, recency,
        new_places,
    )  # fmt: skip


def write(
    question: Question,
    histories: Any,
    path: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    catalogue: Catalogue | None = None,
    columns: Sequence[str] = ("title",),
    strict: bool = False,
    disliked: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> Written:
    """Recommend for any number of histories and write the lists as they are made."""
    if lacking := [name for name in columns if name != "title" and not (catalogue and name in catalogue.columns)]:
        has = ", ".join(catalogue.columns) if catalogue else "no catalogue"
        raise OffdiagError(f"expected columns of the catalogue, received {lacking[0]!r}; the model has {has}")
    batches = question.batches(histories, catalogue=catalogue, columns=columns, strict=strict, disliked=disliked)
    n_lists = list_files.len_of(one_per_row(histories))
    done = list_files.write(batches, path, rows_per_file=rows_per_file, progress=progress, n_lists=n_lists)
    report_unknown([list(done.unknown)])
    filters.report_filters(question.unknown_in_filters, question.blocked)
    return done


def recommend(question: Question, histories: Any, *, strict: bool = False, disliked: Any = None) -> Recommendations:
    """The k best items for each history; an empty history gets the most popular items, scored by their share."""
    lists = question.lists(histories, disliked=disliked)
    report_unknown(lists.unknown_in_histories, strict=strict)
    filters.report_filters(question.unknown_in_filters, question.blocked)
    return lists
