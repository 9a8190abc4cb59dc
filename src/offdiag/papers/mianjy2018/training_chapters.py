"""Sections 4 and 6 of [Mianjy18] in plain words: where training could stop, and where it does."""

from __future__ import annotations

from itertools import pairwise

from offdiag.papers.claims import Chapter
from offdiag.papers.mianjy2018 import figures, surface
from offdiag.papers.mianjy2018.measure import FIGURE_1
from offdiag.papers.mianjy2018.optimum_chapters import EXACT
from offdiag.papers.mianjy2018.sizes import Sizes
from offdiag.papers.mianjy2018.training import CLOSE, Training, settle_in_order, settle_ratio, toy_runs, train_all
from offdiag.progress import Progress


def landscape(sizes: Sizes, seed: int) -> Chapter:
    n, curvature = surface.surface(sizes.problems, seed)
    n |= surface.scalar() | surface.indefinite() | surface.lemma_d3()
    distances = [n[f"scalar_distance_{lam:g}"] for lam in FIGURE_1]
    chapter = Chapter(
        "mianjy2018",
        "No false valleys",
        """Training goes downhill and may stop wherever the ground is level. The paper shows for tied weights that level
        points are either global minima or saddles with a way down, at least while λ is small.

        Here every level point of random problems (4×4 matrices, 2 or 3 units) is listed. At a level point units of
        different length are orthogonal, so those of one length form a group that is level by itself; going through all
        groups finds all points. At each the eigenvalues of the matrix of second derivatives are computed: a negative
        one is a way down.""",
        n,
    )
    chapter.claim(
        "Figure 1",
        f"24 searches for each λ end at equal weights (to {n['scalar_unevenness']:.0e}) and at (±a, ±a) with "
        f"a² = m/(2 + λ) (to {n['scalar_missed']:.0e}). For m = 2 their distance from the origin is "
        + ", ".join(f"{n[f'scalar_distance_{lam:g}']:.4f} at λ = {lam:g}" for lam in FIGURE_1)
        + ".",
        n["scalar_missed"] < 1e-5 and all(a > b for a, b in pairwise(distances)),
    )
    chapter.claim(
        "Lemmas 4.1 and D.2",
        f"{n['uneven_points']:.0f} of {n['critical_points']:.0f} level points are not equalised; "
        f"{n['uneven_minima']:.0f} of these lack a way down.",
        n["uneven_minima"] == 0 and n["uneven_points"] > 0,
    )
    chapter.claim(
        "Lemma D.1",
        f"The largest eigenvalue of UUᵀ − M over all points is {n['product_above_m']:.1e} of ‖M‖ for positive "
        f"semidefinite M. For M = diag(2, 1, −3) the point U = 0 is level (slope {n['zero_is_level']:g}) and the "
        f"eigenvalue is {n['product_above_indefinite_m']:g}; of UUᵀ − M₊ it is "
        f"{n['product_above_positive_part']:.0e} at most.",
        n["product_above_m"] < EXACT and n["product_above_positive_part"] < EXACT < n["product_above_indefinite_m"],
    )
    chapter.claim(
        "Theorem 4.3, Lemma D.3",
        f"Below the bound: {n['spurious_minima']:.0f} false minima, {n['degenerate_points']:.0f} flat points; "
        f"the flattest saddle has a second derivative of {n['flattest_saddle_below_bound']:.3f}·‖M‖. In all "
        "cases the condition holds exactly when the optimum uses all r units.",
        n["spurious_minima"] == n["degenerate_points"] == 0
        and n["flattest_saddle_below_bound"] < 0
        and n["condition_is_full_rank"] == 1,
    )
    chapter.claim(
        "After Theorem 4.3",
        "It is not necessary. At 2 to 100 times the bound there is no false minimum and no flat point either; "
        f"the flattest saddle has {n['flattest_saddle_above_bound']:.3f}·‖M‖.",
        n["spurious_minima"] == n["degenerate_points"] == 0 and n["flattest_saddle_above_bound"] < 0,
    )
    chapter.draw(
        "figure1",
        "Figure 1 for m = 2: the objective of one input, one output and two tied units, from the side and as level "
        "lines, for three λ. Dots: global minima. Crosses: saddles. Triangle: the local maximum at 0.",
        figures.landscapes(),
    )
    chapter.draw(
        "curvature",
        "The flattest saddle among all level points of all problems, by λ. Below zero means: there is a way down.",
        figures.curvature(curvature),
    )
    return chapter


def training(sizes: Sizes, seed: int, progress: Progress) -> Chapter:
    toys = toy_runs(sizes.toy_steps, seed)
    trainings = train_all(sizes, seed, progress)
    excess = {(t.width, t.lam): t.excess for t in trainings}
    left = {(t.width, t.lam): float(t.variance[-1] / t.variance[0]) for t in trainings}
    most_left = max(left.values())
    risen = max(trainings, key=lambda t: t.rise)
    settled = "; ".join(
        f"width {width}: " + ", ".join(f"{_steps(t)} at λ = {t.lam:g}" for t in trainings if t.width == width)
        for width in sizes.widths
    )
    numbers = {f"toy_distance_{toy.lam:g}": toy.distance for toy in toys}
    for name, width in zip(("narrow", "wide"), sizes.widths, strict=True):
        numbers[f"settle_ratio_{name}"] = settle_ratio(trainings, width)
        numbers |= {f"excess_{name}_{lam:g}": value for (w, lam), value in excess.items() if w == width}
        numbers |= {f"variance_left_{name}_{lam:g}": value for (w, lam), value in left.items() if w == width}
    chapter = Chapter(
        "mianjy2018",
        "Training with dropout gets there",
        f"""Now dropout as it is used: draw an input, drop units, take a step, {sizes.steps:,} times. First for a
        scalar and two tied units, where the path can be drawn. Then for a network with {sizes.inputs} inputs and
        {sizes.outputs} outputs and {sizes.widths[0]} or {sizes.widths[1]} units, averaged over {sizes.runs}
        runs with fresh starts, inputs and masks. The objective at an iterate is computed exactly, not sampled.

        The paper gives sizes, λ and the number of runs (50; here {sizes.runs}). Not given, and chosen here: singular
        values exp(−i/{sizes.fall:g}), starts with columns of length about 1, learning rate {sizes.rate:g} for the first
        half of the steps, then falling to 0 linearly. With a rate that stays away from 0, the noise of the last steps
        stays in the objective; and with many units and little dropout the last directions are learnt slowly, so that
        the rate must not fall too early either.""",
        numbers,
    )
    chapter.claim(
        "Figure 2",
        "Distance from the nearest global minimum, relative to its size, the worse of the two starts: "
        + ", ".join(f"{toy.distance:.1%} (λ = {toy.lam:g})" for toy in toys)
        + ".",
        max(toy.distance for toy in toys) < 0.1,
    )
    chapter.claim(
        "Figure 3, left",
        "Mean over runs at the end, above the optimum: "
        + ", ".join(f"{value:.1%} (width {width}, λ = {lam:g})" for (width, lam), value in excess.items())
        + f". At most {CLOSE:.0%} counts as there.",
        max(excess.values()) <= CLOSE,
    )
    chapter.claim(
        "Figure 3, right", f"At the end it is at most {most_left:.1%} of what it was at the start.", most_left < 0.1
    )
    chapter.claim(
        "Section 6",
        f"Not with these starts: at width {risen.width}, λ = {risen.lam:g} the mean over runs falls at once, "
        f"then rises again by {risen.rise:.1%} of its first value before it falls for good."
        if risen.rise > 0.01
        else f"The largest rise of the mean over runs is {risen.rise:.1%} of the first value.",
        risen.rise <= 0.01,
        erratum="It cannot hold for all starts: from equal columns the variance is 0 and has to rise while the "
        "first directions are learnt. What is proved is equality at the minimum."
        if risen.rise > 0.01
        else "",
    )
    chapter.claim(
        "Section 6, speed",
        f"Steps until the variance stays below a tenth of its start: {settled}.",
        settle_in_order(trainings),
    )
    chapter.draw(
        "figure2",
        "Figure 2: paths of stochastic dropout from two starts (red dots) over the level lines of the exact objective, "
        "for three λ; green dots: global minima.",
        figures.traces(toys),
    )
    chapter.draw(
        "figure3",
        f"Figure 3: the exact objective along training, mean of {sizes.runs} runs, with their range shaded; red: the "
        "closed form. Last column: variance of the units' importance ‖u_i‖‖v_i‖, mean over runs.",
        figures.convergence(trainings),
    )
    return chapter


def _steps(t: Training) -> str:
    return (
        f"{t.settling_time:,.0f} steps" if t.settling_time < float("inf") else f"more than {t.trace.steps[-1]:,} steps"
    )
