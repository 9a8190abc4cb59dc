"""The claims of [Steck20] about its Figure 1, each with a verdict on the data of a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from offdiag.diagnostics import RankCurve
from offdiag.papers.claims import SURE, Chapter, Gap, Verdict, ahead, alike, gap, never_behind, verdict
from offdiag.papers.steck2020 import figures
from offdiag.papers.steck2020.figure1 import DLAE, EDLAE, GROUP, SIDES, ZERO, Cosines, Figure1, middle

PAPER = "steck2020"
NEAR_ORTHOGONAL = 0.1  # a cosine of at most this, i.e. an angle of 84 degrees or more
MANY = 0.25
CONSIDERABLY = 0.8  # a fifth less, or more


def accuracy(figure: Figure1) -> Chapter:
    """Figure 1, left."""
    chosen = (
        "each tuned by itself at each rank on other users: EDLAE in dropout and l2, the other two in the scalar "
        "penalty λ‖UVᵀ‖², as in the paper"
        if figure.tuned
        else "all with the same dropout and l2"
    )
    chapter = Chapter(
        PAPER,
        "Accuracy against rank (Figure 1, left)",
        f"Three low-rank models of {figure.source}: {figure.train.n_users:,} users, {figure.train.n_items:,} items, "
        f"{figure.train.nnz:,} interactions. EDLAE leaves the diagonal out of training (Eq. 10), the second model "
        f"forces it to zero (Eq. 11), the third lets it be (like DLAE); {chosen}. {figure.metric} is measured on "
        f"{figure.n_test:,} held-out users. A paired difference of more than {SURE:g} standard errors decides.",
        numbers={"zero_diagonal_left": float(np.abs(figure.diagonals[ZERO]).max())},
    )
    judge_accuracy(chapter, figure.curve)
    chapter.draw(
        "figure1",
        f"Figure 1 of the paper, made again on {figure.source}. Left: {figure.metric} by rank, ± one standard error; "
        f"the last point is the full-rank model. Centre ({EDLAE}) and right ({DLAE}), at rank {figure.rank:,}: how "
        f"alike the embeddings of {GROUP} similar items are, in the balanced gauge. The author's notebook draws its "
        f"centre histogram for the zero-diagonal model instead, which is in the figure of the gauges.",
        figures.figure1(figure),
    )
    return chapter


def judge_accuracy(chapter: Chapter, curve: RankCurve) -> None:
    """The four claims about accuracy, from paired differences."""
    low, high = curve.ranks[0], curve.ranks[-1]
    gaps = {(name, rank): paired(curve, EDLAE, name, rank) for rank in curve.ranks for name in (ZERO, DLAE)}
    (name, rank), worst = min(gaps.items(), key=lambda pair: pair[1].mean)
    chapter.judge(
        "edlae_best", f"at worst {worst} against {name}, at rank {rank:,} (paired)", never_behind(gaps.values())
    )
    found = gaps[DLAE, low]
    chapter.judge("small_rank_dlae", f"EDLAE {found} against DLAE at rank {low:,} (paired)", alike(found))
    found = gaps[ZERO, high]
    chapter.judge(
        "large_rank_zero_diagonal", f"EDLAE {found} against zero diagonal at rank {high:,} (paired)", alike(found)
    )
    found = paired(curve, ZERO, DLAE, high)
    chapter.judge(
        "large_rank_dlae_behind", f"zero diagonal {found} against DLAE at rank {high:,} (paired)", ahead(found)
    )


def embeddings(figure: Figure1) -> Chapter:
    """Figure 1, centre and right, in two gauges."""
    chapter = Chapter(
        PAPER,
        "Embeddings of similar items (Figure 1, centre and right)",
        f"For each item, the {GROUP} items with the largest values in its column of the full-rank EDLAE are similar. "
        "The median cosine over their pairs says how alike their embeddings are. UR and VR⁻ᵀ are the same model for "
        "every invertible R, with other cosines, so a cosine depends on the gauge: how U and V are scaled against each "
        "other. The author's notebook takes them as its alternation leaves them. Two gauges are shown here: as our "
        "solvers return them, and balanced, UᵀU = VᵀV, which is unique up to a rotation, so that models of different "
        "solvers can be compared in it. A claim that holds in one and not in the other depends on the gauge.",
        numbers={"gauge_unbalance": figure.unbalance, "gauge_changes_product": figure.changed},
    )
    judge_embeddings(chapter, figure.cosines)
    chapter.draw(
        "gauges",
        f"The cosines of similar items at rank {figure.rank:,} for all three models: above in the balanced gauge, "
        "below as fitted. Dotted: the medians.",
        figures.gauges(figure),
    )
    return chapter


def judge_embeddings(chapter: Chapter, cosines: Cosines) -> None:
    """The three claims about cosines, in every gauge."""
    for side, name in enumerate(SIDES):
        in_gauge = {gauge: smaller(models[EDLAE][side], models[DLAE][side]) for gauge, models in cosines.items()}
        shown = _in_gauges(cosines, lambda pair, side=side: f"{middle(pair[side]):.3f}")  # type: ignore[misc]
        chapter.judge(f"smaller_cosines_{name}", f"median cosine, {shown}", _in_all(in_gauge))
    near = {gauge: verdict(_near_orthogonal(models[EDLAE][0]) >= MANY) for gauge, models in cosines.items()}
    shown = _in_gauges(cosines, lambda pair: f"{100 * _near_orthogonal(pair[0]):.0f} % of groups")
    chapter.judge("near_orthogonal_encoder", f"cosine at most {NEAR_ORTHOGONAL:g} in size, {shown}", _in_all(near))


def _in_gauges(cosines: Cosines, text: Callable[[tuple[NDArray[np.float64], NDArray[np.float64]]], str]) -> str:
    return "; ".join(
        f"{gauge}: " + ", ".join(f"{text(pair)} ({model})" for model, pair in models.items())
        for gauge, models in cosines.items()
    )


def _in_all(found: dict[str, Verdict]) -> Verdict:
    kinds = set(found.values())
    return kinds.pop() if len(kinds) == 1 else "depends on the gauge"


def smaller(values: NDArray[np.float64], others: NDArray[np.float64]) -> Verdict:
    """A claim that cosines are considerably smaller: surely smaller, group by group, and the median by a fifth."""
    found = values - others
    found = found[np.isfinite(found)]
    if found.size < 2:
        return "does not hold"
    if not found.mean() < -SURE * found.std(ddof=1) / np.sqrt(found.size):
        return "does not hold"
    return "holds" if middle(values) <= CONSIDERABLY * middle(others) else "barely"


def _near_orthogonal(cosines: NDArray[np.float64]) -> float:
    near = np.abs(cosines[np.isfinite(cosines)]) <= NEAR_ORTHOGONAL
    return float(near.mean()) if near.size else 0.0


def paired(curve: RankCurve, one: str, other: str, rank: int) -> Gap:
    """The difference between two models at a rank, user by user."""
    test = curve.at(one, rank).result.compare(curve.at(other, rank).result)
    return gap(test.difference[curve.metric], test.sem[curve.metric])
