"""Dropout in matrix completion: its explicit penalty, the weighted trace norm, and a bound on what it generalises.

Some entries y of a matrix are observed, at positions drawn from users × items. The net predicts u_i·diag(z)·v_j/keep with
``width`` hidden units, each kept with probability keep = 1 − drop. The mean over masks of the squared error of one entry
is (y − u_i·v_j)² + λ·Σ_k u_ik²v_jk², λ = drop/(1 − drop). If positions are drawn as independent rows (probabilities p) and
columns (q), the least penalty of all nets with the product M = UVᵀ is λ/width·‖diag(p)^½ M diag(q)^½‖_*², the squared
weighted trace norm (for a width of at least the rank), and that norm bounds the error on entries not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks
from offdiag.lab.checks import Matrix

LEVELS = 60  # radii 2^−30 … 2^29 among which the norm may fall, paid for by log(LEVELS) in the bound
DRAWS = 20  # random signs for the complexity


@dataclass(frozen=True, eq=False)
class Completed:
    """M = UVᵀ fitted to the observed entries.

    Example:
        >>> found = od.lab.completion.fit([0, 1], [0, 1], [1.0, 1.0], (2, 2), width=2, drop=0.0)
        >>> bool(found.objectives[-1] < 1e-6)
        True
    """

    U: Matrix  # (rows, width)
    V: Matrix  # (columns, width)
    objectives: list[float]  # after each iteration, never rising; the mean over entries

    def predict(self, rows: Any, columns: Any) -> Matrix:
        return np.asarray(np.einsum("nk,nk->n", self.U[rows], self.V[columns]))


@checks.finite
def objective(rows: Any, columns: Any, values: Any, U: Any, V: Any, drop: float) -> float:
    """The expected squared error per observed entry, over all masks of the hidden layer.

    Example:
        >>> od.lab.completion.objective([0], [0], [1.0], [[1.0]], [[1.0]], drop=0.5)
        1.0
    """
    U = checks.matrix(U, "U")
    V = checks.matrix(V, "V", (None, U.shape[1]))
    y, left, right = _entries(rows, columns, values, (len(U), len(V)))
    A, B = U[left], V[right]
    error = (y - np.sum(A * B, axis=1)) ** 2
    return float(np.mean(error + checks.odds(drop) * np.sum(A**2 * B**2, axis=1)))


def fit(
    rows: Any,
    columns: Any,
    values: Any,
    shape: tuple[int, int],
    width: int,
    drop: float,
    *,
    iterations: int = 50,
    seed: int = 0,
) -> Completed:
    """Minimise ``objective`` by alternating least squares: given V, row i of U is a ridge regression with the penalty
    λ·Σ_j v_jk² of dropout on its features, and the other way round. Exact in each step, so it never rises.

    Example:
        >>> found = od.lab.completion.fit([0, 0, 1], [0, 1, 0], [2.0, 1.0, 4.0], (2, 2), width=1, drop=0.1)
        >>> found.objectives[0] >= found.objectives[-1]
        True
    """
    size = checks.shape(shape)
    if len(size) != 2:
        raise OffdiagError(f"shape must be two sizes, rows and columns, received {shape!r}")
    y, left, right = _entries(rows, columns, values, (size[0], size[1]))
    width, lam = whole("width", width, 1), checks.odds(drop)
    rng = np.random.default_rng(whole("seed", seed))
    scale = float(np.sqrt(np.mean(np.abs(y)) / width)) or 1.0
    U, V = (scale * (1 + 0.3 * rng.standard_normal((n, width))) for n in size)
    by_row = sparse.csr_array((y, (left, right)), shape=size)
    places = [(left, right, np.argsort(left, kind="stable")), (right, left, np.argsort(right, kind="stable"))]
    del by_row
    objectives = [objective(left, right, y, U, V, drop)]
    for _ in range(whole("iterations", iterations, 0)):
        U = _solve(U, V, y, *places[0], lam)
        V = _solve(V, U, y, *places[1], lam)
        objectives.append(objective(left, right, y, U, V, drop))
    return Completed(U, V, objectives)
