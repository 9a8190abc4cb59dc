"""One loaded model, with everything a request needs prepared: columns by id, titles, popularity order."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from offdiag import persist, ranking, wording
from offdiag.checks import is_number
from offdiag.data.catalogue import Catalogue
from offdiag.data.ids import of_type
from offdiag.errors import OffdiagError
from offdiag.files import container, switch
from offdiag.models.grouping import listed_groups
from offdiag.models.recommender import Recommender
from offdiag.server import schemas
from offdiag.server.search import Search
from offdiag.weights import Weights

Id = int | str  # of an item, as in JSON
Stamp = tuple[int, int, int]  # inode, modification time, size: a different stamp means a different file
ATTEMPTS = 5
EXAMPLES, EXAMPLE_LENGTH, NEAR = 4, 3, 40  # made-up histories, their items, and items too similar for another
ROWS_KEPT = 20_000  # rows of the catalogue that are kept as Python objects, the most requested ones
SAFE = 2**53 - 1  # the largest integer that every JSON parser keeps exact


def stamp(path: Path) -> Stamp | None:
    """The stamp of the current file; None if there is no file."""
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return None


def stamp_of(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size


class Row(NamedTuple):
    """A history as a row of numbers over the catalogue."""

    columns: list[int]  # ascending and distinct
    values: NDArray[np.floating] | None  # what each counts for; None: 1
    unknown: list[Id]  # ids that the model does not know, as received


class ServedModel:
    """A model as it is served. Nothing here changes after loading, so requests may use it from any thread."""

    def __init__(self, name: str, path: Path, titles: dict[str, str] | None = None) -> None:
        self.name = name
        self.path = path
        self.model, self.about, self.stamp = _load(path)
        self.loaded = time.time()
        self.weights = self.model.weights_
        self.recency = self.model.ask(1).recency  # as it was learned
        self.ids: list[Id] = self.model.item_ids_.tolist()
        self.n_items = len(self.ids)
        self.n_learned = self.weights.learned.shape[0]  # items that were added after the fit come after these
        self.new = np.arange(self.n_items) >= self.n_learned if self.n_learned < self.n_items else None
        self.column: dict[Id, int] = dict(zip(self.ids, range(self.n_items), strict=True))
        self._whole = self.model.item_ids_.dtype.kind in "iu"
        # Larger numbers are sent as text, since a browser would round them, and accepted as either.
        self.json_ids: list[Id] = [str(one) if isinstance(one, int) and abs(one) > SAFE else one for one in self.ids]
        self.column.update(zip(self.json_ids, range(self.n_items), strict=True))
        self.catalogue = self.model.catalogue_
        self.titles, self.untitled = self._titles(titles or {})
        shown = [] if self.catalogue is None else [name for name in self.catalogue.columns if name != "title"]
        self.shown = tuple(shown)  # the columns of the catalogue besides the title
        # Not a method of this object: the cycle would keep the file of a replaced model mapped.
        self._row = lru_cache(ROWS_KEPT)(partial(_shown_cells, self.catalogue, self.ids))
        popularity = self.model.popularity_
        self.shares: NDArray[np.float64] = popularity / max(popularity.sum(), 1.0)
        self.card = self._valid_card()
        known = getattr(self.model, "counts_users_", False) is True
        self.users = np.clip(popularity / max(self.card["n_users"], 1), 0.0, 1.0) if known else None
        self.order: NDArray[np.int64] = np.argsort(-self.shares, kind="stable")
        if self.n_items:
            self._warm()

    @cached_property
    def search(self) -> Search:
        return Search(self.titles, self.order.tolist())

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The group of each item; an error if it has none."""
        return listed_groups(self.model)

    @cached_property
    def examples(self) -> list[list[int]]:
        return made_up_histories(self.weights, self.order.tolist())

    def columns(self, ids: Iterable[Id]) -> tuple[list[int], list[Id]]:
        """Columns of the known ids, ascending and distinct, and the unknown ids as received."""
        known: set[int] = set()
        unknown: list[Id] = []
        column = self.column
        for item in ids:
            place = column.get(item)
            if place is None:
                place = self.find(item)
            if place is None:
                unknown.append(item)
            else:
                known.add(place)
        return sorted(known), unknown

    def row(self, ids: list[Id], times: NDArray[np.float64] | None, recency: ranking.Recency | None) -> Row:
        """A history as a row of numbers: of ones, or with a recency by the age of each choice."""
        if recency is None:
            known, unknown = self.columns(ids)
            return Row(known, None, unknown)
        places = [-1 if (place := self.find(item)) is None else place for item in ids]
        unknown = [item for item, place in zip(ids, places, strict=True) if place < 0]
        columns = np.array(places, np.int64)
        entries = ranking.Entries(np.array([0, len(ids)]), columns, np.ones(len(ids)), unknown, times)
        X, _ = ranking.rows(entries, self.n_items, recency)
        return Row(X.indices.tolist(), X.data, unknown)

    def find(self, item: Id) -> int | None:
        """The column of an id, given as number or text; None if the model does not know it."""
        place = self.column.get(item)
        return self.column.get(of_type(item, self._whole)) if place is None else place

    def item(self, column: int) -> dict[str, Any]:
        """An item of an answer: id, title, and what else the catalogue says about it."""
        item = {"id": self.json_ids[column], "title": self.titles[column]}
        if self.shown:
            item |= self._row(column)
        return item if column < self.n_learned else item | {"new": True}

    def like(self, column: int) -> list[dict[str, Any]]:
        """The items that a new item is like, with the weights of its mixture, strongest first."""
        grown: Any = self.weights
        found = grown.likeness(column - self.n_learned)
        return [{**self.item(other), "weight": weight} for other, weight in found]

    def _titles(self, given: dict[str, str]) -> tuple[list[str], int]:
        """The title of each column, as given, of the catalogue, or its id; and how many have only the id."""
        own = [None] * self.n_items if self.catalogue is None else self.catalogue.column("title", self.model.item_ids_)
        names = [str(one) for one in self.ids]
        found = [given.get(name) or title for name, title in zip(names, own, strict=True)]
        return [str(title or name) for title, name in zip(found, names, strict=True)], sum(not one for one in found)

    def _warm(self) -> None:
        """Compile or load every loop that a request uses."""
        one = rows([np.zeros(1, np.int32)], self.n_items)
        ranking.top_k(self.weights, one, 1)
        _ = one @ self.weights
        with suppress(OffdiagError):  # a model without reasons reports that on request
            self.weights.column(np.zeros(1, np.int64), 0)

    def prepare(self) -> None:
        """Make what speeds up lists, and compile the loops that use it."""
        if self.weights.prepare_lists():
            ranking.top_k(self.weights, rows([np.zeros(1, np.int32)], self.n_items), 1)

    def _valid_card(self) -> dict[str, Any]:
        """The answer of ``/model``. A file with a forged or damaged description is rejected now, not at a request."""
        about = self.about
        try:
            card = {
                "name": self.name,
                "class": about["model"],
                **{name: about[name] for name in ("weights", "settings", "n_users", "n_items")},
                "new_items": self.n_items - self.n_learned,
                "metrics": _metrics(about.get("metrics")),
                **{name: about[name] for name in ("created", "bytes", "updatable")},
                "columns": [] if self.catalogue is None else list(self.catalogue.columns),
                "ordered": self.recency is not None,
                "loaded": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(self.loaded)),
                "fingerprint": about["fingerprint"],
            }
            schemas.Card.model_validate({**card, "models": []})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = wording.one_line(error)
            raise OffdiagError(f"the description in {str(self.path)!r} does not describe a model: {what}") from None
        return card


def _shown_cells(catalogue: Catalogue | None, ids: list[Id], column: int) -> dict[str, Any]:
    row = {} if catalogue is None else catalogue.row(ids[column])
    return {name: cell for name, cell in row.items() if name != "title"}


def rows(
    histories: list[NDArray[np.int32]], n_items: int, values: list[NDArray[np.floating]] | None = None
) -> csr_array:
    """Histories as the rows of a matrix; each holds ascending columns, each of which counts 1 or its value."""
    ends = np.cumsum([0, *map(len, histories)], dtype=np.int32)
    indices = np.concatenate(histories) if histories else np.empty(0, np.int32)
    data = np.concatenate(values) if values else np.ones(len(indices), np.float32)
    return csr_array((data, indices, ends), shape=(len(histories), n_items))


def _load(path: Path) -> tuple[Recommender, dict[str, Any], Stamp]:
    """The model, its description, and the stamp of the file that both were read from."""
    for _ in range(ATTEMPTS):
        before = stamp(path)
        model = persist.load(path)
        about = _describe(path)
        if before is not None and before == stamp(path):
            return model, about, before
    raise OffdiagError(f"the model file {str(path)!r} is replaced faster than it can be read; try again later")


def _describe(path: Path) -> dict[str, Any]:
    with container.opened(path) as file:
        header = container.read_header(path, file)
    content = hashlib.sha256("".join(header.digests).encode()).hexdigest()
    has_living_state = switch.living_path(Path(os.path.realpath(path))).exists()
    updatable = has_living_state or any(name.startswith("gram.") for name in header.tensors)
    return {**header.about, "bytes": header.size, "fingerprint": content, "updatable": updatable}


def _metrics(stored: Any) -> dict[str, Any] | None:
    """{"ndcg@100": {"mean", "sem"}} from the metrics given to ``save``: a Result, or plain numbers."""
    if not isinstance(stored, dict):
        return None
    mean, sem = (stored["mean"], stored.get("sem")) if isinstance(stored.get("mean"), dict) else (stored, None)
    baseline = stored.get("popularity")
    errors, popular = _numbers(sem), _numbers(baseline.get("mean") if isinstance(baseline, dict) else None)
    return {
        name: {"mean": value, "sem": errors.get(name), "popularity": popular.get(name)}
        for name, value in _numbers(mean).items()
    } or None


def _numbers(values: Any) -> dict[str, float]:
    return {name: value for name, value in values.items() if is_number(value)} if isinstance(values, dict) else {}


def made_up_histories(weights: Weights, order: list[int]) -> list[list[int]]:
    """Columns of items that go together: each history is a popular item and its best recommendations.

    Items near an earlier example start none of their own, so that examples differ.
    """
    m, near, found = len(order), set[int](), list[list[int]]()
    for first in order:
        if first in near:
            continue
        alike = ranking.top_k(weights, rows([np.array([first], np.int32)], m), min(NEAR, m))[0][0].tolist()
        found.append([first, *(column for column in alike[: EXAMPLE_LENGTH - 1] if column >= 0)])
        near.update([first, *alike])
        if len(found) == EXAMPLES:
            break
    return found
