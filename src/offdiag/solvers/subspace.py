"""The top-k subspace of a reduced-rank regression, by blocks, without a factorisation and without a full spectrum.

Problem   the k largest eigenvalues θ of N² x = θ (c·N + D) x, N symmetric and known only through products, D a positive
          diagonal, c 0 or 1. With N = G and c·N + D = H these are the eigenvalues of G H⁻¹ G, without H⁻¹.
Method    block Davidson: a basis Q, orthonormal in the metric c·N + D, grows by the residuals of the best k
          combinations (scaled by 1/diag of the metric) and is cut back to the best 2k of them when it is full.
Stops     when a round adds less than ``tolerance`` of the sum of the k eigenvalues: that sum is the objective.
Plainly   ``plain=True`` is N x = θ x, for when all eigenvectors matter, small ones too: it stops when the mean relative
          growth of the k values is below ``tolerance``, and never squares N.
Cost      two products N @ (m×k) per round, at most 2·4k columns of length m; typically 6 to 12 rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats
from offdiag.solvers.blas import product

ROUNDS = 200
REFILLS = 8  # random restarts while there are fewer directions than requested
SPARE = 8  # random directions in addition to a start, at least
LEAST_BASIS = 64  # for small k a longer basis is cheap and saves rounds


@dataclass(frozen=True, eq=False)
class Subspace:
    """X (m×k) with Xᵀ(c·N + D)X = I, N X, and θ, largest first; zero columns if there are fewer directions."""

    X: Floats
    NX: Floats
    theta: Doubles
    stopped: str  # "converged", "iterations" or "interrupted"
    gain: float = 0.0  # of the last round, in the units of ``tolerance``


def tolerance_of(dtype: np.dtype[np.floating]) -> float:
    """The relative gain below which a round is not worth its cost, or is only rounding."""
    return 1e-5 if dtype == np.float32 else 1e-12


def leading(
    times: Callable[[Floats], Floats],
    metric: Doubles,
    scale: Doubles,
    k: int,
    dtype: np.dtype[np.floating],
    *,
    with_N: bool = True,
    plain: bool = False,
    tolerance: float | None = None,
    seed: int = 0,
    start: Floats | None = None,
    progress: Progress | None = None,
) -> Subspace:
    """``times`` is V → N V, ``metric`` D, ``with_N`` c, ``scale`` the diagonal of c·N + D; plain has c = 0, D = I.

    ``start`` holds directions that are already good, such as those of a slightly different N.
    """
    tolerance = tolerance_of(dtype) if tolerance is None else tolerance
    m = len(metric)
    most = min(m, max(4 * k, LEAST_BASIS))
    D, inverse = metric.astype(dtype)[:, None], (1 / scale).astype(dtype)[:, None]
    basis = _Basis(m, most, D, with_N, plain, dtype)
    # A good start misses directions that it does not contain, such as those of new items: random ones find them.
    chance = np.random.default_rng(seed).standard_normal((m, k if start is None else max(k // 4, SPARE)), dtype=dtype)
    chance *= np.sqrt(inverse)
    W = times(chance)  # one product already turns random directions towards the leading ones
    W *= inverse
    del chance
    if start is not None:
        W = np.hstack([start, W])
    captured, before, first_gain, gain, stopped = 0.0, np.zeros(k), 0.0, 0.0, "iterations"
    X = NX = np.zeros((m, 0), dtype=dtype)
    theta = np.zeros(0)
    rng = np.random.default_rng(seed + 1)
    refills, refilled = 0, False
    try:
        for _ in range(ROUNDS):
            added = basis.extend(W, times)
            if refilled and not added:
                refills = REFILLS  # there are no others
            if basis.size < min(k, m) and refills < REFILLS:
                # A direction much stronger than the others hides them in every product; orthogonal to it, they show.
                refills, refilled = refills + 1, True
                W = basis.orthogonal(rng.standard_normal((m, k - basis.size), dtype=dtype) * np.sqrt(inverse))
                W = times(W) * inverse
                continue
            if not basis.size:  # N = 0
                stopped = "converged"
                break
            theta, X, NX = basis.best(k)
            if not added and not refilled:
                stopped, gain = "converged", 0.0
                break
            refilled = False
            captured, unit = float(theta.sum()), _units(theta, plain, dtype)
            gain = float(np.sum((theta - before[: len(theta)]) / np.maximum(unit, np.finfo(np.float64).tiny)))
            before = np.append(theta, np.zeros(k - len(theta)))
            first_gain = first_gain or gain
            if progress:
                progress(f"finding the subspace · captured {captured:.6g}", _share(gain, first_gain, tolerance))
            if gain <= tolerance or basis.size == m:
                stopped = "converged"
                break
            if most < m and basis.size + X.shape[1] > most:
                basis.restart(2 * k)
            W = NX.copy() if plain else times(NX)
            W -= _metric(X, NX, D, with_N) * theta.astype(dtype)
            need = np.einsum("ij,ij->j", W, W * inverse, dtype=np.float64)
            worth = need > 0.01 * tolerance / k * unit * np.maximum(theta, np.finfo(np.float64).tiny)
            W = np.ascontiguousarray(W[:, worth]) * inverse
    except KeyboardInterrupt:
        if not X.shape[1]:
            raise
        stopped = "interrupted"
    if progress and stopped != "interrupted":
        progress(f"finding the subspace · captured {captured:.6g}", 1.0)
    return Subspace(_padded(X, k), _padded(NX, k), np.append(theta, np.zeros(k - len(theta))), stopped, max(gain, 0.0))


def _units(theta: Doubles, plain: bool, dtype: np.dtype[np.floating]) -> Doubles:
    """The divisor of the gain in each θ: the sum of all, or θ itself (times their number, for the mean).

    A θ below the rounding error of the largest one is measured relative to that error.
    """
    if not plain:
        return np.full(len(theta), float(theta.sum()))
    floor = 10 * float(np.finfo(dtype).eps) * float(theta.max(initial=0.0))
    return np.asarray(len(theta) * np.maximum(theta, floor))


def _metric(X: Floats, NX: Floats, D: Floats, with_N: bool) -> Floats:
    out: Floats = D * X
    if with_N:
        out += NX
    return out


def _share(gain: float, first: float, tolerance: float) -> float:
    """How far the gain has come on its way down to the tolerance, on a logarithmic scale."""
    if gain <= 0 or first <= 0:
        return 1.0
    return float(np.clip(np.log(gain / first) / np.log(max(tolerance, 1e-300)), 0.0, 1.0)) + 0.0  # no minus zero


def _padded(X: Floats, k: int) -> Floats:
    if X.shape[1] == k:
        return np.ascontiguousarray(X)
    return np.hstack([X, np.zeros((len(X), k - X.shape[1]), dtype=X.dtype)])


class _Basis:
    """Q and N Q, orthonormal in the metric c·N + D, and A = (N Q)ᵀ(N Q), or QᵀN Q if plain."""

    def __init__(self, m: int, most: int, D: Floats, with_N: bool, plain: bool, dtype: np.dtype[np.floating]) -> None:
        self.Q = np.zeros((m, most), dtype=dtype)
        self.NQ = np.zeros((m, most), dtype=dtype)
        self.A = np.zeros((most, most), dtype=dtype)
        self.D, self.with_N, self.plain, self.size = D, with_N, plain, 0

    def extend(self, W: Floats, times: Callable[[Floats], Floats]) -> bool:
        """Add the directions of W that the basis does not contain yet; False if there are none."""
        d = self.size
        W = np.ascontiguousarray(W[:, : self.Q.shape[1] - d])
        eps = float(np.finfo(W.dtype).eps)
        W, _ = unit_columns(W, self.D * W, float(np.finfo(W.dtype).tiny))
        for least in (1e3 * eps, 0.5):  # a column that the second pass still shortens is rounding error of the first
            W = self._project_out(W)
            W, shortest = unit_columns(W, self.D * W, least)
            A = whitener(product(W, self.D * W, transposed=True), 100 * eps)
            W = product(W, A.astype(W.dtype))
            # The rounding residue of Q in W grows by 1/shortest, and by A if columns of W are nearly parallel.
            if shortest > 0.1 and np.abs(A).max(initial=0.0) < 10:
                break
        if not W.shape[1]:
            return False
        NW = times(W)
        BW = _metric(W, NW, self.D, self.with_N)
        A = whitener(product(W, BW, transposed=True), 100 * eps).astype(W.dtype)
        W, NW = product(W, A), product(NW, A)
        e = d + W.shape[1]
        self.Q[:, d:e], self.NQ[:, d:e] = W, NW
        self.A[:e, d:e] = product((self.Q if self.plain else self.NQ)[:, :e], NW, transposed=True)
        self.A[d:e, :d] = self.A[:d, d:e].T
        self.size = e
        return bool(e > d)

    def orthogonal(self, W: Floats) -> Floats:
        """W orthogonalised against the basis, twice because of rounding."""
        return self._project_out(self._project_out(np.ascontiguousarray(W)))

    def _project_out(self, W: Floats) -> Floats:
        """W minus its projection on the basis, in place."""
        Q, NQ = self.Q[:, : self.size], self.NQ[:, : self.size]
        T = product(Q, self.D * W, transposed=True)
        if self.with_N:
            product(NQ, W, transposed=True, add_to=T)
        return product(Q, T, alpha=-1, add_to=W)

    def best(self, k: int) -> tuple[Doubles, Floats, Floats]:
        """θ, X and N X for the best k combinations, largest first."""
        theta, Y = self._eigen(k)
        Y = Y.astype(self.Q.dtype)
        return theta, product(self.Q[:, : self.size], Y), product(self.NQ[:, : self.size], Y)

    def restart(self, keep: int) -> None:
        """Cut the basis back to its best combinations."""
        theta, Y = self._eigen(keep)
        d, Y = self.size, Y.astype(self.Q.dtype)
        e = len(theta)
        self.Q[:, :e] = product(self.Q[:, :d], Y)
        self.NQ[:, :e] = product(self.NQ[:, :d], Y)
        self.A[:e, :e] = np.diag(theta)
        self.size = e

    def _eigen(self, k: int) -> tuple[Doubles, Floats]:
        from scipy import linalg

        d = self.size
        A = self.A[:d, :d]
        # Divide and conquer, because its vectors are orthonormal to rounding: the default driver's were 2e-3 off in
        # float32 when eigenvalues spread over 1e6, and the basis then fell apart within a few rounds.
        theta, Y = linalg.eigh((A + A.T) / 2, driver="evd", check_finite=False)
        k = min(k, d)
        return np.maximum(theta[: -k - 1 : -1], 0.0).astype(np.float64), np.ascontiguousarray(Y[:, : -k - 1 : -1])


def unit_columns(W: Floats, DW: Floats, least: float) -> tuple[Floats, float]:
    """The columns longer than ``least`` in the metric of D, scaled to length 1, and the shortest length before."""
    length = np.sqrt(np.einsum("ij,ij->j", W, DW, dtype=np.float64))
    long = length > least
    if not long.all():
        W = np.ascontiguousarray(W[:, long])
    W *= (1 / length[long]).astype(W.dtype)
    return W, float(length.min(initial=1.0))


def whitener(P: Floats, cut: float) -> Doubles:
    """A with AᵀPA = I on the directions where P is not negligible compared with its largest."""
    from scipy import linalg

    P = np.asarray(P, dtype=np.float64)
    if not len(P):
        return np.zeros((0, 0))
    L, info = linalg.lapack.dpotrf(P, lower=1)
    if info == 0 and np.diag(L).min() ** 2 > cut * np.diag(P).max():  # nothing is negligible: the cheap way
        inverse, _ = linalg.lapack.dtrtri(L, lower=1)
        return np.ascontiguousarray(np.tril(inverse).T)
    e, Y = linalg.eigh((P + P.T) / 2)
    live = e > cut * max(float(e[-1]), np.finfo(np.float64).tiny)
    return np.ascontiguousarray(Y[:, live] / np.sqrt(e[live]))
