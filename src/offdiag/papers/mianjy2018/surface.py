"""Section 4 of [Mianjy18]: every point at which training could stop, for small problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag.lab import dropout, landscape
from offdiag.lab.checks import Matrix
from offdiag.papers.driver import Numbers
from offdiag.papers.mianjy2018.measure import FIGURE_1, drop_of


def scalar(m: float = 2.0) -> Numbers:
    """Figure 1: a search for the minima of the scalar's surface from many starts, and where it ends."""
    from scipy.optimize import minimize

    out: Numbers = {}
    uneven = missed = 0.0
    for lam in FIGURE_1:
        drop = drop_of(lam)

        def value(w: Matrix, drop: float = drop) -> tuple[float, Matrix]:
            return landscape.value([[m]], w[None], drop), landscape.gradient([[m]], w[None], drop)[0]

        starts = [2 * np.array([np.cos(x), np.sin(x)]) for x in np.linspace(0.1, 6.2, 24)]
        options: Any = {"gtol": 1e-12, "ftol": 0.0}
        ends = np.array([minimize(value, w, jac=True, method="L-BFGS-B", options=options).x for w in starts])
        stated = landscape.contours(m, drop, points=3).minima
        out[f"scalar_distance_{lam:g}"] = float(np.linalg.norm(ends, axis=1).mean())
        if lam:
            uneven = max(uneven, float(np.abs(np.abs(ends[:, 0]) - np.abs(ends[:, 1])).max()))
            missed = max(missed, float(np.linalg.norm(ends[:, None] - stated, axis=2).min(axis=1).max()))
    return out | {"scalar_unevenness": uneven, "scalar_missed": missed}


@dataclass(frozen=True, eq=False)
class Curvature:
    """For each λ, as a multiple of the bound of Theorem 4.3: the flattest saddle."""

    multiples: Matrix
    flattest: Matrix  # the largest, over saddles, of the smallest eigenvalue of the Hessian, over ‖M‖


def surface(problems: int, seed: int) -> tuple[Numbers, Curvature]:
    """Section 4: every critical point of small tied problems, below and far above the bound of Theorem 4.3."""
    rng = np.random.default_rng(seed)
    multiples = np.array([0.1, 0.5, 0.9, 2.0, 5.0, 20.0, 100.0])
    flattest = np.full(len(multiples), -np.inf)
    points = uneven_minima = spurious = flat = uneven = 0
    above, agree, slopes = -np.inf, True, 0.0
    for _ in range(problems):
        A = rng.standard_normal((4, 4))
        M, width = A @ A.T, int(rng.integers(2, 4))
        top = float(np.linalg.norm(M, 2))
        bound = landscape.all_minima_global(M, width, 0.0, tied=True).bound
        for at, multiple in enumerate(multiples):
            drop = drop_of(multiple * bound)
            agree &= (dropout.optimum(M, width, drop, tied=True).rank == width) == (multiple < 1)
            for point in landscape.critical_points(M, width, drop):
                points += 1
                slopes = max(slopes, float(np.abs(landscape.gradient(M, point.U, drop)).max()) / top**1.5)
                above = max(above, float(np.linalg.eigvalsh(point.U @ point.U.T - M)[-1]) / top)
                if point.kind == "strict saddle":
                    flattest[at] = max(flattest[at], point.signature.smallest / top)
                spurious += point.kind == "local minimum"
                flat += point.kind == "degenerate"
                if not point.equalised:
                    uneven += 1
                    uneven_minima += point.kind != "strict saddle"
    return {
        "critical_points": float(points),
        "critical_slope": slopes,
        "spurious_minima": float(spurious),
        "degenerate_points": float(flat),
        "uneven_points": float(uneven),
        "uneven_minima": float(uneven_minima),
        "flattest_saddle_below_bound": float(flattest[multiples < 1].max()),
        "flattest_saddle_above_bound": float(flattest[multiples > 1].max()),
        "product_above_m": above,
        "condition_is_full_rank": float(agree),
    }, Curvature(multiples, flattest)


def indefinite() -> Numbers:
    """Lemma D.1 for an M with a negative eigenvalue: the largest eigenvalue of UUᵀ − M, and of UUᵀ − M₊."""
    M = np.diag([2.0, 1.0, -3.0])
    points = landscape.critical_points(M, 2, 0.5)
    products = [point.U @ point.U.T for point in points]
    return {
        "zero_is_level": float(np.abs(landscape.gradient(M, np.zeros((3, 2)), 0.5)).max()),
        "product_above_indefinite_m": max(float(np.linalg.eigvalsh(P - M)[-1]) for P in products),
        "product_above_positive_part": max(float(np.linalg.eigvalsh(P - np.maximum(M, 0))[-1]) for P in products),
    }


def lemma_d3() -> Numbers:
    """The two curves in the proof of Lemma D.3, from level points of diag(4, 3, 2) with two units and λ = ½."""
    M, r, lam, t = np.diag([4.0, 3.0, 2.0]), 2, 0.5, 0.3
    basis = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)  # equalises U = WΣVᵀ with one direction

    def point(direction: Matrix, size: float) -> Matrix:
        return np.outer(direction, size * basis[0])

    def penalty(U: Matrix) -> float:
        return lam * float(np.sum(np.sum(U**2, axis=0) ** 2))

    def loss(U: Matrix) -> float:
        return float(np.sum((M - U @ U.T) ** 2))

    first, second = np.eye(3)[:2]
    square = float(M[0, 0] * r / (r + lam))  # σ² of the level point with the first direction only (Eq. 17, r′ = 1)
    U = point(first, np.sqrt(square))
    moved = point(first, np.sqrt(square + t**2)) + np.outer(second, t * basis[1])
    added = lam * r * t**4 + 2 * lam * t**2 * square
    other = float(M[1, 1] * r / (r + lam))
    missing = point(second, np.sqrt(other))  # a level point without the first direction
    turned = point(np.sqrt(1 - t**2) * second + t * first, np.sqrt(other))
    drop = loss(turned) + penalty(turned) - loss(missing) - penalty(missing)
    return {
        "case_2_gap": abs(penalty(moved) - (penalty(U) + added)),
        "case_2_printed_gap": abs(penalty(moved) - (loss(U) + added)),
        "case_3_gap": abs(drop + 2 * other * t**2 * (M[0, 0] - M[1, 1])),
        "case_3_printed_gap": abs(drop + 2 * other * t**4 * (M[0, 0] - M[1, 1])),
    }
