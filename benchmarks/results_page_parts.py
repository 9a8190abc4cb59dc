"""What the sections of docs/results.md share: figures with their errors, settings, tables."""

from __future__ import annotations

from typing import Any

from offdiag.papers.steck2020 import table1_page
from offdiag.wording import size as readable

Lines = list[str]


def machine(found: dict[str, Any]) -> str:
    return f"{found['cores']} cores of {found['processor']}, {readable(found['memory_bytes'])} of memory"


def plus_minus(found: dict[str, Any], metric: str = "ndcg@100") -> str:
    return f"{found[metric]:.4f} ± {found['sem']:.4f}"


def measured(result: dict[str, Any], metric: str) -> str:
    sem = result["sem"][metric]
    return f"{result['mean'][metric]:.4f}" + ("" if sem is None else f" ± {sem:.4f}")


def settings(found: dict[str, Any]) -> str:
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in found.values())
    return ", ".join(f"{name} {value}" for name, value in zip(found, shown, strict=True))


def table(head: Any, lines: list[list[str]]) -> Lines:
    return table1_page._md_table(head, lines)
