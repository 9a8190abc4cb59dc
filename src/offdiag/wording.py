"""How values are written for people and for programs, whatever prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def plain(value: Any, text: Callable[[str], str] = str) -> Any:
    """JSON types only; NumPy unwrapped, numbers that JSON cannot write become null, anything else ``text`` of it."""
    if isinstance(value, dict):
        return {str(key): plain(item, text) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), text)
    if isinstance(value, list | tuple):
        return [plain(item, text) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, int | float | bool):
        return value
    return text(str(value))
