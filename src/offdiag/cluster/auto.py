"""How "auto" is resolved when the data is spread over workers: the same rule, from the same sums."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.cluster.parts import Part, Parts, matrix_of
from offdiag.cluster.stages import stage
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import gram
from offdiag.gramian.user_weights import on_grid, weights_of
from offdiag.progress import Progress, reporter
from offdiag.solvers import leave_one_out

Model = TypeVar("Model")  # a fit returns the model it is given
_CHOSEN = ("dropout", "l2", "user_power")  # other settings that may be "auto" do not affect the result


def resolve(model: object, settings: dict[str, Any], parts: Parts, progress: Progress | None = None) -> dict[str, Any]:
    """The settings with every "auto" resolved by the rule of the model's class."""
    left = [name for name, value in settings.items() if isinstance(value, str) and value == "auto" and name in _CHOSEN]
    if not left:
        return settings
    rule = getattr(model, "_resolve_on_cluster", None)
    if rule is None:
        raise OffdiagError(
            f"expected numbers for the settings of a fit on a cluster, received auto for {', '.join(left)}; "
            "od.cluster.unseen_user_l2 finds an l2"
        )
    found: dict[str, Any] = rule(
        settings, lambda power, **size: unseen_user_l2(parts, power, **size, progress=progress)
    )
    return found


def unseen_user_l2(
    parts: Parts, user_power: float, *, items: int = 1_000, users: int = 4_000, progress: Progress | bool | None = None
) -> float:
    """The l2 at which EASE would best predict a user it has not seen, on the most popular items.

    The l2 that ``fit`` of a full-rank model on one machine starts from: left-out users are evenly spaced among all
    users, in the order of the parts.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.unseen_user_l2(od.cluster.read(X), user_power=0.5) > 0
        True
    """
    with stage(parts.client, "choosing l2", reporter(progress)) as work:
        sums = work.gather([work.submit(_squares, part, parts.n_items, user_power) for part in parts.futures], 0, 0.3)
        by_item = np.sum([one[0] for one in sums], axis=0)
        weighted, entries, weighted_entries, active = (sum(one[at] for one in sums) for at in (1, 2, 3, 4))
        factor = on_grid(entries, weighted_entries)
        unit = factor * weighted / max(active, 1)
        best = np.argsort(-by_item, kind="stable")[:items]
        top = np.sort(best[by_item[best] > 0])
        popular = [work.submit(popular_columns, part, parts.n_items, top, user_power) for part in parts.futures]
        counts = np.array(work.gather([work.submit(able_users, rows) for rows in popular], 0.3, 0.6))
        n = int(counts.sum())
        if n < 10:
            return 3.5 * float(unit)  # too few users to choose from; about right on ordinary data
        chosen = np.arange(n) if n <= users else np.linspace(0, n - 1, users).astype(np.int64)
        ends = np.cumsum(counts)
        mine = [
            chosen[(chosen >= end - count) & (chosen < end)] - (end - count)
            for end, count in zip(ends, counts, strict=True)
        ]
        grams = [work.submit(_small_gram, rows, len(top)) for rows in popular]
        rows = [work.submit(_chosen, rows, which, len(top)) for rows, which in zip(popular, mine, strict=True)]
        found = work.gather([*grams, *rows], 0.6, 1.0)
    G = factor * np.sum(found[: len(grams)], axis=0)
    histories = np.concatenate([one[0] for one in found[len(grams) :]])
    weight = factor * np.concatenate([one[1] for one in found[len(grams) :]])
    return float(leave_one_out.minimum(leave_one_out.user_loss(G, histories, weight), float(unit)))


def _squares(part: Part, m: int, user_power: float) -> tuple[NDArray[np.float64], float, float, float, int]:
    """Sum of squares per item, its weighted total, entries, weighted entries, and the number of users with entries."""
    data, indices, indptr = part.data, part.indices, part.indptr
    squares = np.ones(len(indices)) if data is None else data.astype(np.float64) ** 2
    n_u = np.diff(indptr)
    weight = weights_of(n_u, user_power)
    by_item = np.bincount(indices, weights=squares, minlength=m).astype(np.float64)
    weighted = float(np.repeat(weight, n_u) @ squares)
    return by_item, weighted, float(n_u.sum()), float(weight @ n_u), int((n_u > 0).sum())


def popular_columns(part: Part, m: int, top: NDArray[np.int64], user_power: float) -> tuple[Any, ...]:
    """The columns of popular items, and the weight of each user."""
    rows = sparse.csr_array(matrix_of(part, m)[:, top])
    return rows.data, rows.indices, rows.indptr, weights_of(np.diff(part.indptr), user_power)


def able_users(rows: tuple[Any, ...]) -> int:
    return int((np.diff(rows[2]) >= 2).sum())


def _small_gram(rows: tuple[Any, ...], m: int) -> NDArray[np.float64]:
    data, indices, indptr, weight = rows
    scaled = data.astype(np.float64) * np.repeat(np.sqrt(weight), np.diff(indptr))
    X = sparse.csr_array((scaled, indices, indptr), shape=(len(weight), m))
    return gram(X, dtype=np.float64).toarray().astype(np.float64)


def _chosen(rows: tuple[Any, ...], which: NDArray[np.int64], m: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    data, indices, indptr, weight = rows
    users = np.flatnonzero(np.diff(indptr) >= 2)[which]
    X = sparse.csr_array((data, indices, indptr), shape=(len(weight), m))
    return X[users].toarray().astype(np.float32), weight[users]
