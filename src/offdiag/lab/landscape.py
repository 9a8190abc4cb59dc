"""The loss surface of a linear net with dropout: slope, curvature, and every critical point of small problems.

f(U, V) = ‖M − UVᵀ‖² + λ·Σ‖u_i‖²‖v_i‖² with λ = drop/(1 − drop); with tied weights V = U and M is symmetric
[Mianjy18 Eq. 2, Problem 4]. Leave V out for tied weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks, equalizer
from offdiag.lab.checks import Matrix
from offdiag.lab.dropout import spectrum

Kind = Literal["global minimum", "local minimum", "strict saddle", "degenerate"]
MOST_POINTS = 20_000


class Condition(NamedTuple):
    """λ < bound, under which the paper proves that all local minima are global; usable as a truth value.

    Example:
        >>> bool(od.lab.landscape.Condition(holds=True, bound=0.5))
        True
    """

    holds: bool
    bound: float

    def __bool__(self) -> bool:
        return self.holds


@dataclass(frozen=True)
class Signature:
    """Numbers of negative, zero (relative to the largest) and positive eigenvalues of a Hessian, and the smallest.

    Example:
        >>> od.lab.landscape.Signature(negative=1, zero=0, positive=1, smallest=-2.0).negative
        1
    """

    negative: int
    zero: int
    positive: int
    smallest: float


@dataclass(frozen=True, eq=False)
class CriticalPoint:
    """One member of a family: signs, the order of units and rotations within a group of units lead to the others.

    Example:
        >>> [point.equalised for point in od.lab.landscape.critical_points([[2.0]], width=2, drop=0.5)]
        [True, False, True]
    """

    U: Matrix
    V: Matrix
    value: float
    groups: tuple[tuple[tuple[int, ...], int], ...]  # (singular pairs of M, number of units); other units are dead
    signature: Signature
    kind: Kind

    @property
    def equalised(self) -> bool:
        norms = np.linalg.norm(self.U, axis=0) * np.linalg.norm(self.V, axis=0)
        return bool(np.ptp(norms) <= 1e-9 * max(float(norms.max()), 1e-300))


@dataclass(frozen=True, eq=False)
class Contours:
    """f(w₁, w₂) for a scalar M and two tied units, on a grid, and its critical points.

    Example:
        >>> od.lab.landscape.contours(2.5, drop=1 / 3).minima.tolist()
        [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    """

    w: Matrix  # (n,) the grid, the same in both directions
    values: Matrix  # (n, n) at [row w₂, column w₁]
    minima: Matrix  # (·, 2) global minima; without dropout, points on a circle of minima
    saddles: Matrix  # (·, 2)
    maxima: Matrix  # (·, 2) local maxima: the origin or none


@checks.finite
def value(M: Any, U: Any, drop: float, V: Any = None) -> float:
    """f(U, V).

    Example:
        >>> od.lab.landscape.value([[2.0]], [[1.0, 1.0]], drop=0.5)
        2.0
    """
    M, U, V, lam, _ = _problem(M, U, V, drop)
    return float(np.sum((M - U @ V.T) ** 2) + lam * np.sum(_squares(U) * _squares(V)))


def gradient(M: Any, U: Any, drop: float, V: Any = None) -> Any:
    """∂f/∂U for tied weights, 4(UUᵀ − M)U + 4λU·diag(UᵀU) [Mianjy18 sec. D]; (∂f/∂U, ∂f/∂V) otherwise.

    Example:
        >>> od.lab.landscape.gradient([[2.0]], [[1.0, 1.0]], drop=0.5)
        array([[4., 4.]])
    """
    M, U, V, lam, tied = _problem(M, U, V, drop)
    E = U @ V.T - M
    by_U = 2 * (E @ V + lam * U * _squares(V))
    return 2 * by_U if tied else (by_U, 2 * (E.T @ U + lam * V * _squares(U)))


def hessian(M: Any, U: Any, drop: float, V: Any = None) -> Matrix:
    """The matrix of second derivatives by the entries of U, row by row, followed by those of V if given.

    Example:
        >>> od.lab.landscape.hessian([[2.0]], [[1.0, 1.0]], drop=0.5).tolist()
        [[20.0, 8.0], [8.0, 20.0]]
    """
    M, U, V, lam, tied = _problem(M, U, V, drop)
    (d1, r), d2 = U.shape, len(V)
    size = d1 * r if tied else (d1 + d2) * r
    out = np.empty((size, size))
    for k in range(size):
        step = np.zeros(size)
        step[k] = 1.0
        F = step[: d1 * r].reshape(d1, r)
        K = F if tied else step[d1 * r :].reshape(d2, r)
        E, change = U @ V.T - M, F @ V.T + U @ K.T
        by_U = change @ V + E @ K + lam * (F * _squares(V) + 2 * U * np.sum(V * K, axis=0))
        by_V = change.T @ U + E.T @ F + lam * (K * _squares(U) + 2 * V * np.sum(U * F, axis=0))
        out[k] = 2 * (by_U + by_V).ravel() if tied else 2 * np.concatenate([by_U.ravel(), by_V.ravel()])
    return (out + out.T) / 2


def signature(H: Any, tolerance: float = 1e-9) -> Signature:
    """Signs of the eigenvalues of a Hessian; those below ``tolerance`` times the largest count as zero.

    Example:
        >>> od.lab.landscape.signature(np.diag([-2.0, 0.0, 3.0]))
        Signature(negative=1, zero=1, positive=1, smallest=-2.0)
    """
    values = np.linalg.eigvalsh(checks.symmetric(H, "H", largest=np.inf))
    flat = tolerance * max(float(np.abs(values).max()), 1e-300)
    negative, positive = int(np.sum(values < -flat)), int(np.sum(values > flat))
    return Signature(negative, len(values) - negative - positive, positive, float(values[0]))


def critical_points(M: Any, width: int, drop: float, tied: bool = True) -> list[CriticalPoint]:
    """All critical points of a small problem, one of each family, lowest first.

    At a critical point units of different norms are orthogonal, so units of one norm form a group that is a critical
    point by itself: some singular pairs of M (eigenvectors if tied), shrunk for that many units. Hence every choice of
    disjoint sets of pairs and of group sizes whose shrunk values stay positive is a family; units in no group are
    zero. Untied nets have more, through uᵢ → c·uᵢ, vᵢ → vᵢ/c, and dead units with one nonzero side.
    Without dropout all rotations are equivalent, and there is only one group.

    Example:
        >>> [point.kind for point in od.lab.landscape.critical_points([[2.0]], width=2, drop=0.5)]
        ['global minimum', 'strict saddle', 'strict saddle']
    """
    width, lam = whole("width", width, 1), checks.odds(drop)
    M = (checks.symmetric if tied else checks.matrix)(M, "M")
    W, sigma, Y = spectrum(M, tied)
    floor = len(sigma) * np.finfo(np.float64).eps * float(np.abs(sigma).max())
    usable = [i for i, s in enumerate(sigma) if s > floor]
    points = []
    for groups in _groups(usable, width, several=lam > 0):
        blocks = [_shrink(sigma[list(pairs)], units, lam) for pairs, units in groups]
        if any(left is None for left in blocks):
            continue
        U, V = np.zeros((len(W), width)), np.zeros((len(Y), width))
        at = 0
        for (pairs, units), left in zip(groups, blocks, strict=True):
            assert left is not None
            where = slice(at, at + units)
            U[:, where], V[:, where] = equalizer.balanced(W[:, list(pairs)], left, Y[:, list(pairs)], units)
            at += units
        H = hessian(M, U, drop, None if tied else V)
        points.append((value(M, U, drop, None if tied else V), U, V, groups, signature(H)))
        if len(points) > MOST_POINTS:
            raise OffdiagError(f"more than {MOST_POINTS} critical points; take a smaller M or width")
    points.sort(key=lambda point: point[0])
    best = points[0][0]
    scale = float(np.sum(M**2)) or 1.0
    return [CriticalPoint(U, V, f, groups, s, _kind(s, f - best <= 1e-10 * scale)) for f, U, V, groups, s in points]


def all_minima_global(M: Any, width: int, drop: float, *, tied: bool = False) -> Condition:
    """Whether λ < r·σ_r/Σ_{i≤r}(σ_i − σ_r), the condition of [Mianjy18 Thm. 4.3], and that bound.

    It holds exactly when the optimum has full rank r, and it is sufficient, not necessary: the proof uses it to find a
    descent direction at every critical point that is not optimal, which exists for every λ (``critical_points``).
    A flat spectrum has no bound; with fewer than r positive σ the bound is 0. With ``tied`` weights the σ are the
    eigenvalues of M, which must be symmetric, and negative ones cannot be matched.

    Example:
        >>> od.lab.landscape.all_minima_global(np.diag([3.0, 2.0, 1.0]), width=3, drop=0.1)
        Condition(holds=True, bound=1.0)
    """
    width, lam = whole("width", width, 1), checks.odds(drop)
    if tied:
        sigma = np.linalg.eigvalsh(checks.symmetric(M, "M"))[::-1]
    else:
        sigma = np.linalg.svd(checks.matrix(M, "M"), compute_uv=False)
    floor = len(sigma) * np.finfo(np.float64).eps * float(np.abs(sigma).max())
    if len(sigma) < width or sigma[width - 1] <= floor:
        return Condition(False, 0.0)
    excess = float(np.sum(sigma[:width] - sigma[width - 1]))
    bound = width * float(sigma[width - 1]) / excess if excess > width * floor else np.inf
    return Condition(lam < bound, float(bound))


def contours(m: float, drop: float, *, reach: float | None = None, points: int = 201) -> Contours:
    """(m − w₁² − w₂²)² + λ(w₁⁴ + w₂⁴) on a square grid, as drawn in [Mianjy18 Fig. 1], with its critical points.

    For m > 0: minima at (±a, ±a) with a² = m/(2 + λ), saddles on the axes at m/(1 + λ), a maximum at 0.

    Example:
        >>> od.lab.landscape.contours(2.5, drop=1 / 3).values.shape
        (201, 201)
    """
    lam = checks.odds(drop)
    m = float(checks.matrix([[m]], "m")[0, 0])
    reach = 1.4 * float(np.sqrt(abs(m) or 1.0)) if reach is None else reach
    reach = number("reach, the half width of the grid,", reach, 0, 1e70, above=True)  # its 4th power must fit
    w = np.linspace(-reach, reach, whole("points", points, 2))
    x, y = np.meshgrid(w, w)
    surface = (m - x**2 - y**2) ** 2 + lam * (x**4 + y**4)
    origin, none = np.zeros((1, 2)), np.zeros((0, 2))
    if m <= 0:
        return Contours(w, surface, origin, none, none)
    if lam == 0:
        angle = np.linspace(0, 2 * np.pi, 73)[:-1]
        return Contours(w, surface, np.sqrt(m) * np.column_stack([np.cos(angle), np.sin(angle)]), none, origin)
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    axes = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    return Contours(w, surface, np.sqrt(m / (2 + lam)) * signs, np.sqrt(m / (1 + lam)) * axes, origin)


def _problem(M: Any, U: Any, V: Any, drop: float) -> tuple[Matrix, Matrix, Matrix, float, bool]:
    lam = checks.odds(drop)
    if V is None:
        M = checks.symmetric(M, "M")
        U = checks.matrix(U, "U", (len(M), None))
        return M, U, U, lam, True
    M = checks.matrix(M, "M")
    U = checks.matrix(U, "U", (M.shape[0], None))
    return M, U, checks.matrix(V, "V", (M.shape[1], U.shape[1])), lam, False


def _squares(U: Matrix) -> Matrix:
    return np.asarray(np.square(U).sum(axis=0))


def _shrink(sigma: Matrix, units: int, lam: float) -> Matrix | None:
    """These σ as shrunk at a critical point of that many equal units [Mianjy18 Eq. 17], None if not all are > 0."""
    left = sigma - lam * sigma.sum() / (units + lam * len(sigma))
    return left if left.min() > 1e-12 * sigma.max() else None


def _groups(pairs: list[int], width: int, several: bool) -> Iterator[tuple[tuple[tuple[int, ...], int], ...]]:
    """Every way to assign disjoint sets of pairs to groups of units, each group at least as large as its set.

    Sets are ordered by their first member, so no choice repeats; without ``several``, one group of all units.
    """
    if not several:
        for size in range(min(len(pairs), width) + 1):
            for chosen in combinations(pairs, size):
                yield ((chosen, width),) if chosen else ()
        return
    yield ()
    for place, first in enumerate(pairs):
        rest = pairs[place + 1 :]
        for more in range(min(len(rest), width - 1) + 1):
            for others in combinations(rest, more):
                left = [i for i in rest if i not in others]
                for units in range(1 + more, width + 1):
                    for tail in _groups(left, width - units, True) if units < width else [()]:
                        yield (((first, *others), units), *tail)


def _kind(found: Signature, lowest: bool) -> Kind:
    if lowest:
        return "global minimum"
    if found.negative:
        return "strict saddle"
    return "degenerate" if found.zero else "local minimum"
