"""Synthetic interactions of any size that resemble real ones, from a seed.

A few items are chosen by many users and most by few (a power law), a few users choose many items (log-normal),
users like two of the planted communities (genres), and items come in sagas whose parts are chosen together.
So there is something to learn beyond popularity, with noise around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data.ids import text_array
from offdiag.data.interactions import Interactions
from offdiag.data.invented_titles import genre_names, invented_titles
from offdiag.data.sparse_rows import csr, row_of_entries, sort_pairs
from offdiag.errors import OffdiagError

_NAMED_UP_TO = 20_000
_TICKETS = 1 << 20
_START = 1_672_531_200  # 2023-01-01, in Unix seconds
_SPAN = 2 * 365 * 86_400


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Synthetic interactions with times, and the genre that was planted for each item.

    Example:
        >>> import offdiag as od
        >>> films = od.synthetic.catalogue(30, 20, 200)
        >>> films.interactions.n_items == len(films.genres)
        True
    """

    interactions: Interactions
    genres: NDArray[Any]


@dataclass(frozen=True)
class _Items:
    """Items before they are named: sorted by community, then saga."""

    saga_of: NDArray[np.int32]
    saga_community: NDArray[np.int32]
    tickets: NDArray[np.int32]
    ticket_start: NDArray[np.int64]

    @property
    def community(self) -> NDArray[np.int32]:
        return self.saga_community[self.saga_of]


def interactions(
    n_users: int,
    n_items: int,
    nnz: int,
    *,
    communities: int | None = None,
    structure: float = 0.75,
    names: bool | None = None,
    times: bool = False,
    seed: int = 0,
) -> Interactions:
    """Exactly `nnz` interactions of value 1; every user has at least one, no pair occurs twice.

    `communities` is 16 by default, less for fewer than 320 items. `structure` is the share of choices made
    by taste (community or saga) instead of popularity alone. Item ids are made-up titles when `names` is
    true (by default up to 20,000 items), else integers.

    Example:
        >>> import offdiag as od
        >>> od.synthetic.interactions(100, 50, 900, seed=0)
        Interactions(100 users x 50 items, 900 interactions, 18 % filled)
    """
    if communities is None:
        communities = min(16, max(1, n_items // 20))
    return _generate(n_users, n_items, nnz, communities, structure, names, times, seed)[0]


def catalogue(
    n_users: int = 3_000, n_items: int = 800, nnz: int = 90_000, *, communities: int = 12, seed: int = 0
) -> Catalogue:
    """A named catalogue with times and genres, for demonstrations.

    Example:
        >>> import offdiag as od
        >>> films = od.synthetic.catalogue(30, 20, 200)
        >>> print(films.interactions.item_ids[0], "is", films.genres[0])
        The Ancient Hotel (gardening) is gardening
    """
    inter, community = _generate(n_users, n_items, nnz, communities, 0.75, True, True, seed)
    return Catalogue(inter, text_array(genre_names(communities))[community])


def _generate(
    n_users: int,
    n_items: int,
    nnz: int,
    communities: int,
    structure: float,
    names: bool | None,
    times: bool,
    seed: int,
) -> tuple[Interactions, NDArray[np.int32]]:
    from offdiag._kernels.draws import draw_items  # compiled; loaded only when needed

    _check(n_users, n_items, nnz, communities, structure, seed)
    rng = np.random.default_rng(seed)
    items = _items(n_items, communities, rng)
    indptr = np.zeros(n_users + 1, dtype=np.int64)
    np.cumsum(_activity(n_users, nnz, max(1, n_items // 2), rng), out=indptr[1:])
    weight = np.diff(items.ticket_start) / len(items.tickets)
    tastes = rng.choice(communities, size=(n_users, 2), p=weight).astype(np.int32)
    drawn = draw_items(
        indptr,
        items.tickets,
        items.ticket_start,
        tastes,
        items.saga_of,
        np.concatenate([[0], np.cumsum(np.bincount(items.saga_of))]),
        0.3 * structure,
        0.7 * structure,
        int(rng.integers(0, 2**62)),
    )
    if names if names is not None else n_items <= _NAMED_UP_TO:
        titles = text_array(invented_titles(items.saga_of, items.saga_community, genre_names(communities), rng))
        order = np.argsort(titles)
        item_ids: NDArray[Any] = titles[order]
    else:
        order = rng.permutation(n_items)  # an id must not reveal the community
        item_ids = np.arange(n_items, dtype=np.int64)
    column = np.empty(n_items, dtype=np.int32)
    column[order] = np.arange(n_items, dtype=np.int32)
    users, cols = row_of_entries(indptr), column[drawn]
    by_storage, cols = sort_pairs(users, cols, n_users, n_items)
    when = _times(indptr, users, rng) if times else None
    if by_storage is not None and when is not None:
        when = when[by_storage]
    matrix = csr(np.ones(nnz, dtype=np.float32), cols, indptr, (n_users, n_items))
    inter = Interactions(matrix, np.arange(n_users, dtype=np.int64), item_ids, when, by_storage)
    return inter, items.community[order]


def _items(n_items: int, communities: int, rng: np.random.Generator) -> _Items:
    # Sagas of 1 to 9 parts, assigned to communities of unequal size.
    sizes = np.minimum(rng.geometric(0.35, size=n_items), 9)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), n_items)) + 1]
    sizes[-1] -= sizes.sum() - n_items
    while len(sizes) < communities:  # a tiny catalogue: single items, so that no community is empty
        sizes = np.ones(n_items, dtype=np.int64)
    share = rng.dirichlet(np.full(communities, 6.0))
    community = np.concatenate(
        [np.arange(communities), rng.choice(communities, size=len(sizes) - communities, p=share)]
    )
    saga_community = np.sort(community).astype(np.int32)
    sizes = rng.permutation(sizes)
    saga_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    # A power law over sagas; the parts of a saga are similarly popular.
    rank = rng.permutation(len(sizes)) + 1.0 + 0.02 * len(sizes)
    popularity = (rank**-1.5)[saga_of] * rng.lognormal(0.0, 0.5, n_items)
    counts = np.maximum(1, np.rint(popularity / popularity.sum() * max(_TICKETS, 16 * n_items))).astype(np.int64)
    tickets = np.repeat(np.arange(n_items, dtype=np.int32), counts)
    bounds = np.searchsorted(saga_community[saga_of], np.arange(communities + 1))
    ticket_start = np.concatenate([[0], np.cumsum(counts)])[bounds]
    return _Items(saga_of, saga_community, tickets, ticket_start)


def _activity(n_users: int, nnz: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Log-normal sizes between 1 and `most` that add up to nnz exactly."""
    wish = rng.lognormal(0.0, 1.0, n_users)
    low, high = 0.0, float(most) / wish.min()
    for _ in range(60):
        middle = (low + high) / 2
        if np.clip(np.rint(wish * middle), 1, most).sum() <= nnz:
            low = middle
        else:
            high = middle
    sizes = np.clip(np.rint(wish * low), 1, most).astype(np.int64)
    while (short := nnz - int(sizes.sum())) > 0:
        free = np.flatnonzero(sizes < most)
        sizes[rng.permutation(free)[:short]] += 1
    return sizes


def _times(indptr: NDArray[np.int64], users: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Each user joins at some time and keeps choosing until the end, in the order of the draws."""
    sizes = np.diff(indptr)
    joined = rng.random(len(sizes)) * 0.8
    step = np.arange(len(users)) - indptr[users]
    share = (step + rng.random(len(users))) / sizes[users]
    return _START + np.floor((joined[users] + (1 - joined[users]) * share) * _SPAN).astype(np.int64)


def _check(n_users: int, n_items: int, nnz: int, communities: int, structure: float, seed: int) -> None:
    checks.whole("n_users", n_users, 1)
    checks.whole("n_items", n_items, 1)
    checks.whole("communities", communities, 1, n_items)
    checks.number("structure", structure, 0, 1)
    checks.whole("seed", seed)
    most = n_users * max(1, n_items // 2)
    if not n_users <= nnz <= most:
        raise OffdiagError(
            f"expected nnz between {n_users} (one per user) and {most} (half of the matrix), received {nnz}; "
            "change it or the numbers of users and items"
        )
