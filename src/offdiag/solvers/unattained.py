"""Does low-rank EDLAE [Steck20 Eq. 10] have a minimum near an iterate, or does a diagonal entry of B grow for ever?

(e_i + εx)(y + e_i/ε)ᵀ has rank 1. As ε → 0 its off-diagonal part tends to e_i yᵀ + x e_iᵀ, its diagonal entry i to ∞.
Eq. 10 ignores the diagonal, so one of the k dimensions can buy a free row *and* a free column for an item, in the limit
but never exactly: the infimum need not be attained.

Limit     item i free: its column is the full-rank one; its row is regressed out of the others (Schur complement), and
          what is left is Eq. 10 of rank k − 1 on the other items, with the Gram G − G_:i G_i:/h_i.
Decision  where |B_ii| is large, minimise that limit from the directions of the iterate. As soon as it is below the
          iterate, matrices of rank k that are better than the iterate have ever larger entries B_ii.
Cost      at most ``STEPS`` iterations, and only where |B_ii| is large.
"""

from typing import Any

import numpy as np

from offdiag.solvers import Floats
from offdiag.solvers.alternating import Problem, State, row_dots, solve_h, u_step, v_step
from offdiag.solvers.blas import product
from offdiag.solvers.products import Product

LARGE = 2.0  # a diagonal entry above it says more than "an item predicts itself"
STEPS = 30  # of the minimisation in the limit: the directions of the iterate are nearly right


class Swept:
    """V → G̃V for the other items, with the part of item i regressed out of them: G̃ = G − G_:i G_i:/h_i."""

    def __init__(self, whole: Product, item: int, h: float) -> None:
        self.m, self.dtype, self.item, self.h = whole.m, np.dtype(whole.dtype), item, h
        self._whole = whole
        unit = np.zeros((whole.m, 1), dtype=whole.dtype)
        unit[item] = 1
        self.column = whole(unit)  # G_:i without its own entry, (m, 1)
        self.column[item] = 0
        self.g = np.maximum(whole.g - self.column[:, 0].astype(np.float64) ** 2 / h, 0.0)
        self.g[item] = 0

    def __call__(self, V: Floats) -> Floats:
        V = V.copy()
        V[self.item] = 0
        out = self._whole(V)
        out -= self.column * ((self.column.T @ V) / self.dtype.type(self.h))
        out[self.item] = 0
        return out


def unattained(problem: Problem, state: State) -> int | None:
    """The item whose diagonal entry grows without bound from this iterate on, or None."""
    if problem.t != 1 or problem.extra.any() or problem.eta.any():
        return None  # the diagonal is penalised: a minimum exists
    beta = np.abs(row_dots(state.U, state.V))
    item = int(np.argmax(beta))
    return item if beta[item] > LARGE and limit(problem, state, item, STEPS) < state.J else None


def limit(problem: Problem, state: State, item: int, steps: int = 0) -> float:
    """The objective in the limit in which ``item`` is free and the other items keep the best k − 1 directions of U.

    Then up to this many steps over these directions, until it is below the state.
    """
    swept = Swept(problem.product, item, float(problem.h[item]))
    rest = Problem(swept, problem.lam, problem.t, problem.extra, problem.eta)
    U = state.U.copy()
    U[item] = 0
    HU = rest.times_h(U)
    _, directions = np.linalg.eigh(product(U, HU, transposed=True).astype(np.float64))
    kept = np.ascontiguousarray(directions[:, 1:], dtype=U.dtype)  # without the direction that only the item had
    own = float(problem.product.g[item]) - _explained(rest, swept)
    if not kept.size:
        return rest.total + own
    others = v_step(rest, product(U, kept), product(HU, kept))
    for _ in range(steps):
        if others.J + own < state.J:
            break
        others = v_step(rest, *u_step(rest, others, refresh=True))
    return others.J + own


def _explained(rest: Problem, swept: Swept) -> float:
    """What the other items explain of the item at full rank: 2cᵀb − bᵀHb, c = G_:i, at nearly the best b.

    CG solves H̃x = c; as H = H̃ + ccᵀ/h, the best b is x/(1 + cᵀx/h).
    """
    c = swept.column
    x = solve_h(rest, c, 1e-6)
    b: Any = x / (1 + float(row_dots(c, x).sum()) / swept.h)
    along = float(row_dots(c, b).sum())
    return 2 * along - float(row_dots(b.astype(c.dtype), rest.times_h(b.astype(c.dtype))).sum()) - along**2 / swept.h
