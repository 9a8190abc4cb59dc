"""W of grouped items: the packed half of a symmetric matrix times a small block for each group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from offdiag.gramian import layout
from offdiag.weights.dense import Dense
from offdiag.weights.matrices import Matrix
from offdiag.weights.protocol import Floats, Ints
from offdiag.weights.tiles import check_arrays


@dataclass(frozen=True, eq=False)
class Grouped(Matrix):
    """W = −C·D·dMat(scale) between groups and 0 within them: m²/2 numbers, and s² for a group of s items."""

    kind: ClassVar[str] = "grouped"
    per_item: ClassVar[str] = "scale"
    C: Floats  # symmetric, packed
    scale: Floats  # (m,)
    group: Ints  # (m,) of each item, from 0 without gaps
    blocks: Floats  # D group by group, each s×s in row order, its items ascending

    @cached_property
    def _members(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The items group by group, where each group and each block begins, and the place of an item in its group."""
        items, sizes = np.argsort(self.group, kind="stable"), np.bincount(self.group)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        inside = np.empty(len(items), dtype=np.int64)
        inside[items] = np.arange(len(items)) - np.repeat(starts[:-1], sizes)
        return items, starts, np.concatenate([[0], np.cumsum(sizes**2)]), inside

    def tile(self, rows: Ints, places: Ints, lo: int, hi: int, out: Floats, first: int, last: int) -> None:
        from offdiag._kernels import grouped_rows

        m = len(self.scale)
        h, e, _ = layout.layout(m)
        items, starts, block_starts, inside = self._members
        needed = np.zeros(len(starts) - 1, dtype=np.bool_)
        needed[self.group[lo:hi]] = True
        wanted = np.flatnonzero(needed[self.group])
        where = np.searchsorted(wanted, items)  # right for the items of these groups; the others are not read
        grouped_rows.grouped_tile(
            layout.rectangle(self.C, m), h, e, rows, places, lo, hi, self.scale, self.group, starts, inside,
            block_starts, self.blocks, wanted, where, out, first, last,
        )  # fmt: skip

    def scaled(self, columns: Floats) -> Grouped:
        return Grouped(self.C, self.scale * columns.astype(self.dtype, copy=False), self.group, self.blocks)

    def diagonal(self) -> Floats:
        return np.zeros_like(self.scale)

    def todense(self) -> Dense:
        """The same weights with every number stored: twice the memory, faster single requests."""
        return Dense(self.toarray())

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        group = arrays["group"]
        if group.shape != (m,) or group.dtype != np.int64 or not m or group.min() != 0 or group.max() >= m:
            raise ValueError(f"the groups do not fit {m} items")
        sizes = np.bincount(group)
        if not sizes.all():
            raise ValueError("the groups are not numbered without gaps")
        numbers = {name: array for name, array in arrays.items() if name != "group"}
        shapes: dict[str, tuple[int, ...]] = {"C": (layout.size(m),), "scale": (m,), "blocks": (int((sizes**2).sum()),)}
        check_arrays(cls.kind, numbers, m, shapes)
        return cls(numbers["C"], numbers["scale"], group, numbers["blocks"])
