"""The equations of [Steck20], each compared with an independent computation on a small problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from offdiag.lab import montecarlo
from offdiag.papers.claims import Chapter

PAPER = "steck2020"
USERS, ITEMS, RANK, STARTS = 40, 6, 2, 6
DROPOUTS = (0.2, 0.5)
L2 = 0.7
CLOSE = 5e-3  # Eq. 10 has several local minima, and one start finds one of them
LITTLE = 1e-7  # a weight of kept entries that is as good as 0
Matrix = NDArray[np.float64]


def theorems(seed: int) -> Chapter:
    """Sections 3 and 4: averages over every mask, and minima found without the closed forms."""
    rng = np.random.default_rng(seed)
    X = (rng.random((USERS, ITEMS)) < rng.uniform(0.2, 0.7, ITEMS)).astype(np.float64)
    B = 0.3 * rng.standard_normal((ITEMS, ITEMS))
    chapter = Chapter(
        PAPER,
        "The theorems (Sections 3 and 4)",
        f"On {USERS} random users and {ITEMS} items the loss of denoising is averaged over all {2**ITEMS} masks, and "
        "closed forms are compared with minima of the loss that were found without them: at full rank from its values "
        "at a few points, which determine a quadratic function, at low rank by a search from several starts (L-BFGS).",
    )
    _losses(chapter, X, B)
    _full_rank(chapter, X)
    _low_rank(chapter, X, rng)
    return chapter


def enumerated(X: Matrix, B: Matrix, dropout: float, kept_weight: float) -> float:
    """The expected loss of emphasised denoising (Eq. 1 and 2), divided by the mean weight of an entry."""
    keep = 1 - dropout
    masks, chances = montecarlo.enumerate_masks(ITEMS, drop=1 - keep)
    total = 0.0
    for mask, chance in zip(np.asarray(masks) > 0, np.asarray(chances).ravel(), strict=True):
        # Masks of different users are independent, so their expected losses add up.
        weights = np.where(mask, kept_weight, 1.0)
        total += float(chance) * float((weights * (X - (X * mask / keep) @ B) ** 2).sum())
    return total / (dropout + kept_weight * keep)


def formula(X: Matrix, B: Matrix, dropout: float, kept_weight: float, l2: float = 0.0) -> float:
    """The same without masks (Eq. 6), with Λ = p/q·diag(XᵀX) + l2."""
    w = dropout + kept_weight * (1 - dropout)
    s = kept_weight / w
    lam = penalty(X, dropout, l2)
    diagonal = np.diag(B)
    off = B - np.diag(diagonal)
    fit = float(((X - X @ (off + s * np.diag(diagonal))) ** 2).sum())
    return fit + float(lam @ (off**2).sum(axis=1)) + kept_weight / w**2 * float(lam @ diagonal**2)


def penalty(X: Matrix, dropout: float, l2: float = L2) -> Matrix:
    """Λ of Eq. 4, and the scalar λ of Table 1."""
    found: Matrix = dropout / (1 - dropout) * (X**2).sum(axis=0) + l2
    return found


def _losses(chapter: Chapter, X: Matrix, B: Matrix) -> None:
    plain = max(abs(enumerated(X, B, p, 1.0) / _ridge(X, B, p) - 1) for p in DROPOUTS)
    chapter.numbers["dropout_is_l2"] = plain
    chapter.claim("dropout_is_l2", f"largest relative difference {plain:.1e}", plain < 1e-12)
    cases = [(p, b) for p in DROPOUTS for b in (0.0, 0.3, 1.0)]
    worst = max(abs(enumerated(X, B, p, b) / formula(X, B, p, b) - 1) for p, b in cases)
    chapter.numbers["emphasis_formula"] = worst
    chapter.claim(
        "emphasis_formula",
        f"largest relative difference {worst:.1e} over {len(cases)} dropouts and weights",
        worst < 1e-12,
    )


def _ridge(X: Matrix, B: Matrix, dropout: float) -> float:
    """Eq. 3 and 4."""
    return float(((X - X @ B) ** 2).sum()) + float(penalty(X, dropout, 0.0) @ (B**2).sum(axis=1))


def _full_rank(chapter: Chapter, X: Matrix) -> None:
    import offdiag as od

    words: dict[str, Any] = {"dropout": DROPOUTS[0], "l2": L2, "user_power": 0.0, "dtype": "float64"}
    apart = {}
    for name, kind, kept_weight in (("DLAE", od.DLAE, 1.0), ("EDLAE", od.EDLAE, 0.0)):
        closed = kind(**words).fit(X).weights_.toarray()
        searched = minimum(X, DROPOUTS[0], kept_weight)
        if kept_weight == 0:
            np.fill_diagonal(searched, 0.0)
        apart[name] = float(np.abs(closed - searched).max())
    chapter.numbers["full_rank_dlae"], chapter.numbers["full_rank_edlae"] = apart["DLAE"], apart["EDLAE"]
    chapter.claim("full_rank_dlae", f"largest difference to the minimum {apart['DLAE']:.1e}", apart["DLAE"] < 1e-5)
    chapter.claim(
        "full_rank_edlae",
        f"largest difference to the minimum, off the diagonal, {apart['EDLAE']:.1e}",
        apart["EDLAE"] < 1e-5,
    )
    limit = np.diag(minimum(X, DROPOUTS[0], LITTLE, l2=0.0))
    chapter.numbers["diagonal_in_the_limit"] = float(np.abs(limit).min())
    chapter.claim(
        "diagonal_in_the_limit",
        f"with a weight of {LITTLE:g} on kept entries the diagonal is {limit.min():.3f} to {limit.max():.3f}, not 0",
        bool(np.abs(limit).max() < 1e-3),
    )


def minimum(X: Matrix, dropout: float, kept_weight: float, l2: float = L2) -> Matrix:
    """The minimum of ``formula`` over all matrices: it is quadratic in each column, so its values determine it."""
    m = X.shape[1]
    zero = np.zeros((m, m))
    out = np.zeros((m, m))
    for column in range(m):

        def value(b: Matrix, column: int = column) -> float:
            B = zero.copy()
            B[:, column] = b
            return formula(X, B, dropout, kept_weight, l2)

        unit = np.eye(m)
        base = value(np.zeros(m))
        single = np.array([value(e) for e in unit])
        minus = np.array([value(-e) for e in unit])
        H = np.array([[value(a + b) - value(a) - value(b) + base for b in unit] for a in unit])
        gradient = (single - minus) / 2
        out[:, column] = -np.linalg.lstsq(H, gradient, rcond=1e-14)[0]
    return out


def _low_rank(chapter: Chapter, X: Matrix, rng: np.random.Generator) -> None:
    import offdiag as od

    words: dict[str, Any] = {"rank": RANK, "dropout": DROPOUTS[1], "l2": L2, "user_power": 0.0, "dtype": "float64"}
    ours = od.LowRankEDLAE(**words, iterations=2000).fit(X)
    ours_at = formula(X, ours.weights_.toarray().astype(np.float64), DROPOUTS[1], 0.0, L2)

    def loss(flat: Matrix) -> float:
        U, V = flat.reshape(2, ITEMS, RANK)
        return formula(X, U @ V.T, DROPOUTS[1], 0.0, L2)

    starts = [0.5 * rng.standard_normal(2 * ITEMS * RANK) for _ in range(STARTS)]
    best = min(
        float(optimize.minimize(loss, start, method="L-BFGS-B", options={"maxiter": 2000}).fun) for start in starts
    )
    excess = ours_at / best - 1
    chapter.numbers["low_rank_excess"] = excess
    chapter.claim(
        "low_rank_edlae", f"ours ends {100 * excess:+.4f} % from the best of {len(starts)} searches", excess < CLOSE
    )
