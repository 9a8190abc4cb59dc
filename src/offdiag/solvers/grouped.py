"""EDLAE where whole groups of items are dropped: no item is predicted from its own group.

Problem   min_B ‖X − XB‖² + c·Σ_g ‖X_g B_g‖² + l2·‖B‖², B = 0 within groups, c = p/(1−p): dropout of whole groups with
          full emphasis on what was dropped, for items that are variants of one thing; docs/groups.md.
Formula   H = G + c·M∘G + l2·I with M = 1 within a group, C = H⁻¹, D = BlkDiag(C)⁻¹: B = I − C·D. Block elimination: on
          the items outside group g, B_g = −C_g·(C_gg)⁻¹ solves the normal equations.
Cost      m³ flops and m(m+1)/2 numbers, as without groups; a group of s items adds s² numbers.
Equals    for groups of one item: ``offdiag.solvers.cholesky`` with kept_weight = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, Ints, cholesky, precision


@dataclass(frozen=True, eq=False)
class Members:
    """The items of each group, and where the pairs within groups are."""

    group: Ints  # (m,) of each item, from 0 without gaps

    @cached_property
    def items(self) -> Ints:
        """Group by group, ascending in each."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def sizes(self) -> Ints:
        return np.bincount(self.group)

    @cached_property
    def starts(self) -> Ints:
        """Where the items of each group begin."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def block_starts(self) -> Ints:
        """Where the s² numbers of each group begin."""
        return np.concatenate([[0], np.cumsum(self.sizes**2)])

    def of_size(self, s: int) -> tuple[Ints, Ints]:
        """The groups of s items, and their items as rows."""
        groups = np.flatnonzero(self.sizes == s)
        return groups, self.items[self.starts[groups][:, None] + np.arange(s)]


@dataclass(frozen=True, eq=False)
class Solution:
    """B = −C·D off the blocks, 0 within them."""

    C: Floats  # packed inverse of H
    blocks: Floats  # D group by group, each s×s in row order
    objective: float


def solve(
    values: Floats,
    m: int,
    group: Ints,
    *,
    dropout: float,
    l2: float | Doubles,
    targets: int | None = None,
    progress: Progress | None = None,
) -> Solution:
    """From packed G, which is overwritten by C; ``group`` is the number of each item's group.

    With ``targets``, only the first so many items are predicted, and the others are inputs (``models.dislikes``): the
    columns of B do not depend on each other, so that changes the objective alone.
    """
    members = Members(group)
    where = layout.diagonal_positions(m)
    g = values[where].astype(np.float64)
    precision.check_squares(g)
    values[where] = cholesky.regularised(g, values.dtype, dropout=dropout, l2=l2, kept_weight=0.0)
    for s in np.unique(members.sizes[members.sizes > 1]).tolist():
        _, rows = members.of_size(s)
        a, b = np.tril_indices(s, -1)
        values[_places(m, rows[:, a], rows[:, b])] *= 1 / (1 - dropout)  # 1 + c
    cholesky.invert(values, m, progress)
    blocks = _inverse_blocks(values, m, members)
    column = _objective(blocks, members, g, cholesky.penalties(g, dropout, l2))
    return Solution(values, blocks, float(column[:targets].sum()))


def _places(m: int, i: Ints, j: Ints) -> Ints:
    """Position of A[i, j] for pairs of items."""
    h, e, ld = layout.layout(m)
    low, high = np.minimum(i, j), np.maximum(i, j)
    return np.where(low < h, low * ld + high + e, (high - h + 1 - e) * ld + low - h)


def _inverse_blocks(C: Floats, m: int, members: Members) -> Floats:
    """(C_gg)⁻¹ of every group g, solved together for groups of one size."""
    out = np.empty(members.block_starts[-1], dtype=C.dtype)
    for s in np.unique(members.sizes).tolist():
        groups, rows = members.of_size(s)
        at = members.block_starts[groups][:, None] + np.arange(s * s)
        C_gg = C[_places(m, rows[:, :, None], rows[:, None, :])].astype(np.float64)
        if s == 1:
            out[at] = 1 / C_gg[:, 0]  # as in EDLAE, to the last bit
            continue
        try:
            L = np.linalg.cholesky(C_gg)
        except np.linalg.LinAlgError:
            raise precision.singular(C.dtype) from None
        half: Any = np.linalg.solve(L, np.eye(s))
        out[at] = (half.transpose(0, 2, 1) @ half).reshape(len(groups), -1)
    return out


def _objective(blocks: Floats, members: Members, g: Doubles, penalty: Doubles) -> Doubles:
    """The share of each item in the objective: g_i − r·β = D_ii − Λ_i."""
    diagonal = np.empty(len(g))
    for s in np.unique(members.sizes).tolist():
        groups, rows = members.of_size(s)
        diagonal[rows] = blocks[members.block_starts[groups][:, None] + np.arange(s) * (s + 1)]
    return np.where(g > 0, diagonal - penalty, 0.0)
