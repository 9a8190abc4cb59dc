"""Networks scored like matrices: an embedding of the history, then inner products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import Tiled, encode_rows, inner_products

ACTIVATIONS = ("identity", "tanh", "sigmoid")  # stored by position: append, never reorder
Layer = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Network(Tiled):
    """h₀ = x or x/‖x‖, h_l = f_l(h_(l−1) W_l + b_l), scores h W_Lᵀ + b_L: any number of layers, of any width.

    The first and the last matrix have a row per item, so a history gathers rows of the first and an item's score is
    an inner product with a row of the last; the matrices between are (from, to).
    """

    kind: ClassVar[str] = "network"
    linear: ClassVar[bool] = False
    batch_invariant: ClassVar[bool] = False
    layers: tuple[Layer, ...]  # (m, w₁), (w₁, w₂), …, (m, w_(L−1)), each with its bias
    activations: tuple[str, ...]  # of all layers but the last
    normalise: bool  # whether the history is divided by its Euclidean length first

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.layers[0][0]), len(self.layers[-1][0])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.layers[0][0].dtype

    def encode(self, X: sparse.csr_array) -> Floats:
        """The input of the last layer, a row per user."""
        data = unit_rows(X) if self.normalise else X.data
        rows = sparse.csr_array((data.astype(self.dtype), X.indices, X.indptr), shape=X.shape)
        hidden = encode_rows(rows, self.layers[0][0])
        for at, (name, (W, b)) in enumerate(zip(self.activations, self.layers[:-1], strict=True)):
            if at > 0:
                hidden = hidden @ W
            hidden += b
            _activate(name, hidden)
        return hidden

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.layers[-1][0], add=self.layers[-1][1])

    def scaled(self, columns: Floats) -> Network:
        columns = columns.astype(self.dtype, copy=False)
        W, b = self.layers[-1]
        return replace(self, layers=(*self.layers[:-1], (W * columns[:, None], b * columns)))

    def column(self, items: Ints, target: int) -> Floats:
        raise OffdiagError("a non-linear net has no matrix: what one item adds to a score depends on the others")

    def toarray(self) -> Floats:
        raise OffdiagError("a non-linear net has no matrix; score histories with predict")

    def arrays(self) -> dict[str, NDArray[Any]]:
        form = [int(self.normalise), *(ACTIVATIONS.index(name) for name in self.activations)]
        named = {
            f"{name}{at}": array
            for at, pair in enumerate(self.layers, 1)
            for name, array in zip("Wb", pair, strict=True)
        }
        return named | {"form": np.array(form, dtype=np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        form = arrays["form"]
        if form.dtype != np.uint8 or form.ndim != 1 or not len(form) or form[0] > 1:
            raise ValueError("the form of the network is not known")
        if len(form) < 2 or form[1:].max() >= len(ACTIVATIONS) or len(arrays) != 2 * len(form) + 1:
            raise ValueError("the form of the network does not fit its layers")
        layers = tuple((arrays[f"W{at}"], arrays[f"b{at}"]) for at in range(1, len(form) + 1))
        widths = [b.shape[-1] if b.ndim == 1 else 0 for _, b in layers]
        if min(widths) < 1 or widths[-1] != m:
            raise ValueError(f"the network does not fit {m} items")
        expected = [(m, widths[0]), *pairwise(widths[:-1]), (m, widths[-2])]
        if [W.shape for W, _ in layers] != expected:
            raise ValueError(f"the layers of the network do not fit each other and {m} items")
        if {array.dtype.name for pair in layers for array in pair} not in ({"float32"}, {"float64"}):
            raise TypeError("the network is not of real numbers of one type")
        return cls(layers, tuple(ACTIVATIONS[code] for code in form[1:]), bool(form[0]))


def network(layers: Sequence[Layer], activation: str | Sequence[str], *, normalise: bool) -> Network:
    """A Network with one activation for all hidden layers, or one for each."""
    each = (activation,) * (len(layers) - 1) if isinstance(activation, str) else tuple(activation)
    return Network(tuple(layers), each, normalise)


def unit_rows(X: sparse.csr_array) -> NDArray[np.float64]:
    """The entries of X divided by the length of their row, summed in double precision."""
    lengths = np.diff(X.indptr)
    squares = np.append(X.data, 0).astype(np.float64) ** 2  # one extra entry, so that empty last rows have an index
    norms = np.sqrt(np.add.reduceat(squares, X.indptr[:-1]))
    return np.asarray(X.data / np.repeat(np.where(lengths > 0, norms, 1.0), lengths), dtype=np.float64)


def _activate(name: str, a: Floats) -> None:
    """f(a) in place."""
    if name == "sigmoid":  # (1 + tanh(a/2))/2 never overflows
        a *= 0.5
    if name != "identity":
        np.tanh(a, out=a)
    if name == "sigmoid":
        a += 1
        a *= 0.5
