"""What ranking, models, compression and files need from W; ``offdiag.weights.tiles.Tiled`` implements most of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
Scores = Callable[[int, int], Floats]  # of users first..last, from any thread
Tile = tuple[int, int, Scores]  # (lo, hi, score): the scores of items lo..hi
Select = Callable[[int, int], None]  # puts the best items of users first..last into their heaps, from any thread
Side = Literal["encoder", "decoder"]


class Scorer(Protocol):
    """Scores of all items for rows of X: all that a ranked list needs."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @abstractmethod
    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        """The items in blocks, each with a function, valid until the next block, that scores any range of users."""

    def selector(
        self, X: sparse.csr_array, seen_ptr: NDArray[Any], allowed: NDArray[np.bool_], scores: Floats, items: Ints
    ) -> Select | None:
        """Lists without tiles, for weights where few items have a score; None if every item has one."""
        return None

    def row(self, item: int) -> Floats | None:
        """Row ``item`` of W, without compiled loops; None if that is not possible."""
        return None


class Weights(Scorer, Protocol):
    """W of m items. A new shape is one file with a subclass of ``Tiled`` and its import in ``offdiag.weights``."""

    kind: ClassVar[str]  # as in files
    linear: ClassVar[bool]  # the scores are X @ toarray()
    batch_invariant: ClassVar[bool]  # a score has the same bits in a batch of any size
    compound: ClassVar[bool]  # a sum of parts that cannot be separated in W
    lossy: ClassVar[bool]  # some fitted weights were dropped or rounded
    takes_dislikes: ClassVar[bool]  # a negative number in a row is a dislike, which has weights of its own

    @abstractmethod
    def blended(self) -> tuple[Weights, ...]:
        """The weights that it blends; none if it is no blend."""

    @abstractmethod
    def with_parts(self, parts: Sequence[Weights]) -> Weights:
        """The same blend of other weights."""

    @property
    @abstractmethod
    def additive(self) -> bool:
        """A score is a sum over the items of the history, as for every linear W: there are reasons for it."""

    @abstractmethod
    def linear_parts(self, X: sparse.csr_array) -> list[tuple[Weights, sparse.csr_array]]:
        """Linear weights, each with the rows it is applied to, whose scores add up to those of X."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...
    @property
    @abstractmethod
    def learned(self) -> Weights:
        """The weights of the fit, without items that were added after it."""

    @property
    @abstractmethod
    def nbytes(self) -> int: ...
    @property
    @abstractmethod
    def nnz(self) -> int | None:
        """Number of entries stored with their positions; None if positions are not stored."""

    @abstractmethod
    def prepare_lists(self) -> bool:
        """Make now what speeds up later lists, if this shape has anything; whether it has."""

    @abstractmethod
    def __rmatmul__(self, X: Any) -> Floats: ...

    @abstractmethod
    def scaled(self, columns: Floats) -> Weights:
        """The same scores with those of item i times columns[i]; large arrays are shared, not copied."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """How much each item predicts itself, as a new array."""

    @abstractmethod
    def column(self, items: Ints, target: int) -> Floats:
        """W[items, target]: how much each of the items predicts the target; items ascend."""

    @abstractmethod
    def contributions(self, items: Ints, values: Floats, target: int) -> NDArray[np.float64]:
        """What each entry of a history adds to the score of the target; items ascend."""

    @abstractmethod
    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        """Columns lo..hi of W as the rows of a C-contiguous array, which is ``out`` if given."""

    @abstractmethod
    def embedding(self, side: Side) -> Floats | None:
        """A row per item, U or V of W = UVᵀ; None if W is not such a product."""

    @abstractmethod
    def toarray(self) -> Floats: ...

    @abstractmethod
    def tocsr(self) -> sparse.csr_array: ...

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays stored in a file, by name."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        """The inverse of ``arrays``: KeyError, TypeError or ValueError unless they are safe for compiled loops.

        A file may contain anything.
        """
