"""DropBlock in a linear net with one hidden layer: hidden units are kept or dropped in blocks [Pal20].

X is b×N and Y a×N (columns are samples), U a×width, V b×width; the net is UVᵀX. A mask keeps each of the
k = width/block blocks with probability θ = 1 − drop and divides kept units by θ. The mean loss over masks has a
formula, the formula has a convex bound that shrinks singular values by the squared k-support norm of order ``block``,
and the bound has a minimum in closed form. ``block=1`` is dropout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from offdiag.checks import number, whole
from offdiag.lab import checks, descent, frames
from offdiag.lab.checks import Matrix
from offdiag.solvers import shrinkage

EXACT = 1e-9  # a gap below this share of ‖Y‖² is rounding


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best net of its width, and the convex bound below every net.

    Example:
        >>> od.lab.dropblock.optimum(3 * np.eye(2), np.eye(2), width=4, block=2, drop=0.5).tight
        True
    """

    product: Matrix  # UVᵀ, (a, b)
    U: Matrix  # (a, width)
    V: Matrix  # (b, width)
    value: float  # the mean loss attained by U, V
    bound: float  # the minimum of the convex bound F
    tight: bool  # whether value = bound, up to rounding
    attainable: bool | None  # whether some net attains the bound, by ``lab.frames.attainable``
    singular_values: Matrix  # of UVᵀX where the bound is least; those of the net when tight

    @property
    def gap(self) -> float:
        return max(self.value - self.bound, 0.0)


class Overlapping(NamedTuple):
    """DropBlock with blocks at any position, tuned so that a unit is kept as often as on the grid.

    Example:
        >>> od.lab.dropblock.overlapping(0.25, 2).cov(3)[0]
        array([0.1875, 0.0625, 0.    ])
    """

    keep: float  # of each seed: a unit lives when all of its ``block`` seeds do
    characteristic: Matrix  # cov(z_i, z_j)/(θ·θ) for |i − j| = 0 … block − 1; 0 beyond

    def cov(self, width: int) -> Matrix:
        """The covariance of the masks of ``width`` units, all with ``block`` seeds (padded edges)."""
        width, block = whole("width", width, 1), len(self.characteristic)
        apart = np.abs(np.subtract.outer(np.arange(width), np.arange(width)))
        padded = np.append(self.characteristic, 0.0)
        return np.asarray(self.keep ** (2 * block) * padded[np.minimum(apart, block)])


@checks.finite
def k_support_squared(a: Any, order: int) -> float:
    """The squared k-support norm of a vector, of any sign and in any order: min Σ a_i²/t_i, 0 ≤ t ≤ 1, Σ t ≤ order.

    order 1 is (Σ|a_i|)², order ≥ len(a) is Σ a_i². As printed, ρ is the index that maximises Eq. 11 [Pal20 Thm. 2.3];
    that holds only among the feasible ρ, those whose share lies between a_{ρ−1} and a_ρ.

    Example:
        >>> [od.lab.dropblock.k_support_squared([3.0, -4.0], order) for order in (1, 2)]
        [49.0, 25.0]
    """
    return shrinkage.k_support_squared(checks.vector(a, "a"), whole("order", order, 1))


def prox(m: Any, order: int, beta: float) -> Matrix:
    """x that minimises Σ(m_i − x_i)² + beta·k_support_squared(x, order), in O(d log d) [Pal20 Thm. 2.7].

    Example:
        >>> od.lab.dropblock.prox([3.0, -4.0], order=2, beta=1.0)
        array([ 1.5, -2. ])
    """
    return shrinkage.k_support_prox(checks.vector(m, "m"), whole("order", order, 1), _beta(beta))[0]


def prox_by_search(m: Any, order: int, beta: float) -> Matrix:
    """The same by the paper's search over all pairs (ρ, λ), O(order·d) candidates; for comparison.

    As printed, ρ ends at order − 1 [Pal20 Thm. 2.7], which leaves no candidate for order 1; it must end at order.
    For each pair the candidate keeps m_i/(1 + beta) before ρ, m_i − beta·S/c from ρ to λ, 0 after; the pair counts
    if its ρ is that of its own norm, so that F follows from running sums.

    Example:
        >>> od.lab.dropblock.prox_by_search([3.0, -4.0], order=2, beta=1.0)
        array([ 1.5, -2. ])
    """
    m, order, beta = (
        checks.vector(m, "m"),
        whole("order", order, 1),
        number("beta, the weight of the penalty,", beta, 0, checks.LARGEST),
    )
    power = int(np.frexp(np.abs(m).max())[1])
    m = np.ldexp(m, -power)  # exact, and its squares fit
    places = np.argsort(-np.abs(m), kind="stable")
    a = np.abs(m)[places]
    filled, d = int(np.count_nonzero(a)), len(a)
    if beta == 0 or filled <= order:
        return np.asarray(np.ldexp(m / (1 + beta), power))
    sums, squares = (np.concatenate([[0.0], np.cumsum(v)]) for v in (a, a * a))
    best, chosen = np.inf, np.zeros(d)
    last = np.arange(1, filled + 1)
    for rho in range(1, order + 1):
        lam = last[rho - 1 :]  # λ ≥ ρ; the other case of the theorem is filled ≤ order
        S = sums[lam] - sums[rho - 1]
        cut = beta * S / (order + beta * lam + (beta + 1) * (1 - rho))
        share = (S - (lam - rho + 1) * cut) / (order - rho + 1)
        ahead = a[rho - 2] / (1 + beta) if rho > 1 else np.inf
        slack = 1e-12 * a[0]
        fits = (a[lam - 1] >= cut - slack) & (share <= ahead + slack) & (share >= a[rho - 1] - cut - slack)
        head = beta / (1 + beta) * squares[rho - 1]
        F = head + (lam - rho + 1) * cut**2 + squares[d] - squares[lam] + beta * share**2 * (order - rho + 1)
        at = int(np.argmin(np.where(fits, F, np.inf)))
        if fits[at] and F[at] < best:
            best = float(F[at])
            chosen = np.zeros(d)
            chosen[: rho - 1] = a[: rho - 1] / (1 + beta)
            chosen[rho - 1 : lam[at]] = np.maximum(a[rho - 1 : lam[at]] - cut[at], 0)
    x = np.empty(d)
    x[places] = chosen
    return np.asarray(np.ldexp(np.copysign(x, m), power))


@checks.finite
def expected_loss(Y: Any, U: Any, V: Any, X: Any, block: int, drop: float) -> float:
    """E‖Y − U diag(z/θ) VᵀX‖² over all masks: ‖Y − UVᵀX‖² + drop/θ·Σ_blocks ‖U_i V_iᵀ X‖² [Pal20 Lemma 2.1].

    Example:
        >>> od.lab.dropblock.expected_loss(np.eye(2), np.eye(2), np.eye(2), np.eye(2), block=1, drop=0.5)
        2.0
    """
    odds = checks.odds(drop)
    Y, U, V, X = checks.net(Y, U, V, X)
    return float(np.sum((Y - U @ (V.T @ X)) ** 2)) + odds * float(np.sum(frames.block_squares(U, V.T @ X, block)))


@checks.finite
def block_norms(U: Any, V: Any, X: Any, block: int) -> Matrix:
    """‖U_i V_iᵀ X‖ of each block; all equal at a minimum whose bound is tight [Pal20 Thm. 2.5].

    Example:
        >>> od.lab.dropblock.block_norms(np.eye(2), np.eye(2), np.diag([3.0, 4.0]), block=1)
        array([3., 4.])
    """
    X = checks.matrix(X, "X")
    V = checks.matrix(V, "V", (len(X), None))
    U = checks.matrix(U, "U", (None, V.shape[1]))
    return np.asarray(np.sqrt(frames.block_squares(U, V.T @ X, block)))


def characteristic(width: int, block: int, drop: float) -> Matrix:
    """cov(z)/θ² of a DropBlock mask: drop/θ inside each block, 0 elsewhere (width × width).

    Example:
        >>> od.lab.dropblock.characteristic(width=4, block=2, drop=0.5)[0]
        array([1., 1., 0., 0.])
    """
    odds = checks.odds(drop)
    k = checks.blocks(whole("width", width, 1), whole("block", block, 1))
    return np.asarray(np.kron(np.eye(k), np.full((block, block), odds)))


class Spectral(NamedTuple):
    """The best net for the target diag(m): L and R have a row and a column per entry of m that is fitted.

    Example:
        >>> od.lab.dropblock.spectral_optimum([3.0, 3.0], width=4, block=2, drop=0.5).attainable
        True
    """

    L: Matrix  # (n, width)
    R: Matrix  # (width, n)
    value: float
    bound: float
    attainable: bool | None
    shrunk: Matrix  # the entries where the bound is least


def spectral_optimum(m: Any, width: int, block: int, drop: float, *, seed: int = 0, polish: bool = True) -> Spectral:
    """The least ‖diag(m) − LR‖² + drop/θ·Σ_blocks ‖L_i R_i‖²: the problem of ``optimum`` after two rotations.

    The bound is attained exactly if projections of rank s, one per block, average to diag(t), t the weights of the prox
    that are below 1 and s = ``block`` minus the number of those that are 1. *Proof.* Let A = LR be best for the
    bound and X/2 a matrix with its singular vectors and values x_i where t_i = 1, and x_i/t_i = c, equal for all,
    where 0 < t_i < 1: a subgradient of the norm at A. The penalty equals the bound at A only if X is a subgradient at
    k·A_i for every block as well, i.e. if k·A_i is a best approximation of X/2 of rank ``block``. Those consist of the
    directions with t = 1 and of c times a projection of rank s of the others; their mean is A exactly if the mean of
    the projections is diag(x/c) = diag(t). Conversely such blocks attain it.

    Where it is not attained, ``polish`` descends by L-BFGS from the nearest candidate.

    Example:
        >>> found = od.lab.dropblock.spectral_optimum([3.0, 2.8, 2.0, 1.9], width=4, block=2, drop=0.5)
        >>> found.attainable, bool(found.value > found.bound)
        (False, True)
    """
    m, odds = checks.vector(m, "m"), checks.odds(drop)
    width, block = whole("width", width, 1), whole("block", block, 1)
    k = checks.blocks(width, block)
    top = m[:width]
    beta = odds / k
    x, t = shrinkage.k_support_prox(top, block, beta)
    missed = float(np.sum(m[width:] ** 2))
    bound = missed + float(np.sum(top**2 * (beta / (t + beta)))) if beta else missed
    balance = beta >= 1e-300
    scale = float(m @ m)

    def built(again: int) -> tuple[Matrix, Matrix, float]:
        """Factors by construction, and their mean loss; more patient when it is known that they can be had."""
        L, R = frames.factors(top, x, t, width, block, seed + again, balance=balance, patient=again > 0)
        return L, R, frames.value(m, L, R, block, odds)

    L, R, value = built(0)
    attainable = True if value - bound <= EXACT * scale else frames.attainable(t, block, k)
    for again in range(1, 4) if attainable else ():  # slow only from an unlucky start
        if value - bound <= EXACT * scale:
            break
        L, R, value = built(again)
    if polish and value - bound > EXACT * scale:
        L, R = frames.polished(m, L, R, block, odds)
        value = frames.value(m, L, R, block, odds)
    return Spectral(L, R, value, bound, attainable, x)


def optimum(Y: Any, X: Any, width: int, block: int, drop: float, *, seed: int = 0) -> Optimum:
    """The least mean loss over all U, V of this width [Pal20 Thm. 2.7], for X of any shape and rank.

    Only Y X⁺X can be fitted: the prox acts on its leading ``width`` singular values and the rest remains as error. (The
    theorem assumes X of full column rank, which fails as soon as there are more samples than features.) The bound is
    attained when certain projections exist, see ``spectral_optimum``; when they do not, ``attainable`` and ``tight``
    are False, the net is polished by L-BFGS from the nearest candidate, and ``gap`` is the distance above the bound.

    Example:
        >>> round(od.lab.dropblock.optimum(3 * np.eye(2), np.eye(2), width=4, block=2, drop=0.5).value, 6)
        6.0
    """
    Y, X = checks.samples(Y, X)
    P, s, Qt = _svd(X)
    seen = Y @ Qt.T  # Y X⁺X in the basis of the rows of X, (a, rank of X)
    outside = float(np.sum((Y - seen @ Qt) ** 2))
    A, m, Bt = _svd(seen)
    found = spectral_optimum(m if len(m) else np.zeros(1), width, block, drop, seed=whole("seed", seed))
    n = min(len(m), len(found.L))
    U = A[:, :n] @ found.L[:n]
    with np.errstate(over="ignore", invalid="ignore"):
        V = P @ ((Bt[:n].T @ found.R[:, :n].T) / s[:, None])
        product = U @ V.T
    checks.in_range(product, "the optimum")
    value, bound = outside + found.value, outside + found.bound
    tight = value - bound <= EXACT * float(np.sum(Y**2))
    return Optimum(product, U, V, value, bound, tight, found.attainable, found.shrunk[: len(m)])


def sgd(
    Y: Any, X: Any, width: int, block: int, drop: float, *, overlap: bool = False, cov: Any = None, **settings: Any
) -> descent.Trace:
    """Algorithm 1: stochastic gradient descent under DropBlock; see ``lab.descent.descend`` for the settings.

    With ``overlap`` blocks may lie anywhere, each unit is kept with the same probability (see ``overlapping``), and the
    deterministic objective is that of the overlapping masks. ``cov`` replaces the covariance of z/θ in that objective.

    Example:
        >>> run = od.lab.dropblock.sgd(np.eye(2), np.eye(2), width=2, block=1, drop=0.5, learning_rate=0.05)
        >>> bool(run.deterministic[-1] < run.deterministic[0])
        True
    """
    checks.odds(drop)
    width, block = whole("width", width, 1), whole("block", block, 1)
    k = checks.blocks(width, block)
    Y, X = checks.samples(Y, X)
    theta = 1 - float(drop)
    seeds = overlapping(theta, block)
    if cov is not None:
        C = checks.matrix(cov, "cov", (width, width))
    else:
        C = seeds.cov(width) / theta**2 if overlap else characteristic(width, block, drop)
    YX, XX, YY = Y @ X.T, X @ X.T, float(np.sum(Y**2))

    def noise(count: int, rng: descent.Rng) -> Matrix:
        if not overlap:
            return np.repeat(rng.random((k, count)) < theta, block, axis=0) / theta
        alive = rng.random((width + block - 1, count)) < seeds.keep
        return np.asarray(np.lib.stride_tricks.sliding_window_view(alive, block, axis=0).all(axis=-1) / theta)

    def objective(U: Matrix, V: Matrix) -> float:
        hidden, inner = V.T @ XX @ V, U.T @ U  # T Tᵀ and UᵀU: second moments are enough
        return YY - 2 * float(np.sum((U.T @ YX) * V.T)) + float(np.sum((1 + C) * inner * hidden))

    return descent.descend(Y, X, width, noise, objective, **descent.known(settings))


def overlapping(theta: float, block: int) -> Overlapping:
    """Seeds and covariances of DropBlock with blocks at any position, each unit kept with probability theta.

    ``block`` seeds cover a unit and all must live, so a seed lives with θ^(1/block); two units i, j share
    block − |i − j| seeds and cov/θ² = θ^−(1 − |i−j|/block) − 1. The printed formula [Pal20 sec. 5.3] is that of a unit
    that lives if any of its seeds does, and has the number of blocks in place of their size.

    Example:
        >>> od.lab.dropblock.overlapping(0.25, 2).keep
        0.5
    """
    theta, block = checks.keep(theta, "theta"), whole("block", block, 1)
    shared = 1 - np.arange(block) / block
    return Overlapping(theta ** (1 / block), np.asarray(np.expm1(-np.log(theta) * shared)))


def _svd(M: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """The thin SVD without the singular values that are 0 up to rounding."""
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    rank = int(np.count_nonzero(s > s[:1].sum() * max(M.shape) * np.finfo(np.float64).eps))
    return U[:, :rank], s[:rank], Vt[:rank]


def _beta(beta: Any) -> float:
    return float(number("beta, the weight of the penalty,", beta, 0, float(np.finfo(np.float64).max)))
