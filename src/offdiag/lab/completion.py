"""Dropout in matrix completion: its explicit penalty, the weighted trace norm, and a bound on what it generalises.

Some entries y of a matrix are observed. The net predicts u_i·diag(z)·v_j/keep with ``width`` hidden units, each kept
with probability keep = 1 − drop. The mean over masks of the squared error of an entry is (y − u_i·v_j)² plus
λ·Σ_k u_ik²v_jk², λ = drop/(1 − drop). If rows and columns of the entries are drawn independently, with probabilities p
and q, the least penalty of all nets with the product M = UVᵀ is λ/width·‖diag(p)^½ M diag(q)^½‖_*², the squared
weighted trace norm, if the width is at least the rank of M. That norm bounds the error on entries that were not seen.
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

LEVELS, PER_OCTAVE = 400, 8  # radii 2^−25 … 2^25 among which the norm may fall, paid for by log(LEVELS) in the bound
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
        """u_i·v_j for each of these positions.

        Example:
            >>> found = od.lab.completion.Completed(np.eye(2), np.eye(2), objectives=[])
            >>> found.predict([0, 1], [0, 0]).tolist()
            [1.0, 0.0]
        """
        return np.asarray(np.einsum("nk,nk->n", self.U[rows], self.V[columns]))


@checks.finite
def objective(
    rows: Any, columns: Any, values: Any, U: Any, V: Any, drop: float, *, chances: tuple[Any, Any] | None = None
) -> float:
    """The expected squared error per observed entry, over all masks of the hidden layer.

    With ``chances``, (p, q), the penalty is its mean over all positions, λ·Σ_k (p·u_k²)(q·v_k²), instead of over the
    observed ones: for balanced factors λ/width times the squared weighted trace norm.

    Example:
        >>> od.lab.completion.objective([0], [0], [1.0], [[1.0]], [[1.0]], drop=0.5)
        1.0
    """
    U = checks.matrix(U, "U")
    V = checks.matrix(V, "V", (None, U.shape[1]))
    y, left, right = _entries(rows, columns, values, (len(U), len(V)))
    A, B = U[left], V[right]
    error = float(np.mean((y - np.sum(A * B, axis=1)) ** 2))
    if chances is None:
        return error + checks.odds(drop) * float(np.mean(np.sum(A**2 * B**2, axis=1)))
    p, q = _both(chances, len(U), len(V))
    return error + checks.odds(drop) * float((p @ U**2) @ (q @ V**2))


def fit(
    rows: Any,
    columns: Any,
    values: Any,
    shape: tuple[int, int],
    width: int,
    drop: float,
    *,
    chances: tuple[Any, Any] | None = None,
    iterations: int = 50,
    seed: int = 0,
) -> Completed:
    """Minimise ``objective`` by alternating least squares; it never rises.

    Given V, row i of U is a ridge regression with the penalty λ·Σ_j v_jk² of dropout on its features, j over its
    entries, or with ``chances`` over all columns, weighted; and the other way round. Rows and columns without an entry
    are 0.

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
    by_row, by_column = _groups(left, size[0]), _groups(right, size[1])
    p, q = (None, None) if chances is None else _both(chances, *U.shape[:1], *V.shape[:1])
    objectives = [objective(left, right, y, U, V, drop, chances=chances)]
    for _ in range(whole("iterations", iterations, 0)):
        U = _solve(V, y, by_row, right, lam, p, q)
        V = _solve(U, y, by_column, left, lam, q, p)
        objectives.append(objective(left, right, y, U, V, drop, chances=chances))
    return Completed(U, V, objectives)


@checks.finite
def weighted_trace_norm(U: Any, V: Any, p: Any, q: Any) -> float:
    """‖diag(p)^½ UVᵀ diag(q)^½‖_*, the sum of singular values; UVᵀ is not formed.

    Example:
        >>> round(od.lab.completion.weighted_trace_norm(np.eye(2), np.eye(2), [0.5, 0.5], [0.5, 0.5]), 6)
        1.0
    """
    U = checks.matrix(U, "U")
    V = checks.matrix(V, "V", (None, U.shape[1]))
    left, right = (np.sqrt(_chances(w, name, n))[:, None] for w, name, n in ((p, "p", len(U)), (q, "q", len(V))))
    R, S = np.linalg.qr(left * U)[1], np.linalg.qr(right * V)[1]
    return float(np.linalg.svd(R @ S.T, compute_uv=False).sum())


@checks.finite
def complexity(rows: Any, columns: Any, p: Any, q: Any, *, draws: int = DRAWS, seed: int = 0) -> float:
    """The empirical Rademacher complexity of {M : weighted trace norm ≤ 1} on these positions, by random signs.

    E‖Σ_s ε_s e_i e_jᵀ/(p_i q_j)^½‖/n, the spectral norm being the dual of the trace norm. p and q must be fixed before
    the entries are drawn; the bound holds for any of them.

    Example:
        >>> od.lab.completion.complexity([0], [0], [0.25], [1.0])
        2.0
    """
    p, q = _chances(p, "p"), _chances(q, "q")
    _, left, right = _entries(rows, columns, np.ones(len(rows)), (len(p), len(q)))
    if not (p[left] > 0).all() or not (q[right] > 0).all():
        raise OffdiagError("p and q must be above 0 where entries were observed; mix them with equal chances")
    rng, weight = np.random.default_rng(whole("seed", seed)), 1 / np.sqrt(p[left] * q[right])
    norms = [
        _spectral_norm(sparse.csr_array((weight * rng.choice([-1.0, 1.0], len(left)), (left, right)), (len(p), len(q))))
        for _ in range(whole("draws", draws, 1))
    ]
    return float(np.mean(norms) / len(left))


@dataclass(frozen=True)
class Bound:
    """An upper bound of the mean squared error on new entries, and its three parts.

    Example:
        >>> od.lab.completion.Bound(training=0.5, complexity=0.25, confidence=0.25).value
        1.0
    """

    training: float  # on the entries that were fitted
    complexity: float
    confidence: float

    @property
    def value(self) -> float:
        return self.training + self.complexity + self.confidence


def bound(
    training: float, norm: float, unit_complexity: float, n: int, *, low: float, high: float, failure: float = 0.05
) -> Bound:
    """With probability 1 − ``failure``, the error on new entries drawn like the n observed ones is at most ``.value``.

    ``training`` is the mean squared error of predictions clipped to [low, high], where all values lie, ``norm`` the
    weighted trace norm of the fit and ``unit_complexity`` that of ``complexity``. The loss has slope 2(high − low), so
    the second part is 4(high − low)·radius·unit_complexity; the third is 3(high − low)²·(log(2·LEVELS/failure)/2n)^½.
    The radius is ``norm`` rounded up to a power of 2^⅛, because the norm is known only after the fit.

    Example:
        >>> od.lab.completion.bound(0.5, norm=1.0, unit_complexity=0.01, n=10_000, low=0.0, high=1.0).complexity
        0.04
    """
    number("training", training, 0)
    span = number("high", high, low, above=True) - low
    whole("n", n, 1)
    limit = 2.0 ** (LEVELS / PER_OCTAVE / 2)
    if number("norm", norm, 0) > limit:
        raise OffdiagError(f"norm must be at most {limit:g}, received {norm:g}; scale the values down")
    radius = 2.0 ** (np.ceil(PER_OCTAVE * np.log2(max(norm, 1 / limit))) / PER_OCTAVE)
    chance = number("failure", failure, 0, 1, above=True, below=True)
    return Bound(
        training,
        4 * span * float(radius) * number("unit_complexity", unit_complexity, 0),
        3 * span**2 * float(np.sqrt(np.log(2 * LEVELS / chance) / (2 * n))),
    )


def _spectral_norm(A: sparse.csr_array) -> float:
    if min(A.shape) <= 2:
        return float(np.linalg.norm(A.toarray(), 2))
    from scipy.sparse.linalg import svds

    return float(svds(A, k=1, return_singular_vectors=False, random_state=0)[0])


def _solve(
    F: Matrix,
    y: Matrix,
    groups: list[NDArray[np.int64]],
    other: NDArray[np.int64],
    lam: float,
    own: Matrix | None,
    theirs: Matrix | None,
) -> Matrix:
    """For each group of entries, the best row given the rows F of the other side."""
    out = np.zeros((len(groups), F.shape[1]))
    everywhere = None if theirs is None else lam * len(y) * (theirs @ F**2)
    for i, entries in enumerate(groups):
        if len(entries):
            A = F[other[entries]]
            gram = A.T @ A
            penalty = lam * np.diag(gram) if own is None or everywhere is None else own[i] * everywhere
            gram[np.diag_indices_from(gram)] += penalty
            out[i] = np.linalg.lstsq(gram, A.T @ y[entries], rcond=1e-12)[0]
    return out


def _both(chances: tuple[Any, Any], rows: int, columns: int) -> tuple[Matrix, Matrix]:
    p, q = checks.pair(chances, "chances", "(p, q)")
    return _chances(p, "p", rows), _chances(q, "q", columns)


def _groups(places: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """The entries of each row, or of each column."""
    order = np.argsort(places, kind="stable")
    return np.split(order, np.cumsum(np.bincount(places, minlength=size))[:-1])


def _chances(values: Any, name: str, size: int | None = None) -> Matrix:
    found = checks.vector(values, name)
    if (found < 0).any() or (size is not None and len(found) != size):
        raise OffdiagError(
            f"{name} must be {size or 'some'} probabilities, received {len(found)}, least {found.min():g}"
        )
    return found


def _entries(
    rows: Any, columns: Any, values: Any, shape: tuple[int, int]
) -> tuple[Matrix, NDArray[np.int64], NDArray[np.int64]]:
    y = checks.vector(values, "values")
    places = []
    for name, given, size in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
        at = np.asarray(given)
        if at.shape != y.shape or at.dtype.kind not in "iu" or at.min() < 0 or at.max() >= size:
            raise OffdiagError(f"{name} must be {len(y)} whole numbers from 0 to {size - 1}, received {at.shape}")
        places.append(at.astype(np.int64))
    return y, places[0], places[1]
