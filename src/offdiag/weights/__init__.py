"""The shapes of W. All answer ``X @ W``, and yield the scores of many users tile by tile, never all at once."""

from typing import Any

from offdiag.weights.compressed import Compressed
from offdiag.weights.constant import Constant
from offdiag.weights.implicit_factors import ImplicitFactors
from offdiag.weights.low_rank import LowRank, Symmetric
from offdiag.weights.matrices import Dense, Packed
from offdiag.weights.networks import Network
from offdiag.weights.sparse import Sparse
from offdiag.weights.sparse_low_rank import Smoothed
from offdiag.weights.tiles import USERS_AT_ONCE, Tile, Weights

KINDS: dict[str, type[Any]] = {
    k.kind: k
    for k in (Packed, Dense, LowRank, Symmetric, Network, ImplicitFactors, Constant, Sparse, Smoothed, Compressed)
}

__all__ = [
    "KINDS",
    "USERS_AT_ONCE",
    "Compressed",
    "Constant",
    "Dense",
    "ImplicitFactors",
    "LowRank",
    "Network",
    "Packed",
    "Smoothed",
    "Sparse",
    "Symmetric",
    "Tile",
    "Weights",
]
