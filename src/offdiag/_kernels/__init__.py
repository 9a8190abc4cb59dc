"""The compiled loops, grouped by the data they work on. Each releases the interpreter lock and takes a range.

``_kernels.topk`` loads that module when it is first used: Numba takes a good part of a second to load.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")
