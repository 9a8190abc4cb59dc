"""Add and remove users in an inverse: C = H⁻¹ of the changed Gram from the previous C, without a factorisation.

Problem   H' = H + Δ, where Δ is zero outside the s items of the users added or removed; Λ changes with the diagonal of
          the Gram, so the rank is s, not one per user.
Formula   C' = C − C_S (I + Δ C_SS)⁻¹ Δ C_Sᵀ [Woodbury50]; no inverse of Δ, which may be singular or indefinite.
          Items that lose their last user are regressed out first, C − C_g C_gg⁻¹ C_gᵀ; items that get their first user
          start alone, with their final H_ii. So both cases work at any penalty.
Cost      m²s + 2ms² + O(s³) flops instead of m³; C is changed in place, with m×s extra numbers in double precision.
Equals    ``np.linalg.inv(H + Δ)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from offdiag import _kernels
from offdiag.gramian import layout
from offdiag.solvers import Doubles, Floats, Ints, blas

# Bound on the smallest singular value of I + Δ C_SS: below it H' is singular, or C too inaccurate to tell.
BREAKDOWN = {"float32": 1e-4, "float64": 1e-10}
NEAR = 0.1  # of ‖H C − I‖, from which C (H C − I) is no longer an estimate of C − H⁻¹
PROBES = 3  # random vectors for the residual, as many as _kernels.packed_rows.products takes


@dataclass(frozen=True, eq=False)
class Step:
    """How the items change: columns of C before, columns of C' after."""

    old: Ints  # (s,) where the items of Δ were, −1 for those that had no users
    new: Ints  # (s,) where they are now
    gone: Ints  # previous columns of the items without users now
    left: Ints  # where those are now, if they are kept as empty columns
    delta: Doubles  # (s, s); 0 on the diagonal of the new items
    pivots: Doubles  # (s,) H'_ii, read for the new items
    empty_pivot: float  # H'_ii of items without users
    at: Ints | None  # previous column of each current one (−1: new), if the catalogue changed


def flops(m: int, s: int) -> float:
    """Flops of one change; an inverse takes m³. s×s decompositions run at a tenth of its speed: counted as 200 s³."""
    return float(m) * m * s + 2.0 * m * s * s + 200.0 * float(s) ** 3


def change(values: Floats, m: int, step: Step) -> Floats | None:
    """The packed C', overwriting C if possible; None, with nothing changed, if the formula breaks down."""
    low = _low_rank(values, m, step)
    if low is None:
        return None
    W, sign = low
    if step.at is not None:
        values = _kernels.packed_rows.moved(values, m, step.at)
    elif not values.flags.writeable:
        values = values.copy()
    m = len(W)
    where = layout.diagonal_positions(m)
    if step.at is not None:
        values[where[step.at < 0]] = 1 / step.empty_pivot
    values[where[step.new[step.old < 0]]] = 1 / step.pivots[step.old < 0]
    for one in (-1.0, 1.0):
        blas.add_outer(values, np.ascontiguousarray(W[:, sign == one], dtype=values.dtype), -one)
    for i in step.left:
        values[layout.positions(m, np.array([i]), np.arange(m))] = 0
        values[where[i]] = 1 / step.empty_pivot
    return values


def _low_rank(values: Floats, m: int, step: Step) -> tuple[Doubles, Doubles] | None:
    """W and signs with C' = C − W·dMat(sign)·Wᵀ in the order of the new catalogue."""
    there = step.old >= 0
    gone, stay = step.gone, step.old[there]
    columns = layout.columns(values, m, np.concatenate([gone, stay]))
    Z_gone, Z_stay = columns[:, : len(gone)], columns[:, len(gone) :]
    S = len(step.old)
    C_SS = np.zeros((S, S))
    C_SS[~there, ~there] = 1 / step.pivots[~there]
    middle = np.zeros((len(gone) + S, len(gone) + S))
    if len(gone):
        inverse = np.ascontiguousarray(linalg.inv(Z_gone[gone]))
        Z_stay = Z_stay - blas.product(Z_gone.copy(), blas.product(inverse, Z_stay[gone]))
        middle[: len(gone), : len(gone)] = (inverse + inverse.T) / 2
    C_SS[np.ix_(there, there)] = Z_stay[stay]
    inner = np.eye(S) + blas.product(np.ascontiguousarray(step.delta), C_SS)
    if S and not linalg.svdvals(inner).min() > BREAKDOWN[values.dtype.name]:
        return None
    K = linalg.solve(inner, step.delta) if S else step.delta
    middle[len(gone) :, len(gone) :] = (K + K.T) / 2
    d, Q = linalg.eigh(middle)

    at = np.arange(m) if step.at is None else step.at
    Z = np.zeros((len(at), len(gone) + S))
    known = at >= 0
    Z[np.ix_(known, np.arange(len(gone)))] = Z_gone[at[known]]
    Z[np.ix_(known, len(gone) + np.flatnonzero(there))] = Z_stay[at[known]]
    fresh = np.flatnonzero(~there)
    Z[:, len(gone) + fresh] = 0
    Z[step.new[fresh], len(gone) + fresh] = 1 / step.pivots[fresh]
    # Not NumPy's product: its threads would still be spinning while SciPy's do the work that follows.
    W: Any = blas.product(Z, np.ascontiguousarray(Q * np.sqrt(np.abs(d))))
    return W, np.where(d < 0, -1.0, 1.0)


def residual(
    values: Floats,
    G: Floats,
    m: int,
    penalty: Doubles,
    live: NDArray[np.bool_],
    more: Callable[[Doubles], Doubles] | None = None,
) -> tuple[float, Doubles]:
    """How far C is from the inverse of H = G + dMat(penalty), on the items that are in use.

    ``more`` multiplies rows by a further symmetric part of H.

    Returns the largest ‖H C z − z‖/‖z‖ for ``PROBES`` vectors z of random signs, and an estimate of ‖(C − H⁻¹)_i‖ for
    each item i: the root of the mean square of (C (H C z − z))_i. It bounds every entry of the row if C is close
    enough to the inverse that ‖H C − I‖ is below 1, and is infinite otherwise. H is applied in double precision; three
    passes over m²/2 numbers in all.
    """
    z = np.random.default_rng(m).choice(np.array([-1.0, 1.0]), (PROBES, m)) * live
    y = _kernels.packed_rows.products(values, m, z) * live
    Hy = _kernels.packed_rows.products(G, m, y) + penalty * y
    if more is not None:
        Hy += more(y)
    r = (Hy - z) * live
    E = _kernels.packed_rows.products(values, m, r)
    norm = float(np.sqrt((r**2).sum(axis=1)).max(initial=0.0))  # about the Frobenius norm of H C − I
    distance = np.sqrt((E**2).mean(axis=0)) * live
    return norm / max(float(np.sqrt(live.sum())), 1.0), distance if norm <= NEAR else np.full(m, np.inf)
