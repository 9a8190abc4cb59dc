"""What the functions of the lab ask of their arguments, said once: matrices, probabilities, whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError

Matrix = NDArray[np.float64]


def matrix(values: Any, name: str, shape: tuple[int | None, int | None] = (None, None)) -> Matrix:
    """A finite float64 matrix; ``None`` in ``shape`` leaves that size free."""
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "buif" or 0 in array.shape:
        raise OffdiagError(f"{name} must be a matrix of numbers, received shape {array.shape} and type {array.dtype}")
    if not np.isfinite(array).all():
        raise OffdiagError(f"{name} holds NaN or infinite values; remove them first")
    if any(want not in (None, have) for want, have in zip(shape, array.shape, strict=True)):
        wanted = "×".join("any" if size is None else str(size) for size in shape)
        raise OffdiagError(f"{name} must be {wanted} to fit the other matrices, received {_times(array.shape)}")
    return np.ascontiguousarray(array, dtype=np.float64)


def symmetric(values: Any, name: str) -> Matrix:
    array = matrix(values, name)
    if array.shape[0] != array.shape[1] or not np.allclose(array, array.T, rtol=1e-9, atol=1e-9 * np.abs(array).max()):
        raise OffdiagError(f"{name} must be square and symmetric here, received {_times(array.shape)}")
    return (array + array.T) / 2


def keep(value: Any, name: str = "keep") -> float:
    """The probability of keeping, in (0, 1]."""
    if not _is_number(value) or not 0 < value <= 1:
        raise OffdiagError(f"{name}, the probability of keeping a unit, must be in (0, 1], received {value!r}")
    return float(value)


def drop(value: Any, name: str = "drop") -> float:
    """The probability of dropping, in [0, 1)."""
    if not _is_number(value) or not 0 <= value < 1:
        raise OffdiagError(f"{name}, the probability of dropping a unit, must be in [0, 1), received {value!r}")
    return float(value)


def odds(value: Any, name: str = "drop") -> float:
    """λ = drop/(1 − drop)."""
    p = drop(value, name)
    return p / (1 - p)


def whole(value: Any, name: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise OffdiagError(f"{name} must be a whole number of at least {least}, received {value!r}")
    return int(value)


def blocks(width: int, block: int) -> int:
    """How many blocks of that size the width holds."""
    if width % block:
        raise OffdiagError(f"the width must be a multiple of the block, received width {width} and block {block}")
    return width // block


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in shape)
