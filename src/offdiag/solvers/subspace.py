"""The top-k subspace of a reduced-rank regression, by blocks, without a factorisation and without a full spectrum.

Problem   the k largest eigenvalues θ of N² x = θ (c·N + D) x, N symmetric and known only by its products, D a positive
          diagonal, c 0 or 1. With N = G and c·N + D = H these are the eigenvalues of G H⁻¹ G, without H⁻¹.
Method    block Davidson: a basis Q, orthonormal in the metric c·N + D, grows by the residuals of the best k
          combinations (scaled by 1/diag of the metric) and is cut back to the best 2k of them when it is full.
Stops     when a round adds less than ``tolerance`` of the sum of the k eigenvalues: that sum is the objective.
Cost      two products N @ (m×k) a round, at most 2·4k columns of length m; typically 6 to 12 rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offdiag.progress import Progress
from offdiag.solvers.blas import product

ROUNDS = 200
LEAST_BASIS = 64  # for small k a longer basis is cheap and saves rounds


@dataclass(frozen=True, eq=False)
class Subspace:
    """X (m×k) with Xᵀ(c·N + D)X = I, N X, and θ, largest first; zero columns where no direction is left."""

    X: NDArray[np.floating]
    NX: NDArray[np.floating]
    theta: NDArray[np.float64]
    stopped: str  # "converged", "iterations" or "interrupted"


def tolerance_of(dtype: np.dtype[np.floating]) -> float:
    """The relative gain below which a round is not worth its cost, or below rounding."""
    return 1e-5 if dtype == np.float32 else 1e-12


def leading(
    times: Callable[[NDArray[np.floating]], NDArray[np.floating]],
    metric: NDArray[np.float64],
    scale: NDArray[np.float64],
    k: int,
    dtype: np.dtype[np.floating],
    *,
    with_N: bool = True,
    roots: bool = False,
    tolerance: float,
    seed: int = 0,
    progress: Progress | None = None,
) -> Subspace:
    """``times`` is V → N V, ``metric`` is D, ``with_N`` is c, ``scale`` the diagonal of c·N + D.

    ``roots`` counts the sum of √θ instead of θ, i.e. of the eigenvalues of N where c = 0 and D = I: the small ones
    among the k are then found as well as the large ones.
    """
    m = len(metric)
    most = min(m, max(4 * k, LEAST_BASIS))
    D, inverse = metric.astype(dtype)[:, None], (1 / scale).astype(dtype)[:, None]
    basis = _Basis(m, most, D, with_N, dtype)
    start = np.random.default_rng(seed).standard_normal((m, k), dtype=dtype)
    start *= np.sqrt(inverse)
    W = times(start)  # one product already turns chance towards what matters
    W *= inverse
    del start
    captured, first_gain, stopped = 0.0, 0.0, "iterations"
    X = NX = np.zeros((m, 0), dtype=dtype)
    theta = np.zeros(0)
    try:
        for _ in range(ROUNDS):
            if not basis.extend(W, times):
                stopped = "converged"
                break
            theta, X, NX = basis.best(k)
            value = float(np.sqrt(theta).sum() if roots else theta.sum())
            gain, captured = value - captured, value
            first_gain = first_gain or gain
            if progress:
                progress(f"finding the subspace · captured {captured:.6g}", _share(gain, first_gain, tolerance))
            if gain <= tolerance * captured or basis.size == m:
                stopped = "converged"
                break
            if most < m and basis.size + X.shape[1] > most:
                basis.restart(2 * k)
            W = times(NX)
            W -= _metric(X, NX, D, with_N) * theta.astype(dtype)
            need = np.einsum("ij,ij->j", W, W * inverse, dtype=np.float64)
            slope = 2 * np.sqrt(theta) if roots else 1.0  # dθ of a change in what is counted
            worth = need > 0.01 * tolerance * captured / k * np.maximum(theta * slope, np.finfo(np.float64).tiny)
            W = np.ascontiguousarray(W[:, worth]) * inverse
    except KeyboardInterrupt:
        if not X.shape[1]:
            raise
        stopped = "interrupted"
    if progress and stopped != "interrupted":
        progress(f"finding the subspace · captured {captured:.6g}", 1.0)
    return Subspace(_padded(X, k), _padded(NX, k), np.append(theta, np.zeros(k - len(theta))), stopped)


def _metric(
    X: NDArray[np.floating], NX: NDArray[np.floating], D: NDArray[np.floating], with_N: bool
) -> NDArray[np.floating]:
    out: NDArray[np.floating] = D * X
    if with_N:
        out += NX
    return out


def _share(gain: float, first: float, tolerance: float) -> float:
    """How far the gain has come on its way down to the tolerance, on a logarithmic scale."""
    if gain <= 0 or first <= 0:
        return 1.0
    return float(np.clip(np.log(gain / first) / np.log(max(tolerance, 1e-300)), 0.0, 1.0)) + 0.0  # no minus zero


def _padded(X: NDArray[np.floating], k: int) -> NDArray[np.floating]:
    if X.shape[1] == k:
        return np.ascontiguousarray(X)
    return np.hstack([X, np.zeros((len(X), k - X.shape[1]), dtype=X.dtype)])


class _Basis:
    """Q and N Q, orthonormal in the metric c·N + D, and A = (N Q)ᵀ(N Q)."""

    def __init__(self, m: int, most: int, D: NDArray[np.floating], with_N: bool, dtype: np.dtype[np.floating]) -> None:
        self.Q = np.zeros((m, most), dtype=dtype)
        self.NQ = np.zeros((m, most), dtype=dtype)
        self.A = np.zeros((most, most), dtype=dtype)
        self.D, self.with_N, self.size = D, with_N, 0

    def extend(self, W: NDArray[np.floating], times: Callable[[NDArray[np.floating]], NDArray[np.floating]]) -> bool:
        """Add the directions of W that the basis does not have yet; False when there are none."""
        d = self.size
        W = np.ascontiguousarray(W[:, : self.Q.shape[1] - d])
        Q, NQ = self.Q[:, :d], self.NQ[:, :d]
        eps = float(np.finfo(W.dtype).eps)
        W, _ = self._unit(W, float(np.finfo(W.dtype).tiny))
        for least in (1e3 * eps, 0.5):  # a column that the second pass still shortens was rounding left by the first
            T = product(Q, self.D * W, transposed=True)
            if self.with_N:
                product(NQ, W, transposed=True, add_to=T)
            W, shortest = self._unit(product(Q, T, alpha=-1, add_to=W), least)
            A = whitener(product(W, self.D * W, transposed=True), 100 * eps)
            W = product(W, A.astype(W.dtype))
            # What rounding left of Q in W grows by 1/shortest, and by A where columns of W nearly agree.
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
        self.A[:e, d:e] = product(self.NQ[:, :e], NW, transposed=True)
        self.A[d:e, :d] = self.A[:d, d:e].T
        self.size = e
        return bool(e > d)

    def _unit(self, W: NDArray[np.floating], least: float) -> tuple[NDArray[np.floating], float]:
        """The columns longer than ``least`` in the metric of D, at length 1; and the shortest length there was."""
        length = np.sqrt(np.einsum("ij,ij->j", W, self.D * W, dtype=np.float64))
        long = length > least
        if not long.all():
            W = np.ascontiguousarray(W[:, long])
        W *= (1 / length[long]).astype(W.dtype)
        return W, float(length.min(initial=1.0))

    def best(self, k: int) -> tuple[NDArray[np.float64], NDArray[np.floating], NDArray[np.floating]]:
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

    def _eigen(self, k: int) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
        from scipy import linalg

        d = self.size
        A = self.A[:d, :d]
        # Divide and conquer, for its vectors are orthonormal to rounding: those of the default driver were 2e-3 off in
        # float32 where eigenvalues spread over 1e6, and the basis then fell apart within a few rounds.
        theta, Y = linalg.eigh((A + A.T) / 2, driver="evd", check_finite=False)
        k = min(k, d)
        return np.maximum(theta[: -k - 1 : -1], 0.0).astype(np.float64), np.ascontiguousarray(Y[:, : -k - 1 : -1])


def whitener(P: NDArray[np.floating], cut: float) -> NDArray[np.float64]:
    """A with AᵀPA = I on the directions where P is not negligible beside its largest."""
    from scipy import linalg

    P = np.asarray(P, dtype=np.float64)
    if len(P):
        L, info = linalg.lapack.dpotrf(P, lower=1)
        if info == 0 and np.diag(L).min() ** 2 > cut * np.diag(P).max():  # nothing is negligible: the cheap way
            inverse, _ = linalg.lapack.dtrtri(L, lower=1)
            return np.ascontiguousarray(np.tril(inverse).T)
    e, Y = linalg.eigh((P + P.T) / 2) if len(P) else (np.zeros(0), np.zeros((0, 0)))
    live = e > cut * max(float(e[-1]), np.finfo(np.float64).tiny) if len(e) else np.zeros(0, dtype=bool)
    return np.ascontiguousarray(Y[:, live] / np.sqrt(e[live]))
