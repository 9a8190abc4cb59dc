"""Lists and accuracy of many users on a cluster: every worker maps the model file and answers for its own users."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import persist
from offdiag.cluster import session
from offdiag.cluster.parts import Part, interactions_of, read
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Report, stage
from offdiag.data.held_out import HeldOut
from offdiag.errors import OffdiagError
from offdiag.evaluation import evaluate as evaluate_here
from offdiag.list_files import Written, format_of
from offdiag.measured import Result, merged
from offdiag.metric_names import parse_metric
from offdiag.progress import Progress, reporter

if TYPE_CHECKING:
    from distributed import Client, Future

    from offdiag.models.recommender import Recommender

IN_FLIGHT = 2  # tasks per worker: one running, and the next with its data in transit
SLICES = 8  # of held-out users per worker
DIGITS = 5  # of the number of a file


def recommend(
    model: Recommender | str | os.PathLike[str],
    data: Any,
    k: int = 10,
    *,
    out: str | os.PathLike[str],
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
    **options: Any,
) -> Written:
    """``model.recommend_to`` for users spread over workers: a file of lists for every part.

    ``model``: the path of a model file that every worker can read; a fitted model is first saved next to the lists.
    ``data``: Parts (od.cluster.read) or any source that it takes. ``out`` has one *, which becomes the number of the
    part: "lists/part-*.parquet". ``options`` are those of ``recommend_to``: exclude_seen, allow, reasons, columns, ….

    Each file appears when it is complete. No file may be there that ``out`` also names: lists of two calls would mix.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> model = od.EASE(l2=5.0).fit(X)
        >>> od.cluster.recommend(model, X, k=3, out="lists-*.jsonl").n_lists
        60
    """
    progress = reporter(progress)
    client = session.current(client)
    target, suffix = Path(out), format_of(out)
    before, star, after = target.name.partition("*")
    if not star or "*" in after or "*" in str(target.parent):
        raise OffdiagError(
            f"expected one * in the name of the files, for the number of the part, received {str(out)!r}; "
            f"for example lists/part-*{suffix}"
        )
    there = sorted(target.parent.glob(target.name)) if target.parent.is_dir() else []
    if there:
        raise OffdiagError(
            f"{str(out)!r} names {len(there):,} files that are there; delete them or choose another name"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    parts = read(data, client=client, progress=progress, reports=reports)
    homes = Homes.of(client)
    names = [target.with_name(f"{before}{at:0{DIGITS}}{after}") for at in range(len(parts.futures))]
    with _file_of(model, target.parent) as path, stage(client, "recommending", progress, reports) as work:

        def start(at: int) -> Future:
            return work.submit(_write, path, parts.futures[at], parts.item_ids, str(names[at]), k, options)

        done = Written()
        found = dict(work.each(start, len(names), IN_FLIGHT * len(homes)))
    for at in range(len(names)):
        done.add(found[at])
    return done


def evaluate(
    model: Recommender | str | os.PathLike[str],
    held_out: HeldOut,
    metrics: Sequence[str] | str = ("recall@20", "recall@50", "ndcg@100"),
    *,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
    **options: Any,
) -> Result:
    """``od.evaluate`` with the held-out users divided among the workers: the same numbers.

    ``model`` as in ``od.cluster.recommend``; ``options`` are those of ``od.evaluate``: among, exclude_seen,
    history_decay, …. Coverage and bands are of all users together, so they are measured on one machine only.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> split = od.split.strong(od.synthetic.interactions(100, 50, 900), held_out=20)
        >>> model = od.EASE(l2=5.0).fit(split.train)
        >>> found = od.cluster.evaluate(model, split.test, "ndcg@10")
        >>> found.mean == od.evaluate(model, split.test, "ndcg@10").mean
        True
    """
    progress = reporter(progress)
    client = session.current(client)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if options.get("bands") or any(parse_metric(name).kind == "coverage" for name in names):
        raise OffdiagError("coverage and bands are of all users together; leave them out, or use od.evaluate")
    homes = Homes.of(client)
    n = held_out.targets.shape[0]
    edges = np.unique(np.linspace(0, n, SLICES * len(homes) + 1).astype(np.int64)).tolist()
    slices = [(lo, hi) for lo, hi in pairwise(edges) if held_out.targets[lo:hi].nnz]
    if not slices:
        return evaluate_here(_loaded(model), held_out, names, **options)  # which says what is wrong
    with _file_of(model, Path(tempfile.gettempdir())) as path, stage(client, "evaluating", progress, reports) as work:

        def start(at: int) -> Future:
            return work.submit(_measure, path, _users(held_out, *slices[at]), names, options)

        found = dict(work.each(start, len(slices), IN_FLIGHT * len(homes)))
    done = merged([found[at] for at in range(len(slices))])
    return replace(done, n_without_targets=n - done.n_users)


def _users(held_out: HeldOut, lo: int, hi: int) -> HeldOut:
    """Some of the users."""
    targets, times = held_out.targets, held_out.target_times
    return HeldOut(
        held_out.histories[lo:hi],
        targets[lo:hi],
        held_out.user_ids[lo:hi],
        held_out.item_ids,
        held_out.ordered and held_out.ordered.select_users(positions=np.arange(lo, hi)),
        None if times is None else times[targets.indptr[lo] : targets.indptr[hi]],
    )


def _loaded(model: Recommender | str | os.PathLike[str]) -> Recommender:
    return persist.load(model) if isinstance(model, (str, os.PathLike)) else model


@contextmanager
def _file_of(model: Recommender | str | os.PathLike[str], folder: Path) -> Iterator[str]:
    """The path of the model's file; one that was made for this call is removed at the end."""
    if isinstance(model, (str, os.PathLike)):
        persist.load(model)  # an error here is better than one on every worker
        yield os.path.abspath(model)
        return
    path = folder.absolute() / f".offdiag-model-{secrets.token_hex(8)}.od"
    try:
        model.save(path)
        yield str(path)
    finally:
        with suppress(OSError):
            path.unlink()


def _model_at(path: str) -> Recommender:
    try:
        found = os.stat(path)
    except OSError as error:
        raise OffdiagError(
            f"a worker cannot read the model {path!r} ({error.strerror}); give the path of a file that all can"
        ) from None
    return _mapped(path, found.st_mtime_ns, found.st_size)


@lru_cache(1)
def _mapped(path: str, changed: int, size: int) -> Recommender:
    """Mapped once per worker; workers of one machine share its pages."""
    return persist.load(path, verify=False)


def _write(path: str, part: Part, item_ids: NDArray[Any], out: str, k: int, options: dict[str, Any]) -> Written:
    return _model_at(path).recommend_to(out, interactions_of(part, item_ids), k, **options)


def _measure(path: str, held_out: HeldOut, metrics: list[str], options: dict[str, Any]) -> Result:
    return evaluate_here(_model_at(path), held_out, metrics, **options)
