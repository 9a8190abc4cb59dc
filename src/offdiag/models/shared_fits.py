"""Sparse models with many settings, fitted on the same interactions: what does not depend on the settings is shared.

Each is what its own ``fit`` would have made of the data, to the very bit; ``od.tune`` is the one who needs many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.models import auto
from offdiag.models.fields import number
from offdiag.models.side_information import side_of
from offdiag.models.source import read_data
from offdiag.models.sparse import SparseEDLAE
from offdiag.progress import Progress
from offdiag.solvers import precision, shared_columns
from offdiag.solvers.shared_columns import WholeGram
from offdiag.solvers.support import Supports

MOST_GRAMS = 5
Fitted = SparseEDLAE | OffdiagError


class SharedFits:
    """Fits of one set of interactions; holds the Grams of the last few values of ``user_power``."""

    def __init__(self, X: Any) -> None:
        self._matrix, self._source = read_data(X)
        self._grams: dict[tuple[float, str], WholeGram] = {}
        there = memory.available()
        self._room = (1 << 62) if there is None else there // 4
        self.possible = shared_columns.bytes_needed(self._matrix) <= self._room

    def takes(self, model: object) -> bool:
        """Whether a fit of this model can be shared: columns only, of any length."""
        return self.possible and type(model) is SparseEDLAE and not model.rank and model.max_bytes is None

    def at_once(self, models: list[SparseEDLAE]) -> int:
        """How many of these models can be in memory at the same time."""
        m = self._matrix.shape[1]
        most = max((model.neighbours for model in models if not isinstance(model.neighbours, str)), default=500)
        return int(max(1, min(self._room // max(2 * m * min(most, m) * (4 + 8), 1), len(models))))

    def fit(self, models: list[SparseEDLAE], progress: Progress | None = None) -> Iterator[Fitted]:
        """Solve all, then give each one fitted, or the error that its own fit would have raised.

        Only the weights of the one that is given are in memory as rows.
        """
        found = {n: self._prepare(model, progress) for n, model in enumerate(models)}
        ready = {n: one for n, one in found.items() if isinstance(one, _Ready)}
        solved: dict[int, _Solved | OffdiagError] = {}
        for kind in {one.kind: None for one in ready.values()}:
            whole = self._gram(kind, progress)
            solved |= _solve(whole, {n: one for n, one in ready.items() if one.kind == kind}, progress)

        def finished() -> Iterator[Fitted]:
            for n, model in enumerate(models):
                one, columns = found[n], solved.pop(n, None)
                if isinstance(one, OffdiagError):
                    yield one
                elif isinstance(columns, _Solved):
                    yield self._finish(model, one.used, columns)
                elif columns is not None:
                    yield columns

        return finished()

    def _prepare(self, model: SparseEDLAE, progress: Progress | None) -> _Ready | OffdiagError:
        try:
            settings = model._valid_settings()
            side_of(model, self._source.item_ids)
            k = model._check_memory(self._matrix.shape[1], self._matrix.nnz, settings)
            used = model._with(settings)
            auto.from_data(self._matrix, used, progress=progress)
        except NotEnoughMemory:
            raise
        except OffdiagError as error:
            return error
        return _Ready(used, k)

    def _gram(self, kind: tuple[float, str], progress: Progress | None) -> WholeGram:
        whole = self._grams.pop(kind, None) or WholeGram.count(self._matrix, *kind, progress)
        while len(self._grams) >= max(min(MOST_GRAMS, self._room // max(whole.nbytes, 1)), 1):
            self._grams.pop(next(iter(self._grams)))
        self._grams[kind] = whole  # the one used last is dropped last
        return whole

    def _finish(self, model: SparseEDLAE, used: SparseEDLAE, columns: _Solved) -> Fitted:
        if columns.explained.min(initial=0.0) < 0:
            return precision.singular(np.dtype(model.dtype))
        whole = columns.whole
        return model._finish(
            columns.supports, whole.rank, whole.g, columns.explained, whole.G.scale, used._settings(),
            **vars(self._source),
        )._keep_features(None)  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Ready:
    """A model in which every "auto" is replaced, and its number of neighbours."""

    used: SparseEDLAE
    neighbours: int

    @property
    def kind(self) -> tuple[float, str]:
        """Fits with the same Gram have the same kind."""
        return float(number(self.used.user_power)), self.used.dtype


@dataclass(frozen=True, eq=False)
class _Solved:
    whole: WholeGram
    supports: Supports
    explained: NDArray[np.float64]


def _solve(whole: WholeGram, models: dict[int, _Ready], progress: Progress | None) -> dict[int, _Solved | OffdiagError]:
    """The columns of each model, by its number; all have this Gram."""
    found: dict[int, _Solved | OffdiagError] = {}
    H = {}
    for n, one in models.items():
        try:
            H[n] = one.used._penalise(whole.g, whole.G.scale)
        except OffdiagError as error:
            found[n] = error
    if H:
        neighbours, dtype = [models[n].neighbours for n in H], models[next(iter(H))].used.dtype
        columns = shared_columns.solve(whole, list(H.values()), neighbours, dtype, progress=progress)
        found |= {n: _Solved(whole, *one) for n, one in zip(H, columns, strict=True)}
    return found
