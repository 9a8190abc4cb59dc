"""Figure 1 of [Steck20] on any data: accuracy by rank, and the cosines of similar items with and without emphasis."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import diagnostics
from offdiag.data import split as splits
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError
from offdiag.evaluation import evaluate
from offdiag.models.recommender import Recommender
from offdiag.papers.claims import Size
from offdiag.papers.steck2020 import grid
from offdiag.progress import Progress

GROUP = 10  # size of a group of similar items, as in the paper
SIDES = ("encoder", "decoder")
EDLAE, ZERO, DLAE = "EDLAE", "zero diagonal", "DLAE"
BALANCED, AS_FITTED = "balanced", "as fitted"
# gauge → model → (encoder, decoder): a median cosine per group of similar items
Cosines = dict[str, dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]]


@dataclass(frozen=True)
class Sizes:
    """The ranks of the curve besides a third of the items, and the synthetic catalogue of a run without data."""

    ranks: tuple[int, ...]
    users: int
    items: int
    interactions: int


SIZES: dict[Size, Sizes] = {
    "small": Sizes((5, 20), 800, 120, 16_000),
    "paper": Sizes((10, 20, 50, 100, 200, 500, 1000, 2000, 5000), 6000, 1000, 180_000),
}


@dataclass(frozen=True, eq=False)
class Figure1:
    """Everything the figure shows, and how it was made."""

    source: str
    train: Interactions
    held_out: float
    seed: int
    tuned: bool  # each model at each rank by itself; otherwise all with the same dropout and l2
    full_rank: dict[str, diagnostics.RankPoint]  # the three models without a limit on the rank
    curve: diagnostics.RankCurve
    rank: int  # of the histograms
    cosines: Cosines
    diagonals: dict[str, NDArray[np.floating]]
    unbalance: float  # ‖UᵀU − VᵀV‖ / ‖UᵀU‖ of the balanced pairs, the largest of the three
    changed: float  # by balancing: how far UVᵀ moved, relative to its size, on random vectors
    seconds: float

    @property
    def metric(self) -> str:
        return self.curve.metric

    @property
    def n_test(self) -> int:
        return self.full_rank[EDLAE].result.n_users


def parse_ranks(text: str | None) -> list[int] | None:
    """The ranks as typed, or None for those of the size."""
    if text is None:
        return None
    try:
        ranks = [int(part) for part in text.split(",")]
    except ValueError:
        ranks = [0]
    if min(ranks) < 1:
        raise OffdiagError(f"--ranks takes whole numbers from 1 divided by commas, e.g. 10,20,50, received {text!r}")
    return ranks


def choose_ranks(ranks: list[int] | None, rank: int | None, n_items: int, size: Size) -> tuple[list[int], int]:
    """The ranks of the curve and the rank of the histograms, all below the number of items.

    By default those of the size up to a sixth of the items, and a third of the items: a large rank must be large.
    """
    third = max(1, n_items // 3)
    if ranks is None:
        ranks = [*(r for r in SIZES[size].ranks if 2 * r <= third), third]
    if rank is not None and not 1 <= rank < n_items:
        raise OffdiagError(f"--rank must be from 1 to below the {n_items:,} items, received {rank}")
    below = sorted({r for r in ranks if r < n_items})
    if not below:
        raise OffdiagError(f"--ranks must name a rank below the {n_items:,} items, received {ranks[0]} and none less")
    rank = below[-1] if rank is None else rank
    return sorted({*below, rank}), rank


def run(
    inter: Interactions,
    source: str,
    *,
    size: Size = "paper",
    ranks: list[int] | None = None,
    rank: int | None = None,
    dropout: float | str = "auto",
    l2: float | str = "auto",
    held_out: float = 0.1,
    metric: str = "ndcg@100",
    seed: int = 0,
    progress: Progress | None = None,
) -> Figure1:
    """Hold out users, fit the three models at every rank and without a limit on it, measure; nothing is written.

    With "auto" for both settings each model is tuned at each rank on the validation users, EDLAE in dropout and l2,
    the other two in l2 alone, as in the paper. A given dropout or l2 is that of all models, and nothing is tuned.
    """
    import offdiag as od

    start = time.perf_counter()
    report = progress or (lambda stage, fraction: None)
    all_ranks, rank = choose_ranks(ranks, rank, inter.n_items, size)
    report("Figure 1 · splitting users", 0.0)
    parts = splits.strong(inter, held_out=held_out, seed=seed)
    tuned = dropout == l2 == "auto"
    # As in the paper, every interaction has the same weight, whatever the user's activity.
    report("Figure 1 · full rank", 0.0)
    auto = grid.complete_fit(od.EDLAE(dropout=dropout, l2=l2, user_power=0.0), parts.train)  # type: ignore[arg-type]
    words = {name: auto.settings_[name] for name in ("dropout", "l2", "user_power")}
    search = _Search(parts, metric, words, tuned)
    full_rank, groups = {}, np.empty((0, 0), dtype=np.int64)
    for name, kind in ((EDLAE, od.EDLAE), (ZERO, od.EASE if tuned else od.EDLAE), (DLAE, od.DLAE)):
        chosen: Any = search.choose(name, inter.n_items, kind(**search.settings_of(kind)))
        began = time.perf_counter()
        model = grid.complete_fit(chosen, parts.train)
        full_rank[name] = _point(name, model, inter.n_items, time.perf_counter() - began, parts.test, metric)
        if name == EDLAE:
            groups = diagnostics.similar_groups(model.weights_, GROUP)
        del model
    models = {
        EDLAE: od.LowRankEDLAE(**words, seed=seed),
        ZERO: od.ZeroDiagonalLAE(**words, seed=seed),
        DLAE: od.LowRankDLAE(**words, seed=seed),
    }
    curve = diagnostics.accuracy_by_rank(
        parts.train, parts.test, all_ranks, models, metric, keep=(rank,),
        progress=lambda stage, fraction: report(f"Figure 1 · {stage}", fraction), choose=search.choose,
    )  # fmt: skip
    report("Figure 1 · comparing embeddings", 1.0)
    cosines: Cosines = {BALANCED: {}, AS_FITTED: {}}
    diagonals, unbalance, changed = {}, 0.0, 0.0
    some = np.random.default_rng(0).standard_normal((inter.n_items, 8))  # instead of the whole product
    for name in models:
        weights = curve.fitted[name, rank].weights_
        pairs = {BALANCED: diagnostics.balanced(weights), AS_FITTED: (weights.U, weights.V)}
        for gauge, (U, V) in pairs.items():
            cosines[gauge][name] = (diagnostics.median_cosines(U, groups), diagnostics.median_cosines(V, groups))
        U, V = pairs[BALANCED]
        unbalance = max(unbalance, _relative(U.T @ U, V.T @ V))
        changed = max(changed, _relative(weights.U @ (weights.V.T @ some), U @ (V.T @ some)))
        diagonals[name] = weights.diagonal()
    took = time.perf_counter() - start
    return Figure1(
        source, parts.train, held_out, seed, tuned, full_rank, curve, rank, cosines, diagonals, unbalance, changed, took
    )


class _Search:
    """Chooses dropout and l2 of each model at each rank, from those of the rank before."""

    def __init__(self, parts: splits.Split, metric: str, words: dict[str, float], tuned: bool) -> None:
        self._parts, self._metric, self._words, self._tuned = parts, metric, words, tuned
        own = parts.train.matrix
        odds = words["dropout"] / (1 - words["dropout"])
        # The scalar penalty starts at the mean of what dropout and l2 add up to.
        scalar = (0.0, words["l2"] + odds * float(own.multiply(own).sum()) / parts.train.n_items)
        self._last: dict[str, grid.Setting] = {EDLAE: (words["dropout"], words["l2"]), ZERO: scalar, DLAE: scalar}

    def settings_of(self, kind: Callable[..., Recommender]) -> dict[str, Any]:
        """What a full-rank model of this kind takes of the common settings."""
        known = kind().get_params()
        return {word: value for word, value in self._words.items() if word in known}

    def choose(self, name: str, rank: int, model: grid.Model) -> grid.Model:
        """The model with the settings that are best on the validation users; unchanged if nothing is tuned."""
        if not self._tuned:
            return model
        known = model.get_params()

        def with_settings(dropout: float, l2: float) -> grid.Model:
            return type(model)(**known | {"l2": l2} | ({"dropout": dropout} if "dropout" in known else {}))

        def score(dropout: float, l2: float) -> float:
            fitted = grid.complete_fit(with_settings(dropout, l2), self._parts.train)
            assert self._parts.validation is not None  # ``strong`` makes one
            return evaluate(fitted, self._parts.validation, [self._metric]).mean[self._metric]

        dropouts = grid.DROPOUTS if name == EDLAE else grid.NO_DROPOUT
        self._last[name] = grid.climb(score, self._last[name], dropouts)
        return with_settings(*self._last[name])


def _point(
    name: str, model: Recommender, rank: int, seconds: float, test: splits.HeldOut, metric: str
) -> diagnostics.RankPoint:
    result = evaluate(model, test, metrics=[metric])
    mean, sem, n_bytes = result.mean[metric], result.sem[metric], model.weights_.nbytes
    objective = float(getattr(model, "objective_", float("nan")))
    settings = {key: model.settings_.get(key, 0.0) for key in ("dropout", "l2", "user_power")}
    return diagnostics.RankPoint(name, rank, mean, sem, n_bytes, seconds, objective, settings, result)


def _relative(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    return float(np.linalg.norm(one - other) / max(float(np.linalg.norm(one)), np.finfo(np.float64).tiny))


def middle(values: NDArray[Any]) -> float:
    """The median of the finite values; nan, without a warning, if there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")
