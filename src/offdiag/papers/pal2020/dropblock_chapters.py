"""Chapters on DropBlock [Pal20 section 2]: the penalty of blocks, its minimum, norm and balance."""

from __future__ import annotations

import numpy as np

from offdiag.lab import dropblock
from offdiag.papers.claims import SURE, Chapter
from offdiag.papers.pal2020 import figures, formulas, measure
from offdiag.papers.pal2020.measure import Data, Run
from offdiag.papers.pal2020.sizes import Sizes


def penalty(s: Sizes, given: Data, runs: list[Run]) -> Chapter:
    error = measure.lemma21(s, given)
    offset = max(measure.offset(run.trace) for run in runs)
    chapter = Chapter(
        "pal2020",
        "Dropping blocks is a penalty",
        f"""A linear net predicts y by UVᵀx: V leads from {s.inputs} inputs to {s.width} hidden units, U from there to
        {s.outputs} outputs. DropBlock switches hidden units off in blocks of neighbours: each block survives with
        probability θ, and what survives is divided by θ. Training sees a new random pattern at every step.

        The loss therefore is random. Its mean over all patterns has a formula: the plain squared error plus (1−θ)/θ
        times the sum over blocks of ‖U_i V_iᵀ X‖². Below, a net is trained with random patterns ({s.steps:,} steps of
        one sample each, as in the paper; the step size is constant for half of them and then falls to 0); at 300
        moments we note the loss of all samples under one fresh pattern, and the formula.""",
        {"lemma21_error": error, "trace_offset": offset},
    )
    chapter.claim(
        "Lemma 2.1",
        f"against the mean over every pattern of kept and dropped blocks, at three values of θ, the formula is "
        f"off by at most {error:.1e} (relative)",
        error < 1e-10,
    )
    chapter.claim(
        "Figure 1 and Figure 5, top; Algorithm 1",
        f"over {len(runs)} trainings the mean of the difference is at most {offset:.1f} standard errors from 0",
        offset <= SURE,
    )
    chapter.draw(
        "training",
        "The loss under one random pattern, and its exact mean, along training. A pattern drops whole blocks, so a "
        "single draw scatters around the mean. The axis is logarithmic and shows the scatter relative to the mean: "
        "its standard deviation in the last third is "
        + ", ".join(f"{run.scatter:.0%} of the mean at θ = {run.theta:g}" for run in _some(runs, s))
        + ". The more often blocks are kept, the smaller the mean becomes, and it falls faster than the scatter does.",
        figures.training(_some(runs, s)),
    )
    return chapter


def _some(runs: list[Run], s: Sizes) -> list[Run]:
    """At most four runs: the block of the paper at several θ."""
    chosen = [run for run in runs if run.block == s.block]
    return chosen if len(chosen) <= 4 else [run for run in chosen if run.theta != 0.7]


def minimum(s: Sizes, runs: list[Run], seed: int) -> Chapter:
    prox, rank, times = formulas.proxes(seed, s.trials), formulas.attainable(seed), formulas.speed()
    excess = max(run.excess for run in runs)
    below = min(float(run.trace.deterministic.min() / run.best.bound) for run in runs)
    half = [run.best.value for run in runs if run.theta == 0.5]
    apart = max(half) / min(half) - 1
    blocks = ", ".join(map(str, s.blocks[:-1]))
    chapter = Chapter(
        "pal2020",
        "Training ends at a minimum that can be written down",
        """Although the penalised loss is not convex in U and V, its least value is known: take the singular value
        decomposition of what can be fitted, shrink each singular value by a rule, and split the result into U and V so
        that all blocks are equally large. The rule depends on the block size and on θ. We compute it, build U and V
        from it, check that they attain it, and compare with where training ends.""",
        prox
        | {
            "rank_gap": rank["rank_gap"],
            "rank_raw_ratio": rank["rank_raw"] / rank["rank_bound"],
            "largest_excess": excess,
            "smallest_ratio_to_bound": below,
            "block_size_matters": apart,
        },
    )
    chapter.claim(
        "Theorem 2.7; Figure 1 and Figure 5, bottom",
        f"{len(runs)} trainings end between {100 * min(run.excess for run in runs):.2f} % and "
        f"{100 * excess:.2f} % above the closed form, and none ever falls below it (least ratio {below:.6f})",
        excess < 0.03 and below > 1 - 1e-9,
        correction="in the theorem ρ runs from 1 to r, not to r − 1: with r = 1, dropout itself, nothing would be "
        f"left to try. As printed the minimum is missed in {100 * prox['printed_prox_wrong_share']:.0f} % of random "
        f"cases, by up to {prox['printed_prox_excess']:.3g}.",
    )
    chapter.claim(
        "Theorem 2.7, the search",
        f"one sort does: the same answer up to {prox['prox_search_distance']:.0e}, and at 2,000 singular "
        f"values and blocks of 1,000 {times:.0f} times faster than the search in this run",
        prox["prox_search_distance"] < 1e-10,
    )
    chapter.claim(
        "Theorems 2.3 and 2.7, the assumption",
        "with more samples than features X cannot have it, and the paper's own experiments do not. On noisy targets "
        f"(20 samples, 4 features) the formula for Y gives {rank['rank_raw']:.2f}, which no net attains; for the part "
        f"of Y that X can explain it gives {rank['rank_bound']:.2f}, and a net attains that to {rank['rank_gap']:.0e}",
        rank["rank_gap"] < 1e-9 and rank["rank_raw"] < 0.99 * rank["rank_bound"],
    )
    chapter.claim(
        "Section 5.1",
        f"at θ = 0.5 the minima for blocks of {blocks} and {s.blocks[-1]} differ by {apart:.1g} "
        "(relative): hardly or not at all. Blocks act only on singular values that stand out, and those of a "
        "product of Gaussian matrices do not",
        max(half) < 1.01 * min(half),
    )
    chapter.draw(
        "minima",
        "The exact mean loss over all patterns along training with DropBlock (blue), and its minimum in closed form "
        "(dashed), for several θ.",
        figures.minima(_some(runs, s)),
    )
    return chapter


def capacity(seed: int) -> Chapter:
    (widths, fixed, scaled), doubling = formulas.capacity(seed), formulas.doubling(seed)
    product = fixed[-2:] * widths[-2:]
    spread = float(np.ptp(scaled) / scaled[0])
    chapter = Chapter(
        "pal2020",
        "With a fixed rate, a wide net escapes",
        """Does the noise limit what a net can represent, however wide it is? With θ fixed it does not: spread over
        more blocks, the same function pays a smaller penalty. If θ falls with the width d as θ(d) = θ̄r/(θ̄r +
        (1−θ̄)d), the price of a function no longer depends on the width.""",
        {"capacity_fixed": float(fixed[-1] / fixed[0]), "capacity_scaled_spread": spread},
    )
    chapter.claim(
        "Lemma 2.2",
        f"the least loss falls from {fixed[0]:.3f} to {fixed[-1]:.4f} of ‖Y‖² as the width grows from {widths[0]:g} to "
        f"{widths[-1]:g}, in the end as 1/width (loss × width changes by {abs(product[1] / product[0] - 1):.1%} over "
        f"the last doubling); the construction of the proof halves the penalty, error {doubling:.0e}",
        doubling < 1e-12 and bool((np.diff(fixed) < 0).all()) and fixed[-1] < 0.05 * fixed[0],
    )
    chapter.claim(
        "Equations 7 and 8",
        f"the least loss is {scaled[0]:.4f} of ‖Y‖² at every width, up to {spread:.0e}",
        bool(np.ptp(scaled) < 1e-9 * scaled[0]),
    )
    chapter.draw(
        "capacity",
        "The least loss by the width of the hidden layer, for one target and blocks of two.",
        figures.capacity(widths, fixed, scaled),
    )
    return chapter


def norm(s: Sizes, runs: list[Run], seed: int) -> Chapter:
    numbers = formulas.norms(seed, s.trials) | formulas.equation_37(seed)
    m, shrunk = formulas.shrunk()
    dropout, ridge = shrunk[min(shrunk)], shrunk[max(shrunk)]
    chapter = Chapter(
        "pal2020",
        "Between the nuclear norm and the Frobenius norm",
        """Which functions does the penalty like? Its convex form is a known norm of the singular values, the k-support
        norm: the largest ones are counted by their squares, as in ridge regression, the others by their sum, as in
        low-rank methods. Blocks of one unit (dropout) give the squared sum, the nuclear norm; one block that holds all
        units gives the sum of squares, the Frobenius norm.""",
        numbers,
    )
    chapter.claim(
        "Theorem 2.3",
        f"on random vectors the formula agrees with its dual to {numbers['norm_dual_gap']:.0e}",
        numbers["norm_dual_gap"] < 1e-10,
        correction="ρ must be feasible: its share must lie between a_ρ and a_{ρ−1}. The unrestricted maximum is too "
        f"large in {100 * numbers['printed_norm_wrong_share']:.0f} % of random cases, by up to "
        f"{100 * numbers['printed_norm_excess']:.0f} %. In the second line of Eq. 37 a_ρ² should be x_ρ²: as printed "
        f"it is {100 * numbers['eq37_printed_gap']:.0f} % off in an example, with x_ρ² {numbers['eq37_gap']:.0e}.",
    )
    chapter.claim(
        "Section 2.3",
        f"on a steep spectrum blocks of {', '.join(str(b) for b in shrunk)} keep "
        f"{', '.join(str(int(np.count_nonzero(x > 1e-9 * m[0]))) for x in shrunk.values())} of {len(m)} singular "
        f"values; of the largest, dropout keeps {dropout[0] / m[0]:.0%} and one block for all {ridge[0] / m[0]:.0%}",
        bool(np.count_nonzero(dropout) < np.count_nonzero(ridge) == len(m)),
    )
    chapter.draw(
        "spectra",
        "Left: shrunken singular values by block size. Dropout subtracts the same from all, so that small ones "
        "vanish; larger blocks divide the large ones by a constant instead. Right: what the optimum keeps in "
        "the experiment; at one θ the curves of different blocks lie on each other.",
        figures.spectra(m, shrunk, runs),
    )
    return chapter


def balanced(given: Data, runs: list[Run], seed: int) -> Chapter:
    few = formulas.few_blocks(seed)
    norms = [dropblock.block_norms(run.best.U, run.best.V, given.X, run.block) for run in runs]
    equal = max(float(np.ptp(norm) / norm.mean()) for norm in norms)
    more = max(one.gap for one in few if one.k > 2)
    agreeing = sum(one.attainable is (one.gap < 1e-9) for one in few)
    after = max(run.spread[1] for run in runs)
    worst = max(few, key=lambda one: one.gap)
    tight = all(run.best.tight for run in runs)
    chapter = Chapter(
        "pal2020",
        "All blocks end up equally large",
        """At the minimum, the theory says, every block contributes a matrix U_iV_iᵀX of the same norm, and the convex
        bound is attained. That is proved for nets whose width is free. Widths are not free in practice, so we also ask
        at a given width whether the bound is attained: it is exactly when certain projections exist, one per block, and
        with few blocks they may not. Whether they exist is Horn's problem, and a linear program decides it.""",
        {
            "spread_after": after,
            "few_blocks_gap": few[0].gap,
            "more_blocks_gap": more,
            "rule_agrees": agreeing / len(few),
            "block_inequality": equal,
        },
    )
    chapter.claim(
        "Definition 2.4, Theorem 2.5",
        f"at the closed form the norms differ by {equal:.0e} (relative); training brings their spread from up "
        f"to {max(run.spread[0] for run in runs):.3f} down to {after:.3f} at most",
        equal < 1e-8 and after < 0.05,
    )
    chapter.claim(
        "Theorem 2.6, Corollary 2.8",
        (
            f"true in all {len(runs)} settings above; at a given width not always: with {worst.k} blocks of 3 and "
            f"rank 8 the best net found is {100 * worst.gap:.2f} % above the bound, with 3 blocks or more it attains it"
            if more < 1e-9
            else f"with {worst.k} blocks of 3 the best net found is {100 * worst.gap:.2f} % above the bound"
        )
        + f". A linear program foretells it without a search, in {agreeing} of {len(few)} cases",
        tight and agreeing == len(few) and worst.gap > 1e-6,
    )
    chapter.draw(
        "balance",
        "Left: the spread of the block norms before and after training. Right: how far the best net of a given "
        "number of blocks stays above the convex bound.",
        figures.balance(runs, few),
    )
    return chapter
