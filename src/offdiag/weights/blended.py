"""Several weights as one: their scores are brought to one scale, user by user, and added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.heaps import top_k
from offdiag.weights.protocol import Floats, Ints, Tile, Weights
from offdiag.weights.tiles import KINDS, USERS_AT_ONCE, Tiled

BEST = 20  # the unit of a part, for one user: the mean of this many of its best scores of unseen items
NO_MATRIX = (
    "a blend is no matrix: how much its parts count depends on the history; score histories with predict, or look at "
    "the parts (weights_.parts)"
)


@dataclass(frozen=True, eq=False)
class Blended(Tiled):
    """Scores Σ_p shares_p·s_p/c_p, s_p the scores of part p and c_p the mean of its best 20 of unseen items.

    The scores of different models differ in scale, and the ratio differs from user to user; c_p is taken per user. A
    part whose best scores are not positive says nothing about a user and is left out for that user.
    ``powers`` are applied to the values of a history: with weights of age ρ^place a part sees (ρ^power)^place.
    """

    kind: ClassVar[str] = "blended"
    linear: ClassVar[bool] = False
    batch_invariant: ClassVar[bool] = False
    parts: tuple[Weights, ...]
    shares: NDArray[np.float64]  # (parts,), not negative
    powers: NDArray[np.float64]  # (parts,)
    heard: NDArray[np.float64]  # (m,) what the score of an item is multiplied by in the end

    @classmethod
    def of(
        cls, parts: Sequence[Weights], shares: NDArray[np.float64], powers: NDArray[np.float64] | None = None
    ) -> Self:
        """With powers of 1 if none are given."""
        powers = np.ones(len(parts)) if powers is None else powers
        return cls(tuple(parts), shares, powers, np.ones(parts[0].shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(part.dtype for part in self.parts))

    @property
    def additive(self) -> bool:
        return all(part.additive for part in self.parts)

    @property
    def lossy(self) -> bool:  # type: ignore[override]  # that of its parts
        return any(part.lossy for part in self.parts)

    def linear_parts(self, X: sparse.csr_array) -> list[tuple[Weights, sparse.csr_array]]:
        """Each part with the rows of X in the unit in which it counts."""
        rows = self._rows(X)
        factors = self._factors(rows)
        lengths = np.diff(X.indptr)
        return [
            pair
            for p, part in enumerate(self.parts)
            for pair in self._heard(part).linear_parts(
                _with_data(rows[p], rows[p].data * np.repeat(factors[:, p], lengths))
            )
        ]

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        rows = self._rows(X)
        factors, heard = self._factors(rows).astype(self.dtype), self.heard.astype(self.dtype)
        for lo, hi, scores in _common_tiles([_computed(part, x) for part, x in zip(self.parts, rows, strict=True)]):

            def score(first: int, last: int, lo: int = lo, hi: int = hi, scores: Sequence[Floats] = scores) -> Floats:
                out: Floats = scores[0][first:last] * factors[first:last, :1]
                for p, more in enumerate(scores[1:], 1):
                    out += more[first:last] * factors[first:last, p : p + 1]
                out *= heard[lo:hi]
                return out

            yield lo, hi, score

    def part_scores(self, X: sparse.csr_array) -> list[Floats]:
        """The scores of each part for all items, in its unit; shares are not applied."""
        rows = self._rows(X)
        units = replace(self, shares=np.ones(len(self.parts)))._factors(rows)
        return [(x @ part) * units[:, p : p + 1] for p, (part, x) in enumerate(zip(self.parts, rows, strict=True))]

    def _rows(self, X: sparse.csr_array) -> list[sparse.csr_array]:
        return [X if power == 1 else _with_data(X, X.data**power) for power in self.powers]

    def _factors(self, rows: list[sparse.csr_array]) -> NDArray[np.float64]:
        """What the scores of each part are multiplied by, for each user."""
        found = [unit(part, x) for part, x in zip(self.parts, rows, strict=True)]
        units = np.column_stack(found)
        return np.divide(self.shares, units, out=np.zeros_like(units), where=units > 0)

    def _heard(self, part: Weights) -> Weights:
        return part if (self.heard == 1).all() else part.scaled(self.heard)

    def scaled(self, columns: Floats) -> Blended:
        """The units of the parts stay as they are."""
        return replace(self, heard=self.heard * columns)

    def blended(self) -> tuple[Weights, ...]:
        return self.parts

    def with_parts(self, parts: Sequence[Weights]) -> Blended:
        return replace(self, parts=tuple(parts))

    def diagonal(self) -> NoReturn:
        raise OffdiagError(NO_MATRIX)

    def column(self, items: Ints, target: int) -> NoReturn:
        raise OffdiagError(NO_MATRIX)

    def toarray(self) -> NoReturn:
        raise OffdiagError(NO_MATRIX)

    def arrays(self) -> dict[str, NDArray[Any]]:
        kinds = np.array([part.kind for part in self.parts], dtype="S24").view(np.uint8)
        named = {f"{p}.{name}": array for p, part in enumerate(self.parts) for name, array in part.arrays().items()}
        return named | {"shares": self.shares, "powers": self.powers, "heard": self.heard, "kinds": kinds}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        shares, powers, heard, kinds = (arrays[name] for name in ("shares", "powers", "heard", "kinds"))
        n = len(shares)
        if any(array.dtype != np.float64 for array in (shares, powers, heard)):
            raise TypeError("the shares of the blend are not in double precision")
        if not n or shares.shape != (n,) or powers.shape != (n,) or heard.shape != (m,):
            raise ValueError("the shares of the blend do not fit its parts")
        if not (np.isfinite(shares).all() and (shares >= 0).all() and (powers >= 0).all()):
            raise ValueError("the shares of the blend are not positive numbers")
        if kinds.dtype != np.uint8 or kinds.shape != (24 * n,):
            raise ValueError("the kinds of the blend do not fit its parts")
        named = [bytes(kind).rstrip(b"\0").decode("ascii") for kind in kinds.reshape(n, 24)]
        parts = []
        for p, kind in enumerate(named):
            own = {name.removeprefix(f"{p}."): array for name, array in arrays.items() if name.startswith(f"{p}.")}
            parts.append(KINDS[kind].from_arrays(own, m))
        if len(arrays) != 4 + sum(len(part.arrays()) for part in parts):
            raise ValueError("the blend has arrays that belong to no part")
        return cls(tuple(parts), shares, powers, heard)


def unit(part: Weights, X: sparse.csr_array) -> NDArray[np.float64]:
    """The mean of the best scores of unseen items, per user; 0 where there is none."""
    _, best = top_k(part, X, min(BEST, X.shape[1]))
    there = np.isfinite(best)
    sums: NDArray[np.float64] = np.where(there, best, 0).sum(axis=1, dtype=np.float64)
    sums /= np.maximum(there.sum(axis=1), 1)
    return sums


def _computed(part: Weights, X: sparse.csr_array) -> Iterator[tuple[int, int, Floats]]:
    """The tiles of a part, each with the scores of all users."""
    from offdiag._kernels import parallel

    for lo, hi, score in part.score_tiles(X):
        scores = np.empty((X.shape[0], hi - lo), dtype=part.dtype)

        def fill(first: int, last: int, score: Any = score, scores: Floats = scores) -> None:
            scores[first:last] = score(first, last)

        parallel.run_parallel(fill, parallel.ranges(X.shape[0], -(-X.shape[0] // USERS_AT_ONCE)))
        yield lo, hi, scores


def _common_tiles(parts: list[Iterator[tuple[int, int, Floats]]]) -> Iterator[tuple[int, int, list[Floats]]]:
    """The parts have tiles of different widths; these end wherever one of theirs does, so each is computed once."""
    now = [next(part) for part in parts]
    lo = 0
    while True:
        hi = min(tile[1] for tile in now)
        yield lo, hi, [scores[:, lo - begin : hi - begin] for begin, _, scores in now]
        lo = hi
        for p, tile in enumerate(now):
            if tile[1] == hi and (following := next(parts[p], None)) is not None:
                now[p] = following
        if all(tile[1] == hi for tile in now):
            return


def _with_data(X: sparse.csr_array, data: NDArray[Any]) -> sparse.csr_array:
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
