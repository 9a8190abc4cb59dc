"""Formatting of values for text and JSON output."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np


def plain(value: Any, text: Callable[[str], str] = str) -> Any:
    """JSON types only: NumPy unwrapped, numbers that JSON cannot express become null, the rest ``text(str(value))``."""
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


def size(n_bytes: float) -> str:
    """1.62e9 → '1.62 GB'."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 999.5:  # 999,700 bytes are 1 MB, not 1e+03 kB
            return f"{n_bytes:.3g} {unit}" if unit != "bytes" else f"{int(n_bytes)} bytes"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def seconds(value: float) -> str:
    """0.4 → '0.40 s', 75 → '75 s'."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def with_error(mean: float, sem: float | None, sign: str = "") -> str:
    """'0.1234 ± 0.0012', without the error if there is none; ``sign`` "+" also writes a plus sign."""
    error = "" if sem is None or sem != sem else f" ± {sem:.4f}"
    return f"{mean:{sign}.4f}{error}"


def p_value(p: float) -> str:
    """In a sentence: 'p = 0.012'."""
    if not np.isfinite(p):
        return "no test possible"
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def cut(text: str, most: int) -> str:
    """The text, truncated with "…" if too long."""
    return text if len(text) <= most else f"{text[: most - 3]}…"


def shorten(ids: Sequence[Any], most: int = 5) -> str:
    """'a, b, c and 7 more'."""
    shown = ", ".join(repr(x) for x in ids[:most])
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most} more"


def suggestion(word: str, known: Iterable[str]) -> str:
    """'; did you mean 'edlae'?' for a word that is nearly a known one, else nothing."""
    close = difflib.get_close_matches(word.lower(), list(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def one_line(error: BaseException) -> str:
    """The message of an error from another library, on one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
