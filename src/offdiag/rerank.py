"""Lists reordered for variety: maximal marginal relevance, and at most some items of each category."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.errors import OffdiagError

Lists = tuple[NDArray[np.int64], NDArray[np.floating]]  # columns, -1 after the end, and their scores
Rank = Callable[[sparse.csr_array, int, sparse.csr_array | None], Lists]  # rows, k, blocked pairs → the k best

POOL = 5  # candidates per place of the list
LEAST_POOL = 100
NEIGHBOURS = 100  # of each item, whose similarity is not zero
SIMILARITIES = ("weights", "categories")
USERS_AT_ONCE = 256  # per task of a thread


@dataclass(frozen=True, eq=False)
class Rerank:
    """How lists are reordered; columns are those of the catalogue."""

    diversity: float = 0.0  # 0: by score alone; 1: by dissimilarity alone
    similarity: sparse.csr_array | None = None  # items × items, symmetric, 0 to 1; needed for diversity > 0
    category: NDArray[np.int64] | None = None  # of each column, -1 for none
    at_most: int | None = None  # items of one category in a list

    def choose(
        self, rank: Rank, X: sparse.csr_array, blocked: sparse.csr_array | None, k: int, dtype: np.dtype[Any]
    ) -> Lists:
        """The list of each row, chosen one item at a time from its best ones [Carbonell98].

        The candidates are the best 5·k, at least 100. Where a quota leaves places open although more items are left,
        more candidates are taken, up to all. ``dtype`` is that of the scores.
        """
        n, m = X.shape
        items, scores = np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf, dtype=dtype)
        open_rows, pool = np.arange(n), min(m, max(POOL * k, LEAST_POOL))
        while len(open_rows):
            rows = X[open_rows]
            columns, values = rank(rows, pool, None if blocked is None else blocked[open_rows])
            places = self._places(columns, values, k)
            found = places >= 0
            at = np.maximum(places, 0)
            items[open_rows] = np.where(found, np.take_along_axis(columns, at, axis=1), -1)
            scores[open_rows] = np.where(found, np.take_along_axis(values, at, axis=1), -np.inf)
            if pool == m:
                break
            open_rows = open_rows[~found[:, -1] & (columns[:, -1] >= 0)]
            pool = min(m, 4 * pool)
        return items, scores

    def _places(self, columns: NDArray[np.int64], scores: NDArray[np.floating], k: int) -> NDArray[np.int64]:
        """Which of the candidates of each row are chosen, in order."""
        from offdiag._kernels import greedy, parallel

        n, m = len(columns), int(columns.max(initial=-1)) + 1
        near = sparse.csr_array((m, m)) if self.similarity is None else self.similarity
        category = np.full(m, -1, dtype=np.int64) if self.category is None else self.category
        places = np.full((n, k), -1, dtype=np.int64)
        words = (
            np.ascontiguousarray(columns), relevance(columns, scores), float(self.diversity),
            near.indptr.astype(np.int64), near.indices.astype(np.int64), near.data.astype(np.float64),
            category, self.at_most or 0, places,
        )  # fmt: skip
        shares = parallel.ranges(n, -(-n // USERS_AT_ONCE))
        parallel.run_parallel(greedy.choose, [(first, last, *words) for first, last in shares])
        return places


def with_one_per_group(given: Rerank | None, group: NDArray[np.int64]) -> Rerank:
    """The same with at most one item of each group; it has no other quota."""
    if given is None:
        return Rerank(category=group, at_most=1)
    if given.at_most is not None:
        raise OffdiagError("one_per_group and at_most are two quotas for one list; leave one of them out")
    return replace(given, category=group, at_most=1)


def relevance(columns: NDArray[np.int64], scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """The scores of each row's candidates from 0, the lowest, to 1, the best; all 1 where they are equal."""
    real = columns >= 0
    values = np.where(real, scores, np.nan).astype(np.float64)
    low = np.where(real, values, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    high = np.where(real, values, -np.inf).max(axis=1, initial=-np.inf, keepdims=True)
    spread = high - low
    with np.errstate(invalid="ignore"):
        scaled = np.where(spread > 0, (values - low) / np.where(spread > 0, spread, 1), 1.0)
    return np.where(real, scaled, 0.0)


def from_neighbours(columns: NDArray[np.int64], scores: NDArray[np.floating]) -> sparse.csr_array:
    """Similarities from lists of similar items: each item's positive weights relative to its strongest one.

    The similarity of a pair is the larger of its two directions, and 0 if neither lists the other.
    """
    n = len(columns)
    kept = (columns >= 0) & (scores > 0)
    row, place = np.nonzero(kept)
    strongest = np.where(kept, scores, 0).max(axis=1, initial=0)
    values = scores[row, place].astype(np.float64) / strongest[row]
    one_way = sparse.csr_array((values, (row, columns[row, place])), shape=(n, n))
    return sparse.csr_array(one_way.maximum(one_way.T))


def from_categories(category: NDArray[np.int64]) -> sparse.csr_array:
    """Similarity 1 within a category, 0 elsewhere; items without a category are similar to nothing."""
    n, known = len(category), np.flatnonzero(category >= 0)
    n_kinds = int(category.max(initial=-1)) + 1
    member = sparse.csr_array((np.ones(len(known)), (known, category[known])), shape=(n, max(n_kinds, 1)))
    same = sparse.csr_array(member @ member.T)
    same.setdiag(0)
    same.eliminate_zeros()
    return same


def category_codes(categories: Mapping[Any, Any], item_ids: NDArray[Any]) -> NDArray[np.int64]:
    """The category of each column as a number, -1 where there is none; an id and its text are the same here."""
    if not isinstance(categories, Mapping):
        raise OffdiagError(
            f"categories take a dict of item id to category, received {type(categories).__name__}; "
            "write categories={item: category, …}"
        )
    by_text = {str(item): kind for item, kind in categories.items() if kind is not None}
    numbers: dict[Any, int] = {}
    listed = (by_text.get(str(item)) for item in item_ids.tolist())
    codes = np.array(
        [-1 if kind is None else numbers.setdefault(kind, len(numbers)) for kind in listed], dtype=np.int64
    )
    if not numbers and len(item_ids):
        example = next(iter(by_text), "none")
        raise OffdiagError(
            f"expected categories of the model's items, such as {item_ids[0].item()!r}, received none of them, but "
            f"{example!r}; check the ids"
        )
    return codes


def check(
    diversity: float, at_most: int | None, categories: Mapping[Any, Any] | None, by: str
) -> tuple[float, int | None]:
    """The two numbers, if they go together with the categories."""
    diversity = checks.number("diversity", diversity, 0, 1)
    at_most = None if at_most is None else checks.whole("at_most", at_most, 1)
    checks.choice("by", by, SIMILARITIES)
    if categories is None and (at_most is not None or by == "categories"):
        raise OffdiagError(
            "at_most and by='categories' need categories: a dict of item id to category; give categories=…"
        )
    if not diversity and at_most is None:
        raise OffdiagError("nothing to rerank by: expected diversity above 0 or at_most, received neither")
    return diversity, at_most
