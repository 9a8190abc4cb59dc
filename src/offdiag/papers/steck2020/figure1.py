"""Figure 1 of [Steck20] on any data: accuracy by rank, and the cosines of similar items with and without emphasis."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import diagnostics
from offdiag.errors import OffdiagError
from offdiag.papers.claims import Claim, Gap, Verdict, ahead, gap, never_behind, verdict

if TYPE_CHECKING:
    from offdiag import Interactions
    from offdiag.cli.console import Work
    from offdiag.data.split import Split

RANKS = (10, 20, 50, 100, 200, 500, 1000)
GROUP = 10  # size of a group of similar items, as in the paper
SIDES = ("encoder", "decoder")
EDLAE, ZERO, DLAE = "EDLAE", "zero diagonal", "DLAE"
Cosines = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]  # model -> (encoder, decoder), see `balanced`
NEAR_ORTHOGONAL = 0.1  # a cosine of at most this, i.e. an angle of 84 degrees or more
MANY = 0.25
CONSIDERABLY = 0.8  # a fifth less, or more


@dataclass(frozen=True, eq=False)
class Figure1:
    """Everything the figure shows, and how it was made."""

    source: str
    train: Interactions
    held_out: float
    seed: int
    full_rank: diagnostics.RankPoint  # EDLAE, its settings those of all models
    curve: diagnostics.RankCurve
    rank: int  # of the histograms
    cosines: Cosines
    cosines_as_fitted: dict[str, list[float]]  # their medians for U and V as the solver returns them
    diagonals: dict[str, NDArray[np.floating]]
    seconds: float

    @property
    def metric(self) -> str:
        return self.curve.metric

    @property
    def n_test(self) -> int:
        return self.full_rank.result.n_users

    @cached_property
    def claims(self) -> list[Claim]:
        return claims(self.curve, self.cosines)


def parse_ranks(text: str | None) -> list[int] | None:
    """The ranks as typed, or None for those of the paper."""
    if text is None:
        return None
    try:
        ranks = [int(part) for part in text.split(",")]
    except ValueError:
        ranks = [0]
    if min(ranks) < 1:
        raise OffdiagError(f"--ranks takes whole numbers from 1 divided by commas, e.g. 10,20,50, received {text!r}")
    return ranks


def choose_ranks(ranks: list[int] | None, rank: int | None, n_items: int) -> tuple[list[int], int]:
    """The ranks of the curve and the rank of the histograms, all below the number of items."""
    if ranks is None:
        ranks = [r for r in RANKS if r < n_items] or [max(1, n_items // 2)]
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
    ranks: list[int] | None,
    rank: int | None,
    dropout: float | str,
    l2: float | str,
    held_out: float,
    metric: str,
    seed: int,
    work: Work,
    choose: Callable[[Split], Callable[[str, int, Any], Any]] | None = None,
) -> Figure1:
    """Hold out users, fit the three models at every rank and the full-rank one, measure; nothing is written.

    `choose` gets the split and returns what `accuracy_by_rank` takes to choose settings at each rank.
    """
    import offdiag as od

    start = time.perf_counter()
    work.begin("splitting users")
    all_ranks, rank = choose_ranks(ranks, rank, inter.n_items)
    split = od.split.strong(inter, held_out=held_out, seed=seed)
    # As in the paper, every interaction has the same weight, whatever the user's activity.
    full = od.EDLAE(dropout=dropout, l2=l2, user_power=0.0)  # type: ignore[arg-type]  # the model validates it
    work.begin("full-rank EDLAE")
    began = time.perf_counter()
    full.fit(split.train, progress=work)
    seconds = time.perf_counter() - began
    result = od.evaluate(full, split.test, metrics=[metric])
    work.begin("finding similar items")
    groups = diagnostics.similar_groups(full.weights_, GROUP)
    # One dropout and one l2 for all models; "auto" was resolved by the fit above, from the same data.
    settings = {name: full.settings_[name] for name in ("dropout", "l2", "user_power")}
    mean, sem, n_bytes = result.mean[metric], result.sem[metric], full.weights_.nbytes
    full_rank = diagnostics.RankPoint(
        EDLAE, inter.n_items, mean, sem, n_bytes, seconds, full.objective_, settings, result
    )
    del full
    models = {
        EDLAE: od.LowRankEDLAE(**settings, seed=seed),
        ZERO: od.ZeroDiagonalLAE(**settings, seed=seed),
        DLAE: od.LowRankDLAE(**settings, seed=seed),
    }
    work.begin("fitting")
    curve = diagnostics.accuracy_by_rank(
        split.train, split.test, all_ranks, models, metric, keep=(rank,), progress=work,
        choose=None if choose is None else choose(split),
    )  # fmt: skip
    work.begin("comparing embeddings")
    cosines, as_fitted, diagonals = {}, {}, {}
    for name in models:
        weights = curve.fitted[name, rank].weights_
        U, V = diagnostics.balanced(weights)
        cosines[name] = (diagnostics.median_cosines(U, groups), diagnostics.median_cosines(V, groups))
        as_fitted[name] = [middle(diagnostics.median_cosines(E, groups)) for E in (weights.U, weights.V)]
        diagonals[name] = weights.diagonal()
    took = time.perf_counter() - start
    return Figure1(source, split.train, held_out, seed, full_rank, curve, rank, cosines, as_fitted, diagonals, took)


def middle(values: NDArray[Any]) -> float:
    """The median of the finite values; nan, without a warning, if there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")


# The claims of the paper


def claims(curve: diagnostics.RankCurve, cosines: Cosines) -> list[Claim]:
    """The paper's claims about the figure, each with a verdict on this data."""
    low, high = curve.ranks[0], curve.ranks[-1]
    found = [
        _best_everywhere(curve),
        _alike(curve, "small_rank_dlae", DLAE, low, f"at a small rank ({low:,}) DLAE is as accurate as EDLAE"),
        _alike(
            curve, "large_rank_zero_diagonal", ZERO, high,
            f"at a large rank ({high:,}) the zero-diagonal model is as accurate as EDLAE",
        ),
        _behind(curve, high),
    ]  # fmt: skip
    for side, name in enumerate(SIDES):
        medians = {model: middle(pair[side]) for model, pair in cosines.items()}
        found.append(
            Claim(
                f"smaller_cosines_{name}",
                f"similar items are considerably less alike in the {name} of EDLAE than of DLAE",
                "median cosine " + ", ".join(f"{value:.3f} ({model})" for model, value in medians.items()),
                _smaller(medians[EDLAE], medians[DLAE]),
            )
        )
    near = {model: _near_orthogonal(pair[0]) for model, pair in cosines.items()}
    shares = ", ".join(f"{100 * share:.0f} % of groups ({model})" for model, share in near.items())
    found.append(
        Claim(
            "near_orthogonal_encoder",
            "many similar items are close to orthogonal in the encoder of EDLAE",
            f"median cosine of at most {NEAR_ORTHOGONAL:g} in size for {shares}",
            verdict(near[EDLAE] >= MANY),
        )
    )
    return found


def _smaller(value: float, other: float) -> Verdict:
    if value <= CONSIDERABLY * other:
        return "holds"
    return "barely" if value < other else "does not hold"


def _near_orthogonal(cosines: NDArray[np.float64]) -> float:
    near = np.abs(cosines[np.isfinite(cosines)]) <= NEAR_ORTHOGONAL
    return float(near.mean()) if near.size else 0.0


def _best_everywhere(curve: diagnostics.RankCurve) -> Claim:
    gaps = {(name, rank): _gap(curve, EDLAE, name, rank) for rank in curve.ranks for name in (ZERO, DLAE)}
    (name, rank), (worst, sem) = min(gaps.items(), key=lambda pair: pair[1].mean)
    where = f"{name} is ahead by {-worst:.4f} ± {sem:.4f} at rank {rank:,}"
    return Claim(
        "edlae_best",
        "EDLAE is the most accurate at every rank",
        where if worst < 0 else "no model is ahead anywhere",
        never_behind(gaps.values()),
    )


def _alike(curve: diagnostics.RankCurve, name: str, model: str, rank: int, text: str) -> Claim:
    found = _gap(curve, EDLAE, model, rank)
    same = abs(found.mean) <= curve.at(EDLAE, rank).sem  # the paper's measure: within the standard error of a mean
    return Claim(name, text, f"EDLAE {found} (paired)", verdict(same))


def _behind(curve: diagnostics.RankCurve, rank: int) -> Claim:
    found = _gap(curve, ZERO, DLAE, rank)
    text = f"at a large rank ({rank:,}) DLAE, free to learn the identity, falls behind the zero-diagonal model"
    return Claim("large_rank_dlae_behind", text, f"zero diagonal {found} (paired)", ahead(found))


def _gap(curve: diagnostics.RankCurve, one: str, other: str, rank: int) -> Gap:
    test = curve.at(one, rank).result.compare(curve.at(other, rank).result)
    return gap(test.difference[curve.metric], test.sem[curve.metric])
