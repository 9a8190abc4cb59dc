"""Metrics of the service in the Prometheus format, summed over all its processes.

Every process owns one row of a shared array and writes nowhere else, so no lock is needed; any of them can report
for all. A restarted process continues with the row of its predecessor.
"""

from __future__ import annotations

import multiprocessing
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from offdiag.server.answers import QUESTIONS
from offdiag.server.lists import FALLBACK_REASONS
from offdiag.server.model import ServedModel

PATHS = (
    *("/", "/static", "/health", "/metrics", "/model", "/items", "/examples"),
    *(question.path for question in QUESTIONS),
    *("/docs", "/openapi.json", "unknown"),
)
STATUSES = (200, 206, 304, 307, 400, 401, 404, 405, 408, 409, 413, 416, 417, 422, 499, 500, 501, 503, 504, 505)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
_AT_STATUS = {status: at for at, status in enumerate(STATUSES)}
_AT_PATH = {path: at for at, path in enumerate(PATHS)}

# offset of each figure in a row
_ANSWERS = 0
_LATENCY = _ANSWERS + len(PATHS) * (len(STATUSES) + 1)
_LATENCY_SUM = _LATENCY + len(PATHS) * (len(SECONDS) + 1)
_BATCH = _LATENCY_SUM + len(PATHS)
_BATCH_SUM = _BATCH + len(SIZES) + 1
_RELOADS = _BATCH_SUM + 1  # done, failed
_IN_FLIGHT = _RELOADS + 2
_CONNECTIONS = _IN_FLIGHT + 1
_TURNED_AWAY = _CONNECTIONS + 1
_UNKNOWN = _TURNED_AWAY + 1
_FALLBACKS = _UNKNOWN + 1  # for an empty history, for one with only unknown ids
_DROPPED = _FALLBACKS + 2
WIDTH = _DROPPED + 1


class Counters:
    """``table`` is (processes, WIDTH) float64; ``row`` is the row that this process writes."""

    def __init__(self, table: NDArray[np.float64] | None = None, row: int = 0) -> None:
        self.table = np.zeros((1, WIDTH)) if table is None else table
        self.own = self.table[row]
        self.own[_IN_FLIGHT] = self.own[_CONNECTIONS] = 0  # left over from a process that died

    def begin(self) -> None:
        self.own[_IN_FLIGHT] += 1

    def end(self, path: str, status: int, seconds: float) -> None:
        own, at = self.own, _AT_PATH[path]
        own[_IN_FLIGHT] -= 1
        own[_ANSWERS + at * (len(STATUSES) + 1) + _AT_STATUS.get(status, len(STATUSES))] += 1
        own[_LATENCY + at * (len(SECONDS) + 1) + bisect_left(SECONDS, seconds)] += 1
        own[_LATENCY_SUM + at] += seconds

    def add_batch(self, size: int) -> None:
        self.own[_BATCH + bisect_left(SIZES, size)] += 1
        self.own[_BATCH_SUM] += size

    def set_connections(self, number: int) -> None:
        self.own[_CONNECTIONS] = number

    def turn_away(self) -> None:
        self.own[_TURNED_AWAY] += 1

    def drop_line(self) -> None:
        self.own[_DROPPED] += 1

    def add_answer(self, answer: dict[str, Any]) -> None:
        """Count unknown ids and fallbacks, because the answers themselves may never be looked at."""
        for one in answer.get("answers", [answer]):
            two = "lists" in one
            unknown, reasons = one.get("unknown", []), one.get("fallback_reason")
            self.own[_UNKNOWN] += sum(map(len, unknown)) if two else len(unknown)
            for reason in reasons if two else [reasons]:
                if reason is not None:
                    self.own[_FALLBACKS + FALLBACK_REASONS.index(reason)] += 1

    def add_reload(self, done: bool) -> None:
        self.own[_RELOADS + (not done)] += 1

    def text(self, models: Iterable[ServedModel]) -> bytes:
        """Prometheus text for all processes together."""
        return generate_latest(_Exposition(self.table, list(models)))


@dataclass(frozen=True)
class _Exposition:
    """A collector that reads the shared array only on demand, at no extra cost per request."""

    table: NDArray[np.float64]
    models: list[ServedModel]

    def collect(self) -> Iterator[Metric]:
        total = self.table.sum(axis=0)
        yield from _requests(total)
        sizes = HistogramMetricFamily("offdiag_batch_size", "Requests ranked by one call.")
        sizes.add_metric((), _buckets(SIZES, total[_BATCH:_BATCH_SUM]), total[_BATCH_SUM])
        yield sizes
        for family, name, about, label, values, first in _FIGURES:
            figure = family(name, about, labels=label)
            for at, value in enumerate(values):
                figure.add_metric(value, total[first + at])
            yield figure
        yield GaugeMetricFamily("offdiag_processes", "Processes that serve together.", len(self.table))
        when = "When the served file was loaded."
        loaded = GaugeMetricFamily("offdiag_model_loaded_timestamp_seconds", when, labels=("model",))
        items = GaugeMetricFamily("offdiag_model_items", "Items of the catalogue.", labels=("model",))
        for model in self.models:
            loaded.add_metric((model.name,), model.loaded)
            items.add_metric((model.name,), model.n_items)
        yield from (loaded, items)


_ONE = ((), ((),))  # no label, one value
_HISTORY = (("history",), tuple((reason,) for reason in FALLBACK_REASONS))
_OUTCOME = (("outcome",), (("done",), ("failed",)))
_FIGURES = (
    (GaugeMetricFamily, "offdiag_requests_in_flight", "Requests being answered now.", *_ONE, _IN_FLIGHT),
    (GaugeMetricFamily, "offdiag_connections", "Connections that are open now.", *_ONE, _CONNECTIONS),
    (CounterMetricFamily, "offdiag_connections_refused", "Connections beyond the limits.", *_ONE, _TURNED_AWAY),
    (CounterMetricFamily, "offdiag_unknown_ids", "Ids of requests that the catalogue did not have.", *_ONE, _UNKNOWN),
    (CounterMetricFamily, "offdiag_fallbacks", "Popular items instead, by history.", *_HISTORY, _FALLBACKS),
    (CounterMetricFamily, "offdiag_reloads", "Files of models or titles loaded again.", *_OUTCOME, _RELOADS),
    (CounterMetricFamily, "offdiag_log_lines_dropped", "Lines of the access log that were lost.", *_ONE, _DROPPED),
)


def _requests(total: NDArray[np.float64]) -> Iterator[Metric]:
    """Answers and their times, for the paths that were requested."""
    by_status = CounterMetricFamily(
        "offdiag_requests", "Requests answered, by path and status.", labels=("path", "status")
    )
    times = HistogramMetricFamily(
        "offdiag_request_seconds", "Time from the request to the end of its answer.", labels=("path",)
    )
    for at, path in enumerate(PATHS):
        for place, status in enumerate((*STATUSES, "other")):
            if count := total[_ANSWERS + at * (len(STATUSES) + 1) + place]:
                by_status.add_metric((path, str(status)), count)
        counts = total[_LATENCY + at * (len(SECONDS) + 1) :][: len(SECONDS) + 1]
        if counts.any():
            times.add_metric((path,), _buckets(SECONDS, counts), total[_LATENCY_SUM + at])
    yield from (by_status, times)


def _buckets(edges: Iterable[float], counts: NDArray[np.float64]) -> list[tuple[str, float]]:
    return list(zip((*map(str, edges), "+Inf"), np.cumsum(counts).tolist(), strict=True))


def shared_memory(processes: int) -> Any:
    """Memory for the counters of this many processes, to be passed to them; ctypes has no type for it."""
    return multiprocessing.get_context("spawn").RawArray("d", processes * WIDTH)


def counters_of(memory: Any, row: int) -> Counters:
    return Counters(np.frombuffer(memory, np.float64).reshape(-1, WIDTH), row)
