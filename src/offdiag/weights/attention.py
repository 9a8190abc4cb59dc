"""Self-attention over an ordered history, scored without torch: the state after the last item, then inner products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import Tiled, inner_products

EPSILON = 1e-8  # added to the variances of the layer norms
LONGEST = 50  # with one more event to predict, its places fit the 53 bits of a double
USERS_AT_ONCE = 512  # whose states are computed together
MATRICES = ("query", "key", "value", "first", "second")  # of a block, each (width, width)
VECTORS = ("first_bias", "second_bias", "scale", "offset", "scale2", "offset2")  # of a block, each (width,)


class Padded(NamedTuple):
    """Sequences of one length, the latest item last; shorter ones begin with empty places."""

    items: Ints  # (users, length)
    filled: NDArray[np.bool_]  # (users, length)


@dataclass(frozen=True, eq=False)
class SelfAttention(Tiled):
    """Blocks of attention and a point-wise net, each after a layer norm and added to its input [Kang18].

    A row of X holds an ordered history: an item that came p places before the last adds 2^−p, so that a double holds
    the places of all repeats. Scores are inner products of the last state with the vectors of the items.
    """

    kind: ClassVar[str] = "self_attention"
    linear: ClassVar[bool] = False
    batch_invariant: ClassVar[bool] = False
    parameters: dict[str, Floats]  # by name: items, places, scale, offset, and those of the blocks, query0, …

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.parameters["items"]), len(self.parameters["items"])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.parameters["items"].dtype

    def encode(self, X: sparse.csr_array) -> Floats:
        """The state after the last item of each history (n, width); 0 without a history."""
        items = self.parameters["items"]
        out = np.zeros((X.shape[0], items.shape[1]), dtype=items.dtype)
        order = np.argsort(np.diff(X.indptr), kind="stable")  # an empty place costs as much as a full one
        for lo in range(0, X.shape[0], USERS_AT_ONCE):
            rows = order[lo : lo + USERS_AT_ONCE]
            some = padded(X[rows], len(self.parameters["places"]))
            if some.items.shape[1]:
                out[rows] = np.where(some.filled[:, -1:], last_states(self.parameters, some), 0)
        return out

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.parameters["items"])

    def scaled(self, columns: Floats) -> SelfAttention:
        raise OffdiagError("the scores of self-attention cannot be scaled: its vectors read the history, too")

    def column(self, items: Ints, target: int) -> Floats:
        raise OffdiagError("self-attention has no matrix: what one item adds to a score depends on the others")

    def toarray(self) -> Floats:
        raise OffdiagError("self-attention has no matrix; score histories with predict")

    def arrays(self) -> dict[str, NDArray[Any]]:
        form = np.array([len(self.parameters["places"]), _n_blocks(self.parameters)], dtype=np.uint8)
        return self.parameters | {"form": form}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        parameters = {name: array for name, array in arrays.items() if name != "form"}
        items, form = arrays["items"], arrays["form"]
        if items.ndim != 2 or len(items) != m or items.shape[1] < 1:
            raise ValueError(f"the vectors do not fit {m} items")
        if form.dtype != np.uint8 or form.shape != (2,) or not 1 <= form[0] <= LONGEST or form[1] < 1:
            raise ValueError("the form of the attention is not known")
        expected = shapes(m, items.shape[1], *form.tolist())
        if {name: array.shape for name, array in parameters.items()} != expected:
            raise ValueError("the parts of the attention do not fit each other")
        if {array.dtype.name for array in parameters.values()} not in ({"float32"}, {"float64"}):
            raise TypeError("the attention is not of real numbers of one type")
        return cls(parameters)


def shapes(m: int, width: int, length: int, blocks: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all parameters."""
    out: dict[str, tuple[int, ...]] = {"items": (m, width), "places": (length, width)}
    for n in range(blocks):
        out |= {f"{name}{n}": (width, width) for name in MATRICES} | {f"{name}{n}": (width,) for name in VECTORS}
    return out | {"scale": (width,), "offset": (width,)}


def padded(X: sparse.csr_array, length: int) -> Padded:
    """The last ``length`` events of each row, from the bits of its values."""
    value = np.where(X.data < 2, X.data, 1.0).astype(np.float64)  # a plain count: the last choice
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    events = []
    for place in range(LONGEST + 2):
        has = np.flatnonzero(np.floor(value * 2.0**place) % 2 == 1)
        events.append(np.stack([rows[has], X.indices[has]]))
    row, item = np.concatenate(events, axis=1)  # latest first
    order = np.argsort(row, kind="stable")
    row, item = row[order], item[order]
    starts = np.searchsorted(row, np.arange(X.shape[0] + 1))
    place = np.arange(len(row)) - starts[row]
    kept = place < length
    longest = int(np.minimum(np.diff(starts), length).max(initial=0))
    items = np.zeros((X.shape[0], longest), dtype=np.int64)
    filled = np.zeros(items.shape, dtype=np.bool_)
    items[row[kept], longest - 1 - place[kept]] = item[kept]
    filled[row[kept], longest - 1 - place[kept]] = True
    return Padded(items, filled)


def last_states(parameters: Mapping[str, Floats], some: Padded) -> Floats:
    """The state at the last place of each sequence."""
    items, places = parameters["items"], parameters["places"]
    length, width = some.items.shape[1], items.shape[1]
    filled = some.filled[:, :, None]
    x = (items[some.items] * width**0.5 + places[length - 1 :: -1][:length]) * filled
    # Only earlier places are seen, and no empty ones; an empty place sees itself, so that its sum is not 0.
    visible = np.tri(length, dtype=np.bool_) & some.filled[:, None, :] | np.eye(length, dtype=np.bool_)
    for n in range(_n_blocks(parameters)):
        part = {name: parameters[f"{name}{n}"] for name in (*MATRICES, *VECTORS)}
        y = _normed(x, part["scale"], part["offset"])
        strength = (y @ part["query"]) @ (y @ part["key"]).transpose(0, 2, 1) / np.sqrt(width).astype(x.dtype)
        strength = np.where(visible, strength, -np.inf)
        share = np.exp(strength - strength.max(axis=2, keepdims=True))
        x = x + (share / share.sum(axis=2, keepdims=True)) @ (y @ part["value"])
        y = _normed(x, part["scale2"], part["offset2"])
        y = np.maximum(y @ part["first"] + part["first_bias"], 0)
        x = (x + y @ part["second"] + part["second_bias"]) * filled
    return _normed(x[:, -1], parameters["scale"], parameters["offset"])


def _n_blocks(parameters: Mapping[str, Any]) -> int:
    return sum(name.startswith("query") for name in parameters)


def _normed(x: Floats, scale: Floats, offset: Floats) -> Floats:
    centred = x - x.mean(axis=-1, keepdims=True)
    out: Floats = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + x.dtype.type(EPSILON)) * scale + offset
    return out
