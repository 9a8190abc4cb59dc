"""A map of the small problem before the first trial: rays of (dropout, l2), each from one eigendecomposition.

Only scores are needed to compare settings, and along a ray Λ = c·(g + κ) each costs one product
(``solvers.penalty_path``). The same products give the exact error of users left out of training, which needs no
validation user at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import ranking
from offdiag.data.split import HeldOut
from offdiag.evaluation import evaluate
from offdiag.gramian.user_weights import weights_of
from offdiag.models.full_rank import DLAE, EASE, EDLAE, RDLAE
from offdiag.progress import Progress
from offdiag.solvers import cholesky, penalty_path
from offdiag.tuning.trial_runner import Bench, part_of
from offdiag.weights import Scorer

POWERS = (0.0, 0.5, 1.0)
KAPPAS = (0.1, 0.5, 2.0)  # l2 per odds of dropout, in units of EASE's l2
DROPOUTS = (0.15, 0.35, 0.55, 0.75, 0.9)
L2S = tuple(4.0**k for k in (-2, -1, -0.5, 0, 0.5, 1, 2))  # of EASE, in the same unit
TAKEN = 4  # settings of the map that become trials
USERS = 300  # validation users for the map


def applies(cls: type, fixed: dict[str, Any], given: dict[str, Any], bench: Bench) -> bool:
    """Whether a map can be drawn: full-rank models whose l2 and dropout are free, without bounds by the caller."""
    held = {"l2", "dropout", "item_power"} & set(fixed)
    bound = {"l2", "dropout", "user_power", "item_power", "kept_weight", "max_diagonal"} & set(given)
    return cls in (EASE, DLAE, EDLAE, RDLAE) and not held and not bound and bench.small is not None


def screen(
    cls: type, bench: Bench, fixed: dict[str, Any], l2: float, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The best settings of the map, best first, and those with the smallest left-out error."""
    found = []
    powers = (float(fixed["user_power"]),) if "user_power" in fixed else POWERS
    for n, power in enumerate(powers):
        if progress:
            progress("screening", n / len(powers))
        found += list(_map(cls, bench, fixed, power, l2))
    ranked = sorted(found, key=lambda point: -point[1])
    safe = min(found, key=lambda point: point[2])[0]
    taken: dict[tuple[float, float], dict[str, Any]] = {}
    for settings, _, _ in ranked:
        odds = settings.get("dropout", 0.0) / (1 - settings.get("dropout", 0.0))
        ray = (settings["user_power"], round(float(np.log(settings["l2"] / odds if odds else settings["l2"])), 6))
        taken.setdefault(ray, settings)  # the best of each ray, so that they differ
    best = list(taken.values())[:TAKEN]
    return best if safe in best else [*best[: TAKEN - 1], safe]


def _map(
    cls: type, bench: Bench, fixed: dict[str, Any], power: float, l2: float
) -> Iterator[tuple[dict[str, Any], float, float]]:
    """(settings, metric on the small problem, left-out error) for every point at one user_power."""
    small = bench.small
    assert small is not None
    whole = bench.gram(power)
    scale = whole.scale
    G = part_of(whole, small.items).toarray()
    g = np.diag(G).astype(np.float64)
    step = max(1, small.held_out.histories.shape[0] // USERS)
    users = np.arange(0, small.held_out.histories.shape[0], step)
    held_out = HeldOut(small.held_out.histories[users], small.held_out.targets[users], users)
    histories = held_out.histories.toarray().astype(np.float32)
    n_u = np.diff(bench.matrix.indptr)
    rows = small.rows[n_u[small.rows] > 0]
    train = sparse.csr_array(bench.matrix[rows][:, small.items]).toarray().astype(np.float32)
    inside = train.any(axis=1)
    train, weight = train[inside], scale * weights_of(n_u[rows][inside], power)
    rays = [(np.ones(len(g)), [(0.0, l2 * step) for step in L2S])]
    if cls is not EASE:
        odds = [p / (1 - p) for p in DROPOUTS]
        rays = [(g + k * l2, [(p, c * k * l2) for p, c in zip(DROPOUTS, odds, strict=True)]) for k in KAPPAS]
    for d, points in rays:
        ray = penalty_path.ray(G, np.maximum(d, 1e-12))
        Z, T = ray.project(histories), ray.project(train)
        for dropout, strength in points:
            c = dropout / (1 - dropout) if dropout else strength
            C_ii = ray.diagonal(c)
            nu, _ = cholesky.emphasis(
                c * d, C_ii, dropout=dropout,
                kept_weight=1.0 if cls is DLAE else float(fixed.get("kept_weight", 0.0)),
                max_diagonal=float(fixed.get("max_diagonal", RDLAE.max_diagonal)) if cls is RDLAE else None,
            )  # fmt: skip
            scores = ray.apply(Z, c) * -nu.astype(np.float32)  # of unseen items; the others are not used
            value = evaluate(_Scored(scores), held_out, [bench.metric]).mean[bench.metric]
            error = float(np.mean(penalty_path.left_out(train, ray.apply(T, c), C_ii, ray.quadratic(T, c), weight)))
            settings = {"dropout": dropout, "l2": strength, "user_power": power}
            if cls is EASE:
                del settings["dropout"]
            yield settings, value, error


class _Scored(Scorer):
    """Scores that exist already, with what ``evaluate`` needs."""

    def __init__(self, scores: NDArray[np.float32]) -> None:
        self.scores = scores
        self.indices: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.scores.dtype

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Any]:
        yield 0, self.scores.shape[1], lambda first, last: self.scores[first:last]

    def recommend(self, histories: Any, k: int, exclude_seen: bool) -> _Scored:
        self.indices, _ = ranking.top_k(self, histories, k, exclude_seen=exclude_seen)
        return self
