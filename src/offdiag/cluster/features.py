"""What features of items count for, chosen from users that are spread over workers: the rule of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.cluster.auto import able_users, popular_columns
from offdiag.cluster.counting import totals
from offdiag.cluster.parts import Parts
from offdiag.cluster.placement import total, tree
from offdiag.cluster.stages import stage
from offdiag.data.hiding import hide
from offdiag.gramian.packed import Gram, gram
from offdiag.models import side_information
from offdiag.models.side_information import Side, Small
from offdiag.progress import Progress

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender


def choose(used: Recommender, side: Side, parts: Parts, progress: Progress | None = None) -> None:
    """Replace "auto" in the weight of the features by a number, if there are features."""
    side_information.choose_on(used, side, lambda: _small_part(used, side, parts, progress), progress)


def _small_part(used: Any, side: Side, parts: Parts, progress: Progress | None) -> Small | None:
    """The Gram of the most popular items without some users, who are evenly spread over the parts, and these users."""
    about = totals(parts, used.user_power, progress)
    items = side_information.most_popular(about.item_counts)
    m = len(items)
    with stage(parts.client, "holding users out", progress) as work:
        popular = [work.submit(popular_columns, part, parts.n_items, items, used.user_power) for part in parts.futures]
        able = np.array(work.gather([work.submit(able_users, columns) for columns in popular], 0.0, 0.3))
        held = side_information.held_out_of(int(able.sum()))
        if held is None:
            return None
        ends = np.cumsum(able)
        mine = [held[(held >= end - n) & (held < end)] - (end - n) for end, n in zip(ends, able, strict=True)]
        each = list(zip(popular, mine, strict=True))
        sums = tree(work, total, [work.submit(_gram_of_others, *of, m) for of in each])
        values, *rows = work.gather([sums, *(work.submit(_rows_of, *of, m) for of in each)], 0.3)
    G = Gram((values * about.scale).astype(np.float32), *_no_facts(m), 0.0)
    hidden = hide(sparse.vstack([_matrix(one, m) for one in rows], format="csr"))
    return Small(G, side.select(items), hidden.histories, hidden.targets)


def _no_facts(m: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    return np.zeros(0, dtype=np.int64), np.zeros(m, dtype=np.int64), np.zeros(m)


def _matrix(columns: tuple[Any, ...], m: int) -> sparse.csr_array:
    data, indices, indptr = columns[:3]
    return sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, m))


def _held(columns: tuple[Any, ...], which: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row numbers of some of the users with two of the items or more."""
    return np.flatnonzero(np.diff(columns[2]) >= 2)[which]


def _gram_of_others(columns: tuple[Any, ...], which: NDArray[np.int64], m: int) -> NDArray[np.float64]:
    """The packed Gram of the users who are not held out, without the scale of their weights."""
    X = _matrix(columns, m).astype(np.float64)
    weight = np.sqrt(columns[3])
    weight[_held(columns, which)] = 0.0
    X.data *= np.repeat(weight, np.diff(X.indptr))
    return gram(X, dtype=np.float64).values.astype(np.float64, copy=False)


def _rows_of(columns: tuple[Any, ...], which: NDArray[np.int64], m: int) -> tuple[NDArray[Any], ...]:
    """The users who are held out."""
    rows = _matrix(columns, m)[_held(columns, which)]
    return rows.data, rows.indices, rows.indptr
