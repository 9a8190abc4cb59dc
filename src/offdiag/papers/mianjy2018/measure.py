"""Computations for the theorems of [Mianjy18]: each function covers one section and returns plain numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from offdiag.lab import dropout, equalizer, landscape, montecarlo
from offdiag.lab.checks import Matrix
from offdiag.papers.driver import Numbers

LAMBDAS = (0.1, 0.5, 1.0)  # of Figures 2 and 3
FIGURE_1 = (0.0, 0.6, 2.0)  # λ; the paper does not give its own


def drop_of(lam: float) -> float:
    """The probability of dropping whose odds are λ."""
    return lam / (1 + lam)


def regulariser(seed: int) -> Numbers:
    """Section 1 and Lemma A.1: the mean over all masks, the path norm, and the direction of Algorithm 1."""
    rng = np.random.default_rng(seed)
    d1, d2, r, theta = 4, 3, 5, 0.6
    M, U, V = rng.standard_normal((d1, d2)), rng.standard_normal((d1, r)), rng.standard_normal((d2, r))
    lam = (1 - theta) / theta
    white = np.sqrt(d2) * np.concatenate([np.eye(d2), -np.eye(d2)])  # equally likely inputs with E xxᵀ = I
    skewed = rng.standard_normal((6, d2)) * [3.0, 1.0, 0.3]
    masks, chances = montecarlo.enumerate_masks(r, drop=1 - theta)

    def mean_loss(X: Matrix) -> float:
        def loss(z: Matrix) -> float:
            return float(np.mean(np.sum((X @ M.T - X @ V * (z / theta) @ U.T) ** 2, axis=1)))

        return montecarlo.exact_mean(loss, masks, chances)

    printed = sum(
        chance / len(white) * np.outer(U @ (z / theta * (V.T @ x)) - M @ x, z * (V.T @ x))
        for z, chance in zip(masks, chances, strict=True)
        for x in white
    )
    slope = landscape.gradient(M, U, 1 - theta, V)[0]
    ratio = float(np.sum(slope * printed) / np.sum(np.square(printed)))
    exact, skew = mean_loss(white), mean_loss(skewed)
    S = skewed.T @ skewed / len(skewed)
    paths = sum(U[j, i] ** 2 * V[k, i] ** 2 for i in range(r) for j in range(d1) for k in range(d2))
    best = dropout.optimum(M, r, 1 - theta)
    others = [rng.standard_normal((r, r)) for _ in range(2000)]
    least = min(dropout.path_norm(best.U @ A, best.V @ np.linalg.inv(A).T) for A in others)
    scaled = np.exp(rng.standard_normal(r))
    f = dropout.objective(M, U, V, 1 - theta)
    return {
        "mask_mean_gap": abs(exact / f - 1),
        "skewed_mean_gap": abs(skew / dropout.objective(M, U, V, 1 - theta, S) - 1),
        "white_formula_on_skewed_inputs": f / skew,
        "path_gap": abs(lam * paths / (f - float(np.sum((M - U @ V.T) ** 2))) - 1),
        "gradient_over_printed_direction": ratio * theta,
        "gradient_residual": float(np.abs(slope - ratio * printed).max() / np.abs(slope).max()),
        "path_of_other_factors": least / dropout.path_norm(best.U, best.V),
        "rescaling_gap": abs(dropout.objective(M, U * scaled, V / scaled, 1 - theta) / f - 1),
    }


def equalising(pairs_per_width: int, seed: int) -> Numbers:
    """Theorems 2.2 and 3.3, Algorithm 2, Remark 5.2; and whether any pair can be equalised by one rotation."""
    rng = np.random.default_rng(seed)
    width = 200
    wide = rng.standard_normal((300, width)) * np.exp(-np.arange(width) / 40)
    begun = time.perf_counter()
    slow = equalizer.eqz(wide)
    middle = time.perf_counter()
    fast, count = equalizer.rotations(wide)
    ended = time.perf_counter()
    shapes = [(d, r) for d in (1, 3, 10) for r in (1, 2, 5, 12)]
    matrices = [rng.standard_normal(shape) for shape in shapes] + [np.zeros((3, 4)), np.diag([1.0, 0, 0, 0])]
    spreads = [[equalizer.spread(U @ way(U)) for U in matrices] for way in (equalizer.eqz, equalizer.equalize)]
    U, V = rng.standard_normal((6, 5)), rng.standard_normal((4, 5))
    A, B = equalizer.joint(U, V)
    share = np.linalg.svd(U @ V.T, compute_uv=False).sum() / 5
    columns = np.concatenate([(A**2).sum(axis=0), (B**2).sum(axis=0)])
    flat = rng.standard_normal((3, 8))
    compact = np.linalg.svd(flat, full_matrices=False)[2].T  # 8×3: too few columns for Z
    pairs = [_joint_spread(rng, r) for r in (2, 3, 4, 5) for _ in range(pairs_per_width)]
    return {
        "eqz_spread": max(spreads[0]),
        "givens_spread": max(spreads[1]),
        "eqz_spread_200": equalizer.spread(wide @ slow),
        "givens_spread_200": equalizer.spread(wide @ fast),
        "rotations_200": count,
        "eqz_seconds": middle - begun,
        "givens_seconds": ended - middle,
        "pivot_over_mean": float(np.sum((wide @ slow)[:, 0] ** 2) / (np.sum(wide**2) / width)),
        "joint_gap": float(np.abs(A @ B.T - U @ V.T).max()),
        "joint_norm_gap": float(np.abs(columns / share - 1).max()),
        "hadamard_printed_3": _printed_universal(3),
        "hadamard_printed_4": _printed_universal(4),
        "hadamard_spread": equalizer.spread(flat @ equalizer.universal(flat)),
        "compact_basis_columns": compact.shape[1],
        "pairs_tried": len(pairs),
        "worst_pair_spread": max(pairs),
    }


def _printed_universal(k: int) -> float:
    """‖ZᵀZ − I‖ of Z_k with the printed factor at every level."""
    Z = np.ones((1, 1))
    for level in range(2, k + 1):
        Z = 2 ** ((1 - level) / 2) * np.block([[Z, Z], [-Z, Z]])
    return float(np.linalg.norm(Z.T @ Z - np.eye(len(Z)), 2))


def _joint_spread(rng: np.random.Generator, r: int) -> float:
    """The least relative spread of ‖Uq_i‖‖Vq_i‖ that a search over rotations finds, for a random pair."""
    from scipy.linalg import expm
    from scipy.optimize import least_squares

    U, V = rng.standard_normal((r, r)) * np.exp(-np.arange(r)), rng.standard_normal((r, r))
    upper = np.triu_indices(r, 1)
    best = np.inf
    for _ in range(20):
        Q0 = np.linalg.qr(rng.standard_normal((r, r)))[0]

        def uneven(a: Matrix, Q0: Matrix = Q0) -> Matrix:
            K = np.zeros((r, r))
            K[upper] = a
            Q = Q0 @ expm(K - K.T)
            scores = dropout.importances(U @ Q, V @ Q)
            return np.asarray(scores / scores.mean() - 1)

        found = least_squares(uneven, np.zeros(len(upper[0])), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        best = min(best, float(np.ptp(uneven(found.x))))
        if best < 1e-12:
            break
    return best


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Figure of Theorem 3.6: the remaining spectrum for several λ."""

    sigma: Matrix
    left: dict[float, Matrix]  # by λ, padded with zeros
    lambdas: Matrix
    ranks: Matrix


def optima(seed: int) -> tuple[Numbers, Shrinkage]:
    """Theorems 2.3, 2.4, 3.4, 3.6, Algorithm 3, Lemma A.3: the closed form against searches, and the printed forms."""
    rng = np.random.default_rng(seed)
    gaps, uneven, nuclear = [], [], []
    for (d1, d2, r), tied in [((5, 4, 2), False), ((4, 6, 4), False), ((3, 3, 7), False), ((5, 5, 3), True)]:
        for lam in (0.1, 1.0, 4.0):
            M = rng.standard_normal((d1, d2))
            M = M + M.T if tied else M  # tied: indefinite
            best = dropout.optimum(M, r, drop_of(lam), tied)
            U, V, value = _search(M, r, lam, tied, rng)
            gaps.append(abs(value / best.value - 1))
            scores = dropout.importances(U, V)
            uneven.append(float(np.ptp(scores) / scores.mean()))
            penalty = lam * float(np.sum(scores**2))
            nuclear.append(abs(penalty * r / lam / np.linalg.svd(U @ V.T, compute_uv=False).sum() ** 2 - 1))
    sigma = np.array([5.0, 3.0, 2.0, 1.0])
    M, r, lam = np.diag(sigma), 4, 1.0
    best = dropout.optimum(M, r, 0.5)  # of rank 3, so that one of the four units is not needed
    wrong = np.maximum(sigma - lam * sigma[: best.rank].sum() / r, 0)  # the threshold with only r in the denominator
    near = np.diag([5, 4.9, 4.8, 4.7])
    cut = dropout.optimum(near, 2, 0.2)
    A = np.diag([2.0, 1.0, -3.0])
    by_singular = dropout.optimum(A, 2, 0.5).product  # λ_i read as singular values, as the notation section says
    signed = dropout.optimum(A, 2, 0.5, tied=True)
    unpadded = equalizer.balanced(np.eye(4), best.singular_values, np.eye(4), best.rank)
    spectrum = np.exp(-np.arange(40) / 8)
    lambdas = np.geomspace(0.01, 100, 60)
    left = {x: dropout.shrunk(spectrum, 20, x)[2] for x in LAMBDAS}
    shown = Shrinkage(
        spectrum,
        {x: np.pad(kept, (0, len(spectrum) - len(kept))) for x, kept in left.items()},
        lambdas,
        np.array([dropout.shrunk(spectrum, 20, float(x))[0] for x in lambdas]),
    )
    a, rho = np.linspace(1, 0.2, 9), 4
    g = [lam * a[:j].sum() ** 2 / (5 + lam * j) + float(np.sum(a[j:] ** 2)) for j in range(1, 6)]
    step, denominator = g[rho] - g[rho - 1], (5 + lam * rho) * (5 + lam * rho + lam)
    slack = lam * a[:rho].sum()
    inverse = np.linalg.inv(np.eye(3) + lam / r)
    return {
        "optimum_gap": max(gaps),
        "searched_unevenness": max(uneven),
        "nuclear_gap": max(nuclear),
        "value": best.value,
        "value_with_printed_threshold": float(np.sum((sigma - wrong) ** 2) + lam / r * wrong.sum() ** 2),
        "rank_cut": cut.rank,
        "rank_uncut": float(np.sum(np.diag(near) > cut.threshold)),
        "printed_tied_least_eigenvalue": float(np.linalg.eigvalsh(by_singular)[0]),
        "tied_value": signed.value,
        "tied_searched": _search(A, 2, 1.0, True, rng)[2],
        "value_unpadded": dropout.objective(M, *unpadded, 0.5),
        "problem_5_gap": _problem_5_gap(rng),
        "lemma_a2_gap": float(np.abs(inverse - (np.eye(3) - lam / (r + lam * 3))).max()),
        "lemma_a3_rise": max(b - a for a, b in pairwise(g)),
        "lemma_a3_gap": abs(step + (slack - (5 + lam * rho) * a[rho]) ** 2 / denominator),
        "lemma_a3_printed_gap": abs(step + (slack - (5 + lam * rho) * a[rho] ** 2) ** 2 / denominator),
    }, shown


def _problem_5_gap(rng: np.random.Generator) -> float:
    """Problem 5, ‖M − UUᵀ‖² + λ/r·‖U‖⁴, searched for its minimum, against the closed form of Problem 4."""
    d, r, lam = 4, 3, 1.0
    A = rng.standard_normal((d, d))
    M = A @ A.T

    def value(x: Matrix) -> tuple[float, Matrix]:
        U = x.reshape(d, r)
        E, total = U @ U.T - M, float(np.sum(U**2))
        return float(np.sum(E**2)) + lam / r * total**2, 4 * (E @ U + lam / r * total * U).ravel()

    return abs(_lowest(value, d * r, rng)[1] / dropout.optimum(M, r, drop_of(lam), tied=True).value - 1)


def _lowest(
    value: Callable[[Matrix], tuple[float, Matrix]], size: int, rng: np.random.Generator
) -> tuple[Matrix, float]:
    """The lowest point that L-BFGS finds from four random starts, and its value."""
    from scipy.optimize import minimize

    options: Any = {"maxiter": 5000, "maxfun": 20000, "gtol": 1e-11, "ftol": 0.0}
    ends = [minimize(value, rng.standard_normal(size), jac=True, method="L-BFGS-B", options=options) for _ in range(4)]
    best = min(ends, key=lambda end: float(end.fun))
    return best.x, float(best.fun)


def _search(M: Matrix, r: int, lam: float, tied: bool, rng: np.random.Generator) -> tuple[Matrix, Matrix, float]:
    """U and V of the lowest point that a search finds, and its value."""
    (d1, d2), drop = M.shape, drop_of(lam)

    def parts(x: Matrix) -> tuple[Matrix, Matrix | None]:
        return x[: d1 * r].reshape(d1, r), None if tied else x[d1 * r :].reshape(d2, r)

    def value(x: Matrix) -> tuple[float, Matrix]:
        U, V = parts(x)
        slope = landscape.gradient(M, U, drop, V)
        return landscape.value(M, U, drop, V), slope.ravel() if tied else np.concatenate([s.ravel() for s in slope])

    point, least = _lowest(value, d1 * r if tied else (d1 + d2) * r, rng)
    U, V = parts(point)
    return U, U if V is None else V, least
