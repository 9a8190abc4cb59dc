"""Interactions as they lie on the workers: each worker numbers its own users' items by popularity, and keeps them.

What all workers must agree on (popularity, the weights of users, diag(G)) are sums of short arrays. 0/1 data gives the
same sums however the users are spread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.cluster import session
from offdiag.cluster.parts import Part, Parts, same
from offdiag.cluster.placement import Homes, total, tree
from offdiag.cluster.stages import Stage
from offdiag.data.sparse_rows import runs_of_rows
from offdiag.gramian.user_weights import add_histograms, scale_of, weights_of
from offdiag.solvers import Doubles, Ints, popularity_order
from offdiag.solvers.popularity_order import Rows

if TYPE_CHECKING:
    from distributed import Client, Future

BYTES_PER_ENTRY = 16  # of 0/1 data: 4 in its part, 12 by popularity
BYTES_PER_VALUE = 8  # more if it has values
ENTRIES_AT_ONCE = 1 << 20  # of a part, where they are read: each takes some 50 bytes while it is


@dataclass(frozen=True, eq=False)
class Popularity:
    """What is known about the items of all users together; arrays by popularity except ``rank`` and ``sums``."""

    rank: NDArray[np.int32]  # (m,)
    counts: Ints  # users per item, and features
    sums: Doubles  # popularity of each item, in the order of the catalogue
    cost: Doubles  # pairs to count for the row of each item
    scale: float
    piece_bytes: int  # of an entry of a row that is counted where some of the users are
    contents: int  # tells one table of interactions from another

    def with_features(self, rows: sparse.csr_array) -> Popularity:
        """The same with a user for each feature in the counts of users and of pairs, but not in the order of items."""
        order = np.argsort(self.rank)
        per_feature = np.bincount(rows.indices, minlength=rows.shape[1]).astype(np.float64)
        own = np.diff(rows.indptr)
        pairs = np.bincount(np.repeat(np.arange(len(own)), own), per_feature[rows.indices], len(own))
        return replace(self, counts=self.counts + own[order], cost=self.cost + pairs[order], piece_bytes=12)


@dataclass(frozen=True, eq=False)
class Shards:
    """The interactions by popularity, one Future of Rows per worker, and where each should be."""

    futures: list[Future]
    homes: list[int]
    entries: int  # the most of any

    def with_features(
        self, work: Stage, known: Popularity, rows: sparse.csr_array, weight: float, dtype: Any, homes: Homes
    ) -> Shards:
        """And the features of items, a row for each item, as users of this weight, divided among the workers."""
        of_items = sparse.csr_array(rows.T).astype(dtype)
        cost = np.diff(of_items.indptr).astype(np.float64) ** 2  # pairs to count
        rank = work.submit(same, known.rank)
        added = [
            work.submit(_pseudo_users, of_items[lo:hi], weight, rank, **homes.near(home))
            for home, (lo, hi) in enumerate(parallel.shares(cost, len(homes)))
        ]
        work.wait(added)
        return Shards([*self.futures, *added], [*self.homes, *range(len(added))], self.entries)


def popularity(work: Stage, parts: Parts, user_power: float) -> Popularity:
    """Counted where the users are; only sums come here."""
    m = parts.n_items
    found = [work.submit(facts, part, m) for part in parts.futures]
    by_item = tree(work, _total_of, found)
    (counts, sums, cost, digest), *histograms = work.gather(
        [by_item, *(work.submit(_activity, part) for part in parts.futures)]
    )
    activity = histograms[0]
    for one in histograms[1:]:
        activity = add_histograms(activity, one)
    rank = popularity_order.popularity_rank(counts)
    order = np.argsort(rank)
    scale, piece_bytes = scale_of(activity, user_power), 8 if parts.binary and user_power == 0 else 12
    return Popularity(rank, counts[order], sums, cost[order], scale, piece_bytes, int(digest[0]))


def facts(part: Part, m: int) -> tuple[NDArray[Any], ...]:
    """Users, sum and pairs of each item, and a digest that does not depend on the order of users."""
    counts, sums, cost, digest = np.zeros(m, dtype=np.int64), np.zeros(m), np.zeros(m), np.uint64(0)
    for lo, hi in runs_of_rows(part.indptr, max(ENTRIES_AT_ONCE, m)):
        a, b = part.indptr[lo], part.indptr[hi]
        n_u, items = np.diff(part.indptr[lo : hi + 1]), part.indices[a:b]
        values = None if part.data is None else part.data[a:b]
        counts += np.bincount(items, minlength=m)
        sums += np.bincount(items, weights=values, minlength=m)
        cost += np.bincount(items, weights=np.repeat(n_u, n_u), minlength=m)
        digest = np.add(digest, contents(items, part.indptr[lo : hi + 1] - a, values), dtype=np.uint64)
    return counts, sums, cost, np.array([digest], dtype=np.uint64)


def contents(items: NDArray[Any], indptr: NDArray[Any], values: NDArray[Any] | None) -> np.uint64:
    """The sum over users of a hash of their sum of hashes of interactions."""
    entries = _mixed(items.astype(np.uint64) + np.uint64(1))
    if values is not None:
        entries = _mixed(entries + values.astype(np.float32).view(np.uint32))
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
    return np.sum(_mixed(running[indptr[1:]] - running[indptr[:-1]]), dtype=np.uint64)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _total_of(*found: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    return tuple(total(*arrays) for arrays in zip(*found, strict=True))


def _activity(part: Part) -> Ints:
    """How many users have n interactions."""
    return np.bincount(np.diff(part.indptr)).astype(np.int64)


def spread(work: Stage, parts: Parts, known: Popularity, user_power: float, homes: Homes) -> Shards:
    """The interactions of each worker by popularity: they stay where their parts are."""
    groups = groups_by_home(parts, homes)
    rank = work.submit(same, known.rank)
    futures = [
        work.submit(_rows, [parts.futures[at] for at in group], rank, user_power, **homes.near(home))
        for home, group in groups.items()
    ]
    work.wait(futures)
    return Shards(futures, list(groups), max(int(parts.entries[group].sum()) for group in groups.values()))


def groups_by_home(parts: Parts, homes: Homes) -> dict[int, list[int]]:
    """Which parts each worker takes: its own, unless another would be left with much less than its share."""
    held = session.within(session.SILENCE, lambda: _who_has(parts.client, parts.futures))
    number = {address: at for at, address in enumerate(homes.workers)}
    share = parts.entries.sum() / len(homes)
    groups: dict[int, list[int]] = {home: [] for home in range(len(homes))}
    filled = np.zeros(len(homes))
    for at in np.argsort(-parts.entries, kind="stable").tolist():
        mine = [number[address] for address in held[at] if address in number]
        home = min(mine, key=lambda one: filled[one], default=int(filled.argmin()))
        if filled[home] + parts.entries[at] > 1.1 * share:
            home = int(filled.argmin())
        groups[home].append(at)
        filled[home] += parts.entries[at]
    return {home: sorted(group) for home, group in groups.items() if group}


def _who_has(client: Client, futures: list[Future]) -> list[Iterable[str]]:
    found: Any = client.who_has(futures)
    return [found.get(future.key, ()) for future in futures]


def _rows(parts: list[Part], rank: NDArray[np.int32], user_power: float) -> Rows:
    """The users of some parts, one part after another."""
    weight = weights_of(np.concatenate([np.diff(part.indptr) for part in parts]), user_power)
    return popularity_order.parts_by_popularity([(p.indptr, p.indices, p.data) for p in parts], weight, rank)


def _pseudo_users(of_items: sparse.csr_array, weight: float, rank: NDArray[np.int32]) -> Rows:
    """A user for each feature, who has the items with it."""
    rows = (of_items.indptr, of_items.indices, of_items.data)
    return popularity_order.parts_by_popularity([rows], np.full(of_items.shape[0], weight), rank)


def diagonal(work: Stage, shards: Shards) -> Doubles:
    """g = diag(G), by popularity."""
    (g,) = work.gather([tree(work, total, [work.submit(popularity_order.diagonal, data) for data in shards.futures])])
    return np.asarray(g, dtype=np.float64)
