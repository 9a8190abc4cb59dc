"""Numbers about the service, as Prometheus reads them; processes that serve together add theirs up.

Every process owns one row of an array that all of them share, and writes nowhere else, so nothing needs a lock; any
of them can answer for all. A process that is started again goes on with the row of the one before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

PATHS = (
    "/", "/static", "/health", "/metrics", "/model", "/items", "/recommend", "/similar", "/explain", "/pair",
    "/compare", "/docs", "/openapi.json", "unknown",
)  # fmt: skip
STATUSES = (200, 206, 304, 307, 400, 401, 404, 405, 408, 409, 413, 416, 417, 422, 499, 500, 501, 503, 504, 505)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
_AT_STATUS = {status: at for at, status in enumerate(STATUSES)}
_AT_PATH = {path: at for at, path in enumerate(PATHS)}

# where each figure stands in a row
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
_FALLBACKS = _UNKNOWN + 1  # for an empty history, for one of unknown ids
_DROPPED = _FALLBACKS + 2
WIDTH = _DROPPED + 1


class Counters:
    """``table`` is (processes, WIDTH) float64; ``row`` is the one this process writes."""

    def __init__(self, table: NDArray[np.float64] | None = None, row: int = 0) -> None:
        self.table = np.zeros((1, WIDTH)) if table is None else table
        self.own = self.table[row]
        self.own[_IN_FLIGHT] = self.own[_CONNECTIONS] = 0  # of a process that died here before

    def begin(self) -> None:
        self.own[_IN_FLIGHT] += 1

    def end(self, path: str, status: int, seconds: float) -> None:
        own, at = self.own, _AT_PATH[path]
        own[_IN_FLIGHT] -= 1
        own[_ANSWERS + at * (len(STATUSES) + 1) + _AT_STATUS.get(status, len(STATUSES))] += 1
        own[_LATENCY + at * (len(SECONDS) + 1) + bisect_left(SECONDS, seconds)] += 1
        own[_LATENCY_SUM + at] += seconds

    def batch(self, size: int) -> None:
        self.own[_BATCH + bisect_left(SIZES, size)] += 1
        self.own[_BATCH_SUM] += size

    def connected(self, number: int) -> None:
        self.own[_CONNECTIONS] = number

    def turn_away(self) -> None:
        self.own[_TURNED_AWAY] += 1

    def drop_line(self) -> None:
        self.own[_DROPPED] += 1

    def unknown(self, number: int) -> None:
        self.own[_UNKNOWN] += number

    def fallback(self, unknown: bool) -> None:
        self.own[_FALLBACKS + unknown] += 1

    def reload(self, done: bool) -> None:
        self.own[_RELOADS + (not done)] += 1

    def text(self, models: Iterable[Any]) -> str:
        """Prometheus text of all processes together; ``models`` have a name, a time of loading and a size."""
        total = self.table.sum(axis=0)
        lines = _family("offdiag_requests_total", "counter", "Requests answered, by path and status.")
        lines += _answers(total)
        lines += _family("offdiag_request_seconds", "histogram", "Time from the request to the end of its answer.")
        for at, path in enumerate(PATHS):
            counts = total[_LATENCY + at * (len(SECONDS) + 1) :][: len(SECONDS) + 1]
            if counts.any():
                lines += _histogram("offdiag_request_seconds", SECONDS, counts, total[_LATENCY_SUM + at], path)
        lines += _family("offdiag_batch_size", "histogram", "Requests ranked by one call.")
        lines += _histogram("offdiag_batch_size", SIZES, total[_BATCH:_BATCH_SUM], total[_BATCH_SUM])
        lines += _family("offdiag_requests_in_flight", "gauge", "Requests being answered now.")
        lines.append(f"offdiag_requests_in_flight {_number(total[_IN_FLIGHT])}")
        lines += _family("offdiag_connections", "gauge", "Connections that are open now.")
        lines.append(f"offdiag_connections {_number(total[_CONNECTIONS])}")
        lines += _family("offdiag_connections_refused_total", "counter", "Connections beyond the limits.")
        lines.append(f"offdiag_connections_refused_total {_number(total[_TURNED_AWAY])}")
        lines += _family("offdiag_unknown_ids_total", "counter", "Ids of requests that the catalogue did not have.")
        lines.append(f"offdiag_unknown_ids_total {_number(total[_UNKNOWN])}")
        lines += _family("offdiag_fallbacks_total", "counter", "Lists of popular items, by what the history was.")
        for at, history in enumerate(("empty", "unknown")):
            lines.append(f'offdiag_fallbacks_total{{history="{history}"}} {_number(total[_FALLBACKS + at])}')
        lines += _family("offdiag_reloads_total", "counter", "Files of models or titles loaded again, by outcome.")
        for at, outcome in enumerate(("done", "failed")):
            lines.append(f'offdiag_reloads_total{{outcome="{outcome}"}} {_number(total[_RELOADS + at])}')
        lines += _family("offdiag_log_lines_dropped_total", "counter", "Lines of the access log that nobody took.")
        lines.append(f"offdiag_log_lines_dropped_total {_number(total[_DROPPED])}")
        lines += _family("offdiag_processes", "gauge", "Processes that serve together.")
        lines.append(f"offdiag_processes {len(self.table)}")
        known = list(models)
        lines += _family("offdiag_model_loaded_timestamp_seconds", "gauge", "When the served file was loaded.")
        lines += [f'offdiag_model_loaded_timestamp_seconds{{model="{_label(m.name)}"}} {m.loaded:.3f}' for m in known]
        lines += _family("offdiag_model_items", "gauge", "Items of the catalogue.")
        lines += [f'offdiag_model_items{{model="{_label(m.name)}"}} {m.n_items}' for m in known]
        return "\n".join(lines) + "\n"


def _answers(total: NDArray[np.float64]) -> list[str]:
    lines = []
    for at, path in enumerate(PATHS):
        for place, status in enumerate((*STATUSES, "other")):
            count = total[_ANSWERS + at * (len(STATUSES) + 1) + place]
            if count:
                lines.append(f'offdiag_requests_total{{path="{path}",status="{status}"}} {_number(count)}')
    return lines


def _histogram(
    name: str, edges: Iterable[float], counts: NDArray[np.float64], total: float, path: str | None = None
) -> list[str]:
    label = "" if path is None else f'path="{path}",'
    own = "" if path is None else f'{{path="{path}"}}'
    running = np.cumsum(counts)
    lines = [
        f'{name}_bucket{{{label}le="{edge}"}} {_number(n)}' for edge, n in zip((*edges, "+Inf"), running, strict=True)
    ]
    return [*lines, f"{name}_sum{own} {float(total)!r}", f"{name}_count{own} {_number(running[-1])}"]


def _family(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _number(value: float) -> str:
    return str(int(value))


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
