"""Dropout in the hidden layer of a linear net: its expectation, its global optimum, and its iterates.

The net is x ↦ U·diag(z)·Vᵀx/keep with U (d1×r), V (d2×r) and r hidden units, each kept (z = 1) with probability
keep = 1 − drop. Columns of U and V are units. With λ = drop/(1 − drop) and targets y = Mx, the mean over masks and
white inputs is ‖M − UVᵀ‖² + λ·Σ‖u_i‖²‖v_i‖² [Mianjy18 Eq. 2], whose minimum is a shrunk SVD of M [Mianjy18 Thm. 3.6].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks, deep, dropblock, equalizer
from offdiag.lab.checks import Matrix
from offdiag.lab.dropout_sgd import Trace, importances, sgd

__all__ = [
    "JointOptimum",
    "Optimum",
    "Trace",
    "deep_expected_loss",
    "expected_loss",
    "importances",
    "joint_optimum",
    "objective",
    "optimum",
    "path_norm",
    "sgd",
    "shrunk",
]


@dataclass(frozen=True, eq=False)
class Optimum:
    """A global minimum over nets of one width: the product is unique up to ties, the equalised factors are not.

    Example:
        >>> od.lab.dropout.optimum(np.diag([3.0, 1.0]), width=2, drop=0.5).rank
        1
    """

    product: Matrix  # UVᵀ
    U: Matrix  # (d1, width)
    V: Matrix  # (d2, width)
    value: float  # the objective there
    rank: int  # ρ, of the product
    threshold: float  # subtracted from the first ρ singular values of M
    singular_values: Matrix  # (rank,) of the product


@dataclass(frozen=True, eq=False)
class JointOptimum:
    """The best autoencoder x ↦ V·Uᵀx under dropout at its input and at its hidden layer.

    Example:
        >>> od.lab.dropout.joint_optimum(np.diag([4.0, 1.0]), width=2, input_drop=0.5, hidden_drop=0.5).tight
        True
    """

    product: Matrix  # B = UVᵀ, (m, m): a history x, as a row, is predicted by xB
    U: Matrix  # encoder, (m, width)
    V: Matrix  # decoder, (m, width)
    value: float  # the expected loss of U, V
    bound: float  # no net of this width is below it
    tight: bool  # whether value = bound, up to rounding: always, for blocks of one unit
    singular_values: Matrix  # of H^½UVᵀ where the bound is least

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.singular_values))


@checks.finite
def expected_loss(Y: Any, U: Any, A: Any, mean: Any, cov: Any) -> float:
    """E‖Y − U·diag(z/mean)·A‖² over any random z with this mean (d,) and covariance (d, d) [Pal20 Lemma 3.1].

    Y (a×N) are targets, A (d×N) the activations that are dropped, U (a×d) the layer after them:
    ‖Y − UA‖² + ⟨C̄, (UᵀU)∘(AAᵀ)⟩ with C̄_ij = cov_ij/(mean_i·mean_j).

    Example:
        >>> od.lab.dropout.expected_loss([[1.0]], [[1.0]], [[1.0]], mean=0.5, cov=[[0.25]])
        1.0
    """
    Y = checks.matrix(Y, "Y")
    A = checks.matrix(A, "A", (None, Y.shape[1]))
    U = checks.matrix(U, "U", (len(Y), len(A)))
    cov = checks.matrix(cov, "cov", (len(A), len(A)))
    mean = checks.numbers(mean, "mean", "a number or a vector")
    mean = np.full(len(A), mean) if mean.ndim == 0 else mean  # one number: the same for all units
    mean = checks.matrix(mean[None] if mean.ndim == 1 else mean, "mean", (1, len(A)))[0]
    if not mean.all():
        raise OffdiagError("mean must not be 0: a unit that is never kept cannot be divided by its mean; leave it out")
    noise = np.sum(cov / mean[:, None] / mean * (U.T @ U) * (A @ A.T))
    return float(np.sum((Y - U @ A) ** 2) + noise)


def deep_expected_loss(G: Any, weights: Sequence[Any], drops: Sequence[float]) -> float:
    """E‖X − net(X)‖² with dropout in front of every layer of a deep linear net; see ``lab.deep.expected_loss``.

    Example:
        >>> od.lab.dropout.deep_expected_loss(np.eye(2), [np.eye(2)], [0.5])
        2.0
    """
    return deep.expected_loss(G, weights, drops)


@checks.finite
def objective(M: Any, U: Any, V: Any, drop: float, second_moment: Any = None) -> float:
    """‖M − UVᵀ‖² + λ·Σ‖u_i‖²‖v_i‖² for white inputs [Mianjy18 Eq. 2]; with E xxᵀ = S ≠ I, distances are measured in S.

    In general ‖(M − UVᵀ)S^½‖² + λ·Σ‖u_i‖²·v_iᵀSv_i: the formula for white inputs gives a different number.

    Example:
        >>> od.lab.dropout.objective(np.eye(2), np.eye(2), np.eye(2), drop=0.5)
        2.0
    """
    M = checks.matrix(M, "M")
    U = checks.matrix(U, "U", (M.shape[0], None))
    V = checks.matrix(V, "V", (M.shape[1], U.shape[1]))
    lam, E = checks.odds(drop), M - U @ V.T
    if second_moment is None:
        return _value(E, U, V, lam)
    S = _moment(second_moment, M.shape[1])
    return float(np.sum((E @ S) * E) + lam * np.sum(np.sum(U**2, axis=0) * np.sum(V * (S @ V), axis=0)))


@checks.finite
def path_norm(U: Any, V: Any) -> float:
    """(Σ over all paths input → unit → output of the squared product of weights)^½ [Mianjy18 Eq. 3].

    Its square times λ is what dropout adds to the loss.

    Example:
        >>> od.lab.dropout.path_norm([[3.0, 4.0]], [[1.0, 1.0]])
        5.0
    """
    U = checks.matrix(U, "U")
    V = checks.matrix(V, "V", (None, U.shape[1]))
    return float(np.sqrt(np.sum(importances(U, V) ** 2)))


def optimum(M: Any, width: int, drop: float, tied: bool = False, *, second_moment: Any = None) -> Optimum:
    """The global minimum of ``objective`` over U, V with ``width`` columns, in closed form [Mianjy18 Thm. 3.6, Alg. 3].

    ρ of the leading singular values survive, all shrunk by τ = λρκ/(r + λρ), where κ is their mean; the factors are
    equalised: every unit has ‖u_i‖² = ‖v_i‖² = ‖UVᵀ‖_*/r. ``tied`` means U = V and needs a symmetric M, whose
    eigenvalues replace the singular values; negative ones cannot be matched and remain as loss [Mianjy18 Thm. 2.4].
    With inputs of second moment S the problem is that of M·S^½; directions that never occur are left at 0.

    Example:
        >>> round(od.lab.dropout.optimum(np.diag([3.0, 1.0]), width=2, drop=0.5).value, 6)
        4.0
    """
    width, lam = whole("width", width, 1), checks.odds(drop)
    if tied and second_moment is not None:
        raise OffdiagError("tied weights are solved for white inputs only; leave out second_moment, or untie")
    M, root = (checks.symmetric if tied else checks.matrix)(M, "M"), None
    if second_moment is not None:
        root = _root(_moment(second_moment, M.shape[1]))
    W, sigma, Y = spectrum(M if root is None else M @ root, tied)
    rank, tau, kept = shrunk(sigma, width, lam)
    lost = float(np.sum(sigma[rank:] ** 2))
    value = lam * float(np.sum(sigma[:rank])) ** 2 / (width + lam * rank) + lost
    U, V = equalizer.balanced(W, kept, Y, width)
    if root is not None:
        V = np.linalg.pinv(root, hermitian=True) @ V
    return Optimum(U @ V.T, U, V, value, rank, tau, kept)


def joint_optimum(
    G: Any, width: int, input_drop: float, hidden_drop: float, *, l2: float = 0.0, block: int = 1
) -> JointOptimum:
    """The least expected loss of autoencoders with dropout at the input and at the hidden layer, in closed form.

    With H = G + p/(1 − p)·diag(G) + l2 and λ = hidden_drop/(1 − hidden_drop), the mean over both kinds of masks is
    tr G − 2 tr(GB) + tr(BᵀHB) + λ·Σ_k (u_kᵀHu_k)·‖v_k‖² (``lab.deep.expected_loss``). Completing the square turns
    it into the problem of ``optimum`` for M = H^(−½)G and the encoder H^½U, plus the constant tr G − ‖M‖². ``l2`` is
    white noise at the input: it adds l2·E‖U·diag(z)·Vᵀ‖²/keep², the mean square of the matrix under hidden masks.
    ``block`` > 1 drops hidden units in blocks of that size (``lab.dropblock``): the k-support bound, with ``tight``.

    Example:
        >>> G = np.diag([4.0, 1.0])
        >>> best = od.lab.dropout.joint_optimum(G, width=2, input_drop=0.5, hidden_drop=0.5)
        >>> round(best.value, 6), round(od.lab.deep.expected_loss(G, [best.U, best.V.T], [0.5, 0.5]), 6)
        (3.625, 3.625)
    """
    G = _moment(G, None, "G")
    block = whole("block", block, 1)
    H = G + np.diag(checks.odds(input_drop, "input_drop") * np.diag(G) + number("l2", l2, 0, checks.LARGEST))
    back = np.linalg.pinv(_root(H), hermitian=True)  # items that never occur are left at 0
    M = back @ G
    constant = float(np.trace(G) - np.sum(M**2))
    if block == 1:
        one = optimum(M, width, hidden_drop)
        U, V, value, bound, tight, kept = one.U, one.V, one.value, one.value, True, one.singular_values
    else:
        many = dropblock.optimum(M, np.eye(len(G)), width, block, hidden_drop)
        U, V, value, bound, tight, kept = many.U, many.V, many.value, many.bound, many.tight, many.singular_values
    U = back @ U
    return JointOptimum(U @ V.T, U, V, constant + value, constant + bound, tight, kept)


def shrunk(sigma: Matrix, width: int, lam: float) -> tuple[int, float, Matrix]:
    """ρ, τ and σ_i − τ for i ≤ ρ, from decreasing σ, for min Σ(σ_i − s_i)² + λ/r·(Σs_i)², s ≥ 0, at most r of them.

    ρ is the last j ≤ r with σ_j > λ·(σ_1 + ⋯ + σ_j)/(r + λj) [Mianjy18 Thm. 2.4]; these j are the first ones.

    Example:
        >>> od.lab.dropout.shrunk(np.array([3.0, 1.0]), width=2, lam=1.0)
        (1, 1.0, array([2.]))
    """
    j = np.arange(1, min(width, len(sigma)) + 1)
    sums = np.cumsum(sigma[: len(j)])
    floor = max(len(sigma), width) * np.finfo(np.float64).eps * max(float(sigma[0]), 0.0)  # zero up to rounding
    feasible = sigma[: len(j)] > np.maximum(lam * sums / (width + lam * j), floor)
    rank = len(j) if feasible.all() else int(np.argmin(feasible))
    if rank == 0:
        return 0, 0.0, np.zeros(0)
    total, top = float(sums[rank - 1]), sigma[:rank]
    # σ − τ, without cancellation when λ is large
    left = (width * top + lam * (rank * top - total)) / (width + lam * rank)
    return rank, lam * total / (width + lam * rank), np.maximum(left, 0.0)


def spectrum(M: Matrix, tied: bool) -> tuple[Matrix, Matrix, Matrix]:
    """W, σ and Y with M = W·diag(σ)·Yᵀ, σ decreasing: eigenvectors for tied weights, singular vectors otherwise."""
    if tied:
        sigma, W = np.linalg.eigh(M)
        return W[:, ::-1], sigma[::-1], W[:, ::-1]
    W, sigma, Yt = np.linalg.svd(M, full_matrices=False)
    return W, sigma, Yt.T


def _value(E: Matrix, U: Matrix, V: Matrix, lam: float) -> float:
    return float(np.sum(E**2) + lam * np.sum(importances(U, V) ** 2))


def _moment(values: Any, size: int | None, name: str = "second_moment") -> Matrix:
    S = checks.symmetric(checks.matrix(values, name, (size, size)), name)
    least = float(np.linalg.eigvalsh(S)[0])
    if least < -1e-9 * np.abs(S).max():
        meaning = "XᵀX" if name == "G" else "E xxᵀ"
        raise OffdiagError(f"{name} = {meaning} cannot have a negative eigenvalue, received one of {least:g}")
    return S


def _root(S: Matrix) -> Matrix:
    """S^½; eigenvalues that are zero up to rounding become zero, so that the inverse skips them."""
    values, vectors = np.linalg.eigh(S)
    values = np.where(values > len(S) * np.finfo(np.float64).eps * values[-1], values, 0.0)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)
