"""NextItem with neighbours on a cluster: columns of K and rows of A, counted where the users are, band by band.

Counts are whole numbers of a unit that all workers share, so the bytes are those of one machine.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.cluster import bands, rooms, shards
from offdiag.cluster.columns import Solver
from offdiag.cluster.parts import Part, Parts, stack_events
from offdiag.cluster.placement import Homes, total, tree
from offdiag.cluster.shards import Shards
from offdiag.cluster.stages import Report, Stage, stage
from offdiag.gramian.order import Ageing, examples_of
from offdiag.gramian.user_weights import add_histograms
from offdiag.progress import Progress
from offdiag.solvers import order_supports
from offdiag.solvers.order_supports import Everyone, OrderRows
from offdiag.weights import Sparse

if TYPE_CHECKING:
    from offdiag.gramian.packed import Gram

EVENT_BYTES = 24  # of an event in its part, with its pair


def fit(
    parts: Parts, pairs: Parts, used: Any, about: Gram, progress: Progress | None, reports: list[Report] | None
) -> Sparse:
    """The weights; ``pairs`` are the same users without events and values, ``about`` their totals."""
    homes, power, m, dtype = Homes.of(parts.client), float(used.user_power), parts.n_items, used.dtype
    begin = partial(stage, parts.client, progress=progress, reports=reports, lower=rooms.LESS)
    with begin("ordering items") as work:
        known = shards.popularity(work, pairs, power)
        examples = _examples(work, parts, used)
        mine = _spread(work, parts, known, used, Everyone(about.activity, examples), homes)
        (g,) = work.gather([tree(work, total, [work.submit(OrderRows.diagonal, data) for data in mine.futures])])
    H = order_supports.penalised(g, dtype, dropout=float(used.dropout), l2=float(used.l2))
    with begin("estimating sizes") as work:
        sizes = bands.estimate(work, mine, known, np.dtype(dtype).itemsize, homes)
    timed = used.half_life is not None
    of_event = order_supports.EVENT_BYTES + EVENT_BYTES + timed * order_supports.TIME_BYTES
    what = f"its share of {parts.nnz:,} interactions and of the sums over {m:,} items"
    block, band = rooms.sizes(
        parts.client, of_event * mine.entries + 24 * m, sizes, used.block_bytes, len(homes), what
    )  # fmt: skip
    k = used._n_neighbours(m)
    with begin("counting histories") as work:
        stored, supports = bands.count(
            work, mine, known, sizes, H, k, dtype, homes, band, repeats=used.repeats
        )  # fmt: skip
    del mine
    Solver(begin, stored, homes, H, block).solve(supports)
    weights: Sparse = used._of_supports(supports, known.rank)
    return weights


def _examples(work: Stage, parts: Parts, used: Any) -> NDArray[np.int64]:
    """How many users have n examples."""
    examples = np.zeros(1, dtype=np.int64)
    timed = True
    for one, has_times in work.gather([work.submit(_examples_of, part) for part in parts.futures]):
        examples, timed = add_histograms(examples, one), timed and has_times
    used._check_events(examples, timed)
    return examples


def _examples_of(part: Part) -> tuple[NDArray[np.int64], bool]:
    sequences = part.sequences()
    return examples_of(sequences), sequences.times is not None


def _spread(work: Stage, parts: Parts, known: shards.Popularity, used: Any, everyone: Everyone, homes: Homes) -> Shards:
    """The histories of each worker by popularity: they stay where their parts are."""
    assert parts.events is not None
    groups = shards.groups_by_home(parts, homes)
    futures = [
        work.submit(
            _rows, [parts.futures[at] for at in group], known.rank, used._ageing(), float(used.user_power),
            float(used.mix), used.targets == "later", everyone, **homes.near(home),
        )
        for home, group in groups.items()
    ]  # fmt: skip
    work.wait(futures)
    return Shards(futures, list(groups), max(int(parts.events[group].sum()) for group in groups.values()))


def _rows(
    parts: list[Part],
    rank: NDArray[np.int32],
    ageing: Ageing,
    user_power: float,
    mix: float,
    later: bool,
    everyone: Everyone,
) -> OrderRows:
    n_u = np.concatenate([np.diff(part.indptr) for part in parts])
    return OrderRows.of(
        stack_events(parts), n_u, rank, ageing, user_power=user_power, mix=mix, later=later, everyone=everyone
    )
