"""Checks of the matrices, probabilities and results of the lab's functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.errors import OffdiagError

Matrix = NDArray[np.float64]
LARGEST = 1e100  # squares, and products of two squares of smaller ones, still fit into float64
LEAST_KEEP = 1e-100  # kept values are divided by it and squared
P = ParamSpec("P")
T = TypeVar("T")


def numbers(values: Any, name: str, kind: str = "an array", *, largest: float = LARGEST) -> Matrix:
    """Finite float64 numbers of any shape, at most this large; rejects ragged lists, strings and complex numbers."""
    try:
        found = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # torch raises the last
        raise OffdiagError(
            f"{name} must be {kind} of numbers, received a {type(values).__name__} that is not one "
            f"({' '.join(str(error).split())}); give lists of equal length, or an array"
        ) from None
    if found.dtype.kind not in "buif":
        raise OffdiagError(f"{name} must be {kind} of numbers, received shape {found.shape} and type {found.dtype}")
    with np.errstate(over="ignore"):
        found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise OffdiagError(f"{name} holds NaN or infinite values; remove them first")
    if found.size and np.abs(found).max() > largest:
        raise OffdiagError(
            f"{name} must be at most {largest:g} in size, received {np.abs(found).max():g}, whose squares would "
            "overflow; scale the values down"
        )
    return found


def matrix(
    values: Any, name: str, shape: tuple[int | None, int | None] = (None, None), largest: float = LARGEST
) -> Matrix:
    """A finite float64 matrix; ``None`` in ``shape`` leaves that size free."""
    array = numbers(values, name, "a matrix", largest=largest)
    if array.ndim != 2 or 0 in array.shape:
        raise OffdiagError(f"{name} must be a matrix of numbers, received shape {array.shape} and type {array.dtype}")
    if any(want not in (None, have) for want, have in zip(shape, array.shape, strict=True)):
        wanted = "×".join("any" if size is None else str(size) for size in shape)
        raise OffdiagError(f"{name} must be {wanted} to fit the other matrices, received {_times(array.shape)}")
    return np.ascontiguousarray(array)


def samples(Y: Any, X: Any, name: str = "X") -> tuple[Matrix, Matrix]:
    """Targets and inputs with a column per sample."""
    X = matrix(X, name)
    return matrix(Y, "Y", (None, X.shape[1])), X


def net(Y: Any, U: Any, V: Any, X: Any, name: str = "X") -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """A net x ↦ UVᵀx, its targets and its inputs."""
    Y, X = samples(Y, X, name)
    U = matrix(U, "U", (len(Y), None))
    return Y, U, matrix(V, "V", (len(X), U.shape[1])), X


def vector(values: Any, name: str) -> Matrix:
    array = numbers(values, name, "a vector", largest=np.inf)
    if array.ndim != 1 or not len(array):
        raise OffdiagError(
            f"{name} must be a vector of finite numbers with at least one entry, received shape {array.shape}"
        )
    return array


def symmetric(values: Any, name: str, largest: float = LARGEST) -> Matrix:
    array = matrix(values, name, largest=largest)
    if array.shape[0] != array.shape[1] or not np.allclose(array, array.T, rtol=1e-9, atol=1e-9 * np.abs(array).max()):
        raise OffdiagError(f"{name} must be square and symmetric here, received {_times(array.shape)}")
    return (array + array.T) / 2


def keep(value: Any, name: str = "keep") -> float:
    """The probability of keeping, in (0, 1]."""
    found: float = checks.number(f"{name}, the probability of keeping a unit,", value, 0, 1, above=True)
    if found < LEAST_KEEP:
        raise OffdiagError(
            f"{name} must be at least {LEAST_KEEP:g}, as what is kept is divided by it: {value!r} received"
        )
    return found


def drop(value: Any, name: str = "drop") -> float:
    """The probability of dropping, in [0, 1)."""
    found: float = checks.number(f"{name}, the probability of dropping a unit,", value, 0, 1, below=True)
    return found


def drop_or_keep(drop_: Any, keep_: Any, *, stacklevel: int = 3) -> float:
    """The probability of dropping; from ``keep``, the older name of the argument, with a warning."""
    if keep_ is None:
        if drop_ is None:
            raise OffdiagError("drop, the probability that a unit is dropped, is missing; give e.g. drop=0.5")
        return drop(drop_)
    if drop_ is not None:
        raise OffdiagError(f"give drop or keep, not both: received drop={drop_!r} and keep={keep_!r}; drop is 1 − keep")
    p = 1 - keep(keep_)
    warnings.warn(f"keep={keep_!r} is the older name; use drop={p:g}", FutureWarning, stacklevel=stacklevel)
    return p


def odds(value: Any, name: str = "drop") -> float:
    """λ = drop/(1 − drop)."""
    p = drop(value, name)
    return p / (1 - p)


def random(value: Any, name: str = "rng") -> np.random.Generator:
    """A generator, or one made from a seed."""
    if isinstance(value, np.random.Generator):
        return value
    if not checks.is_whole(value) or value < 0:
        raise OffdiagError(f"{name} must be a NumPy generator or a seed, a whole number from 0 on, received {value!r}")
    return np.random.default_rng(value)


def shape(value: Any, name: str = "shape") -> tuple[int, ...]:
    """Sizes; a single integer means one axis."""
    sizes = (value,) if isinstance(value, int | np.integer) else sequence(value, name, "whole numbers")
    return tuple(checks.whole(name, size, 1) for size in sizes)


def sequence(values: Any, name: str, kind: str) -> list[Any]:
    try:
        if isinstance(values, str | bytes):
            raise TypeError
        return list(values)
    except TypeError:
        raise OffdiagError(f"{name} must be a list of {kind}, received {values!r}; put it into [ ]") from None


def pair(values: Any, name: str, kind: str = "(U, V)") -> tuple[Any, Any]:
    found = sequence(values, name, f"two matrices, {kind}")
    if len(found) != 2:
        raise OffdiagError(f"{name} must be a list of two matrices, {kind}, received {len(found)}; give both")
    return found[0], found[1]


def finite(compute: Callable[P, T]) -> Callable[P, T]:
    """Rejects results that do not fit into float64 instead of returning inf or NaN."""

    @wraps(compute)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        with np.errstate(over="ignore", invalid="ignore"):
            found = compute(*args, **kwargs)
        in_range(found, compute.__name__)
        return found

    return checked


def in_range(found: Any, name: str) -> None:
    if not np.isfinite(np.asarray(found)).all():
        raise OffdiagError(
            f"{name} is beyond the range of float64 for these values, received numbers that are too large or divided "
            "by ones too small; scale them"
        )


def blocks(width: int, block: int) -> int:
    """The number of blocks of that size in the width."""
    if width % block:
        raise OffdiagError(f"the width must be a multiple of the block, received width {width} and block {block}")
    return width // block


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in shape)
