"""NextItem on a cluster: each worker counts the histories of its users, and the counts are added piece by piece.

Counts are whole numbers of a unit, so their sums are exact, however the users are spread: they are those of ``gram_``
of a fit on one machine, bit for bit. The weights are solved on this machine, which holds 1.5 m² numbers.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.cluster import order_columns, session
from offdiag.cluster.auto import Model
from offdiag.cluster.counting import IDLE, SEGMENT, gram, in_groups, in_segments, totals
from offdiag.cluster.parts import Part, Parts, check_entries, read, stack_events
from offdiag.cluster.placement import in_batches, total, tree
from offdiag.cluster.stages import Report, Stage, stage
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.order import UNIT_BITS, Ageing, OrderSums, count_units, examples_of
from offdiag.gramian.order_gram import OrderGram
from offdiag.gramian.packed import EXACT_FLOAT32, Gram
from offdiag.gramian.user_weights import add_histograms, scale_of
from offdiag.models import order_features
from offdiag.models.side_information import side_of
from offdiag.progress import Progress, reporter
from offdiag.solvers import cholesky

if TYPE_CHECKING:
    from distributed import Client

UNIT = 2.0**-UNIT_BITS
LESS = "keep fewer items with od.cluster.prepare(min_items=...), or give the workers more memory"


def fit_next_item(
    model: Model,
    data: Any,
    *,
    item_features: Any = None,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Model:
    """Fit a NextItem on a cluster: the same sums as on one machine bit for bit, and the same weights up to rounding.

    ``data``: Parts read with ``keep="events"``, or any source that od.cluster.read takes. Each worker holds its users
    and 12 m² bytes for m items; this machine 1.5 m² numbers, and solves for the weights. With ``neighbours`` nothing of
    that order is held: columns are solved as by ``fit_sparse``, with the same bytes as on one machine. Settings left at
    "auto" are chosen here as in ``fit``, for which all events come to this machine. ``item_features`` as in ``fit``.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400, times=True)
        >>> od.cluster.fit_next_item(od.NextItem(), X).weights_.shape
        (20, 20)
    """
    progress = reporter(progress)
    client = session.current(client)
    if getattr(model, "cluster_fit", None) != "order":
        raise OffdiagError(
            f"fit_next_item takes NextItem, received {type(model).__name__}; full-rank models go to fit_full_rank"
        )
    used: Any = model._validate()  # type: ignore[attr-defined]
    used._check_ageing()
    parts = read(data, keep="events", client=client, progress=progress, reports=reports)
    if parts.events is None:
        raise OffdiagError("expected parts with events in order, received pairs; read them with keep='events'")
    check_entries(parts)
    side = side_of(used, parts.item_ids, item_features)
    of_features = side.rows is not None and used.feature_weight == "auto"
    if of_features or "auto" in used._used_settings().values():
        used._choose_settings(parts.gather(), side, progress)
    if used.neighbours is None:
        sums, about = count(parts, used, progress, reports)
        order_features.add(sums, side, used)
        weights = used._solve(sums, progress)
    else:
        if side.rows is not None:
            raise OffdiagError("NextItem takes item_features or neighbours, received both; leave one out")
        used._check_memory(parts.n_items, 0)
        pairs = _as_pairs(parts)
        about = totals(pairs, float(used.user_power), progress)
        weights = order_columns.fit(parts, pairs, used, about, progress, reports)
    model._store(  # type: ignore[attr-defined]
        weights, parts.item_ids, about.item_counts.astype(np.float64), parts.n_users, used._used_settings(),
        counts_users=True,
    )  # fmt: skip
    return model._keep_features(side.features)  # type: ignore[attr-defined,no-any-return]


def count(
    parts: Parts, used: Any, progress: Progress | None = None, reports: list[Report] | None = None
) -> tuple[OrderSums, Gram]:
    """The sums that NextItem is solved from, and a Gram with the totals of the users."""
    m, dtype, power = parts.n_items, np.dtype(used.dtype), float(used.user_power)
    cholesky.check_feasible(m, dtype.itemsize, extra=m * m * dtype.itemsize, instead=LESS)
    workers = max(len(session.workers_of(parts.client)), 1)
    groups = in_groups(parts.entries, min(workers, len(parts.futures)))
    rows = 3 * parts.nbytes // len(groups)
    session.require(parts.client, IDLE + 14 * m * m + 10 * SEGMENT + rows, f"a NextItem of {m:,} items", LESS)
    pairs = _as_pairs(parts)
    if used.mix:  # in double precision the sums are exact, and rounded once, as on one machine
        exact = power == 0 and parts.n_users <= EXACT_FLOAT32
        G = gram(pairs, power, dtype=dtype if exact else np.float64, client=parts.client, progress=progress)
    else:
        G = totals(pairs, power, progress)
    with stage(parts.client, "counting histories", progress, reports, LESS) as work:
        counted = [
            work.submit(_count, [parts.futures[at] for at in group], m, used._ageing(), used.targets == "later", power)
            for group in groups
        ]
        timed = work.gather([work.submit(attrgetter("timed"), one) for one in counted], 0.0, 0.5)
        found = work.gather([work.submit(attrgetter("examples"), one) for one in counted], 0.0, 0.5)
        examples = found[0]
        for other in found[1:]:
            examples = add_histograms(examples, other)
        used._check_events(examples, all(timed))
        sums = _pairs_alone(G, power, float(used.mix), dtype)
        scale = (1 - float(used.mix)) * scale_of(examples, power) * UNIT
        for name, into in (("sources", sums.A), ("targets", sums.K.reshape(-1))):
            _add(work, name, counted, scale, into)
    return sums, G


class _Counts:
    """Sums of some users in units, with the size that Dask should see."""

    def __init__(self, sums: OrderSums, examples: NDArray[np.int64], timed: bool) -> None:
        self.sources, self.targets, self.examples, self.timed = sums.A, sums.K.reshape(-1), examples, timed

    def __sizeof__(self) -> int:
        return self.sources.nbytes + self.targets.nbytes


def _count(parts: list[Part], m: int, ageing: Ageing, later: bool, user_power: float) -> _Counts:
    """Σ sᵀs and Σ sᵀy of some parts."""
    sequences = stack_events(parts)
    timed = sequences.times is not None
    if not timed and ageing.half_life is not None:
        ageing = Ageing()  # refused by the caller, who knows of all parts
    sums = count_units(sequences, m, ageing, UNIT, later=later, user_power=user_power)
    return _Counts(sums, examples_of(sequences), timed)


def _add(work: Stage, name: str, counted: list[Any], scale: float, into: NDArray[np.floating]) -> None:
    """Add scale times the sum over all workers, a segment at a time."""
    edges = in_segments(len(into), -(-8 * len(into) // SEGMENT))
    sums = [tree(work, total, [work.submit(_segment, one, name, lo, hi) for one in counted]) for lo, hi in edges]
    start, stop = (0.5, 0.65) if name == "sources" else (0.65, 1.0)
    for batch in in_batches([8 * (hi - lo) for lo, hi in edges]):
        done = start + (stop - start) * batch.stop / len(edges)
        for at, numbers in zip(batch, work.gather([sums[at] for at in batch], done, done), strict=True):
            lo, hi = edges[at]
            into[lo:hi] += scale * numbers


def _segment(counts: _Counts, name: str, lo: int, hi: int) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = getattr(counts, name)[lo:hi]
    return numbers


def _as_pairs(parts: Parts) -> Parts:
    """The same pairs, each with the value 1: NextItem does not use values."""
    if parts.binary:
        return parts
    with stage(parts.client, "counting items") as work:
        futures = [work.submit(_ones, part) for part in parts.futures]
    return Parts(parts.client, futures, parts.item_ids, parts.users, parts.entries, True, parts.events)


def _ones(part: Part) -> Part:
    return part._replace(data=None)


def _pairs_alone(G: Gram, user_power: float, mix: float, dtype: np.dtype[Any]) -> OrderSums:
    """mix·G, packed and in full: what OrderGram mixes before any history is counted."""
    m, nothing = len(G.item_counts), np.zeros(())
    values = G.values if mix else np.broadcast_to(nothing, layout.size(m))
    return OrderGram(
        values, G.activity, G.item_counts, G.item_sums, user_power, sources=np.broadcast_to(nothing, layout.size(m)),
        targets=np.broadcast_to(nothing, (m, m)), examples=np.zeros(1, dtype=np.int64), unit=np.array([UNIT]),
    ).mixed(mix, dtype)  # fmt: skip
