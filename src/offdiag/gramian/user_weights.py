"""The weight of each user in a Gram, and the counts every Gram keeps about its users."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks

DIGITS = 24  # binary digits of a user weight
STEPS = 64  # grid steps per doubling of the common factor of the weights


class Facts(TypedDict):
    """Aggregate counts over all users, in addition to G."""

    activity: NDArray[np.int64]
    item_counts: NDArray[np.int64]
    item_sums: NDArray[np.float64]


def checked_power(user_power: Any) -> float:
    return float(checks.number("user_power", user_power, hint="; 0 weights all users alike"))


def weights_of(n_u: NDArray[Any], user_power: float) -> NDArray[np.float64]:
    """n_u^(-user_power) to 24 binary digits, and 0 for users without items.

    With so few digits, double-precision sums of weights are exact as long as the sum is below 2²⁹ times the smallest:
    then a Gram of 0/1 data does not depend on the order of users, or on users added and removed since.
    """
    n_u = np.asarray(n_u, dtype=np.float64)
    digits, exponent = np.frexp(np.power(n_u, -float(user_power), where=n_u > 0, out=np.zeros(len(n_u))))
    return np.asarray(np.ldexp(np.round(np.ldexp(digits, DIGITS)), exponent - DIGITS))


def scale_of(activity: NDArray[np.int64], user_power: float) -> float:
    """The factor s of all user weights, from how many users have n items (``activity[n]``)."""
    n = np.arange(len(activity), dtype=np.float64)
    return on_grid(float(activity @ n), float(activity @ (n * weights_of(n, user_power))))


def on_grid(interactions: float, weighted: float) -> float:
    """interactions/weighted, which makes the mean weight of an interaction 1, to the nearest power of 2^(1/STEPS).

    The exact ratio changes with every user added or removed, by a millionth or so, and with it the l2 of every column:
    no update could be exact without solving everything again. On a grid of 1.1 % it stays the same, and the mean's
    distance from 1 is far below the precision to which the best l2 is known.
    """
    if not weighted:
        return 1.0
    return float(2.0 ** (np.round(np.log2(interactions / weighted) * STEPS) / STEPS))


def user_weights(matrix: sparse.csr_array, user_power: float) -> NDArray[np.float64]:
    """The weight of each user in G: n_u^(−user_power) times the common scale; 0 for users without items."""
    n_u = np.diff(matrix.indptr)
    return weights_of(n_u, user_power) * scale_of(np.bincount(n_u), user_power)


def diagonal(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], weight: NDArray[np.float64], m: int
) -> NDArray[np.float64]:
    """diag(G) from the interactions; empty ``data`` means all values are 1. An overflow shows in the result."""
    squares = np.repeat(weight, np.diff(indptr))
    with np.errstate(over="ignore"):
        if len(data):
            squares *= data.astype(np.float64) ** 2
        return np.bincount(indices, weights=squares, minlength=m).astype(np.float64, copy=False)


def add_histograms(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of two histograms of different length, without trailing zeros (so equal data gives equal arrays)."""
    out = np.zeros(max(len(a), len(b)), dtype=np.int64)
    out[: len(a)] += a
    out[: len(b)] += b
    return out[: int(np.flatnonzero(out)[-1]) + 1] if out.any() else out[:0]


class Users:
    """The part of a Gram that does not depend on its storage: its facts, and what follows from them."""

    values: NDArray[np.floating]  # without the factor s
    activity: NDArray[np.int64]  # activity[n] = number of users with n interactions
    item_counts: NDArray[np.int64]  # users per item
    item_sums: NDArray[np.float64]  # column sums of X: the popularity of each item
    user_power: float

    @property
    def n_items(self) -> int:
        return len(self.item_sums)

    @property
    def n_users(self) -> int:
        return int(self.activity.sum())

    @property
    def n_interactions(self) -> int:
        return int(self.activity @ np.arange(len(self.activity)))

    @property
    def scale(self) -> float:
        return scale_of(self.activity, self.user_power)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def own_diagonal(self) -> NDArray[np.float64]:
        """diag(G) without the factor s."""
        raise NotImplementedError

    def diagonal(self) -> NDArray[np.floating]:
        """g = diag(G).

        Example:
            >>> import offdiag as od
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).diagonal().tolist()
            [1.0, 2.0, 1.0]
        """
        g: NDArray[np.floating] = self.own_diagonal().astype(self.dtype) * self.dtype.type(self.scale)
        return g

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays stored in a file.

        Example:
            >>> import offdiag as od
            >>> sorted(od.gram([[1, 1, 0], [0, 1, 1]]).arrays())
            ['activity', 'item_counts', 'item_sums', 'values']
        """
        return {
            field.name: getattr(self, field.name) for field in fields(cast(Any, self)) if field.name != "user_power"
        }

    def copy(self) -> Self:
        """The same Gram with numbers of its own.

        Example:
            >>> import offdiag as od
            >>> G = od.gram([[1, 1, 0], [0, 1, 1]])
            >>> od.EASE(l2=1.0).fit_gram(G.copy()).n_users_
            2
        """
        return self._with(self.values.copy())

    def astype(self, dtype: Any) -> Self:
        """A copy in another precision.

        Example:
            >>> import offdiag as od
            >>> od.gram([[1, 1, 0], [0, 1, 1]]).astype("float64").dtype
            dtype('float64')
        """
        return self._with(self.values.astype(dtype))

    def _with(self, values: NDArray[np.floating]) -> Self:
        changed: Self = replace(cast(Any, self), values=values)
        return changed

    def _moved_facts(self, at: NDArray[np.int64]) -> Facts:
        """The facts over another catalogue: its item i is item at[i] of this one, or new (−1)."""
        known = np.flatnonzero(at >= 0)
        counts, sums = np.zeros(len(at), dtype=np.int64), np.zeros(len(at))
        counts[known], sums[known] = self.item_counts[at[known]], self.item_sums[at[known]]
        return {"activity": self.activity, "item_counts": counts, "item_sums": sums}

    def _check_facts(self) -> None:
        """Check facts read from a file, because compiled loops trust them."""
        kinds = [array.dtype.name for array in (self.activity, self.item_counts, self.item_sums)]
        shapes = (self.activity.ndim, self.item_sums.ndim, self.item_counts.shape)
        if kinds != ["int64", "int64", "float64"] or shapes != (1, 1, self.item_sums.shape):
            raise TypeError("the counts of the Gram are of a wrong type")
