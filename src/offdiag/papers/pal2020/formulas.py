"""The formulas of Pal et al. (2020) against slow reference methods: each function checks one part of the paper."""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

import numpy as np

from offdiag.lab import dropblock, dropout
from offdiag.lab.checks import Matrix
from offdiag.papers.driver import Numbers


def capacity(seed: int) -> tuple[Matrix, Matrix, Matrix]:
    """Lemma 2.2 and Eq. 7: the least loss of nets of growing width for one target, with fixed θ and with θ(d)."""
    target = np.random.default_rng(seed).standard_normal((6, 6))
    block, fixed = 2, 0.5
    widths = block * 2 ** np.arange(2, 9)
    losses = []
    for d in widths.tolist():
        theta = fixed * block / (fixed * block + (1 - fixed) * d)  # [Pal20 Eq. 7]
        losses.append([dropblock.optimum(target, np.eye(6), d, block, 1 - keep).value for keep in (fixed, theta)])
    relative = np.array(losses) / np.sum(target**2)
    return widths.astype(np.float64), relative[:, 0], relative[:, 1]


def doubling(seed: int) -> float:
    """The construction in the proof of Lemma 2.2: [U U]/√2, [V V]/√2 is the same net at half the penalty; its error."""
    rng = np.random.default_rng(seed)
    X, U, V = (rng.standard_normal(shape) for shape in ((5, 9), (4, 6), (5, 6)))
    once = np.sum(dropblock.block_norms(U, V, X, 2) ** 2)
    U2, V2 = np.hstack([U, U]) / np.sqrt(2), np.hstack([V, V]) / np.sqrt(2)
    same = np.abs(U2 @ V2.T - U @ V.T).max()
    return float(max(same, abs(np.sum(dropblock.block_norms(U2, V2, X, 2) ** 2) / once - 0.5)))


def norms(seed: int, trials: int) -> Numbers:
    """Theorem 2.3 on random vectors: the norm against its dual, and the results of the printed choices of ρ."""
    rng = np.random.default_rng(seed)
    gap = printed = 0.0
    wrong = 0
    for _ in range(trials):
        a = np.sort(rng.standard_exponential(int(rng.integers(3, 12))) ** 2)[::-1]
        r = int(rng.integers(2, len(a)))
        value = dropblock.k_support_squared(a, r)
        gap = max(gap, abs(_dual(a, r) / value - 1))
        over = [np.sum(a[: rho - 1] ** 2) + a[rho - 1 :].sum() ** 2 / (r - rho + 1) for rho in range(1, r + 1)]
        wrong += bool(max(over) > value * (1 + 1e-9))
        printed = max(printed, max(over) / value - 1)
    return {"norm_dual_gap": gap, "printed_norm_wrong_share": wrong / trials, "printed_norm_excess": float(printed)}


def equation_37(seed: int) -> Numbers:
    """The second line of Eq. 37 at a feasible ρ > 1: with x_ρ² it is the norm, with the printed a_ρ² it is not."""
    r, rho = 3, 2
    a = np.concatenate([[9.0], np.sort(np.random.default_rng(seed).uniform(1, 2, 5))[::-1]])  # 9 stands out
    x = np.append(2 * a[: rho - 1], 2 * a[rho - 1 :].sum() / (r - rho + 1))  # Eq. 36
    first = float(np.sum(a[: rho - 1] * x[:-1] - x[:-1] ** 2 / 4) + x[-1] * a[rho - 1 :].sum())
    norm = dropblock.k_support_squared(a, r)
    right, printed = (first - (r - rho + 1) / 4 * square for square in (x[-1] ** 2, a[rho - 1] ** 2))
    return {"eq37_gap": float(abs(right / norm - 1)), "eq37_printed_gap": float(abs(printed / norm - 1))}


def _dual(a: Matrix, r: int) -> float:
    """max a·x − ¼·(sum of the r largest x²), at the x that the weights t of the variational form point to."""
    low, high = 0.0, 2 * r / a[-1]
    for _ in range(200):  # Σ min(1, γ a_i) = r by bisection
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, middle * a).sum() < r else (low, middle)
    x = 2 * a / np.minimum(1, high * a)
    return float(a @ x - np.sort(x**2)[::-1][:r].sum() / 4)


def proxes(seed: int, trials: int) -> Numbers:
    """Theorem 2.7 on random vectors: the fast prox against the search, and the search as printed, with ρ ≤ r − 1."""
    rng = np.random.default_rng(seed)
    far = excess = 0.0
    wrong = 0
    for _ in range(trials):
        m = np.sort(rng.standard_exponential(int(rng.integers(3, 10))))[::-1] * 3
        r, beta = int(rng.integers(2, len(m))), float(rng.uniform(0.05, 2))
        x = dropblock.prox(m, r, beta)
        far = max(far, float(np.abs(x - dropblock.prox_by_search(m, r, beta)).max() / m[0]))
        best, candidate = _objective(x, m, r, beta), _as_printed(m, r, beta)
        wrong += bool(candidate > best * (1 + 1e-9))
        excess = max(excess, candidate - best)
    return {"prox_search_distance": far, "printed_prox_wrong_share": wrong / trials, "printed_prox_excess": excess}


def _objective(x: Matrix, m: Matrix, r: int, beta: float) -> float:
    return float(np.sum((m - x) ** 2)) + beta * dropblock.k_support_squared(x, r)


def _as_printed(m: Matrix, r: int, beta: float) -> float:
    """The least F over the candidates of the theorem, with ρ from 1 to r − 1 as printed."""
    best = np.inf
    for rho in range(1, r):
        for lam in range(1, len(m) + 1):
            x = np.zeros(len(m))
            head = min(rho - 1, lam)
            x[:head] = m[:head] / (1 + beta)
            if lam >= rho:
                c = r + beta * lam + (beta + 1) * (1 - rho)
                x[rho - 1 : lam] = np.maximum(m[rho - 1 : lam] - beta / c * m[rho - 1 : lam].sum(), 0)
            best = min(best, _objective(x, m, r, beta))
    return best


def speed() -> float:
    """How many times faster the prox is than the search, 2,000 singular values, order 1,000; only for the text."""
    m = np.random.default_rng(0).standard_exponential(2000)
    took = []
    for way, times in ((dropblock.prox, 20), (dropblock.prox_by_search, 1)):
        begun = time.perf_counter()
        for _ in range(times):
            way(m, 1000, 0.5)
        took.append((time.perf_counter() - begun) / times)
    return took[1] / took[0]


def shrunk(width: int = 60, drop: float = 0.5) -> tuple[Matrix, dict[int, Matrix]]:
    """The effect of blocks on a steep spectrum: shrunken singular values for several block sizes, at one width."""
    m = np.asarray(30 * 0.8 ** np.arange(30), dtype=np.float64)
    odds = drop / (1 - drop)
    return m, {block: dropblock.prox(m, block, odds * block / width) for block in (1, 12, 20, 60)}


def attainable(seed: int) -> Numbers:
    """The theorem without full column rank: noise in Y that no function of X can fit."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((4, 20)), 2 * rng.standard_normal((5, 20))
    found = dropblock.optimum(Y, X, 6, 2, 0.5)
    m = np.asarray(np.linalg.svd(Y, compute_uv=False), dtype=np.float64)
    x = dropblock.prox(m, 2, 1 / 3)
    direct = dropblock.expected_loss(Y, found.U, found.V, X, 2, 0.5)
    return {
        "rank_bound": found.bound,
        "rank_raw": _objective(x, m, 2, 1 / 3),
        "rank_gap": abs(direct / found.bound - 1),
    }


class FewBlocks(NamedTuple):
    """The best net found with k blocks, above the bound, and whether the bound can be attained."""

    k: int
    gap: float  # relative
    attainable: bool | None


def few_blocks(seed: int) -> list[FewBlocks]:
    """Where the bound is not attained: by the number of blocks, rank 8, block 3; the rule and the search."""
    Y = np.diag([6.0, 5.8, 5.6, 5.0, 4.0, 3.4, 3.2, 3.0])
    found = [(k, dropblock.optimum(Y, np.eye(8), 3 * k, 3, 0.5, seed=seed)) for k in range(2, 9)]
    return [FewBlocks(k, best.gap / best.value, best.attainable) for k, best in found]


def general(seed: int) -> Numbers:
    """Lemma 3.1 with masks of any covariance, and Corollary 3.2 with and without its factor, over every mask."""
    rng = np.random.default_rng(seed)
    Y, U, A = rng.standard_normal((3, 5)), rng.standard_normal((3, 6)), np.tanh(rng.standard_normal((6, 5)))
    masks = rng.integers(0, 2, (40, 6)).astype(float)
    chances = rng.dirichlet(np.ones(40))
    mean = chances @ masks
    cov = (masks * chances[:, None]).T @ masks - np.outer(mean, mean)
    truth = sum(c * float(np.sum((Y - (U * (z / mean)) @ A) ** 2)) for c, z in zip(chances, masks, strict=True))
    theta = 0.3
    every = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    weight = np.prod(np.where(every == 1, theta, 1 - theta), axis=1)
    bernoulli = sum(w * float(np.sum((Y - (U * z / theta) @ A) ** 2)) for w, z in zip(weight, every, strict=True))
    plain, terms = float(np.sum((Y - U @ A) ** 2)), float(np.sum(U**2, axis=0) @ np.sum(A**2, axis=1))
    return {
        "lemma31_error": float(abs(dropout.expected_loss(Y, U, A, mean, cov) / truth - 1)),
        "cor32_error": float(abs((plain + (1 - theta) / theta * terms) / bernoulli - 1)),
        "cor32_printed_error": float(abs((plain + terms) / bernoulli - 1)),
    }


def last_layer(seed: int) -> tuple[list[int], Matrix, Matrix, float]:
    """Proposition 3.3: the least loss over U and any hidden matrix by width; with 1/d, and as printed.

    A net that can produce any hidden layer is the linear net with X = I.
    """
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((5, 8)) * 2
    m = np.asarray(np.linalg.svd(Y, compute_uv=False), dtype=np.float64)
    widths = [5, 8, 12, 20, 40, 80]
    found = [dropblock.optimum(Y, np.eye(8), d, 1, 0.5).value for d in widths]
    by_d = np.array([_objective(dropblock.prox(m, 1, 1 / d), m, 1, 1 / d) for d in widths])
    printed = _objective(dropblock.prox(m, 1, 1.0), m, 1, 1.0)
    return widths, np.array(found), by_d, printed
