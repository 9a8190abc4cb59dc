"""The chapters on images: AE, WDAE and DAE with linear, tanh and ReLU units, measured with the estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.claims import Chapter, Gap, ahead, gap
from offdiag.papers.driver import TITLES
from offdiag.papers.pretorius2018 import figures, nets
from offdiag.progress import Progress

Array = NDArray[np.float64]
MATCHED = 3  # the direction, counted from 0, in which noise and decay have the same fixed point in theory
PRINTED_DECAY = 0.0045
PAPER_SAMPLES = {"mnist": 50_000, "cifar10": 30_000}


def pictures(data: nets.Pictures, seed: int, progress: Progress) -> Chapter:
    """Nine nets: three activations, each plain, with weight decay and with noise; each from several seeds."""
    name, title = data.name, TITLES[data.name]
    runs: nets.Runs = {}
    for activation in nets.ACTIVATIONS:
        for kind in nets.KINDS:
            progress(f"{title} · {activation} {kind}", len(runs) / 9)
            runs[activation, kind] = nets.curves(data, activation, kind, seed)
    progress(title, 1.0)
    theory = _theory(data, seed)
    off = np.array([np.abs(runs["linear", kind].values - theory[kind]) for kind in nets.KINDS])
    error, end_error = float(off.max()), float(off[:, :, -1].max())
    spread = max(float(run.ends.std(axis=0, ddof=1).max()) for run in runs.values())
    chapter = Chapter(
        "pretorius2018",
        f"Pictures: {title}",
        _setting(data, runs, spread),
        {f"{name}_linear_error": error, f"{name}_linear_end_error": end_error, f"{name}_spread_over_seeds": spread},
    )
    where = "the paper's experiments on pictures, as section F describes them"
    chapter.claim(
        where,
        f"Of the {nets.MODES} leading directions, over all steps, {data.sizes.seeds} seeds and the three nets, the "
        f"learnt share is at most {error:.3f} from the formula, on average {off.mean():.3f}, and at most "
        f"{end_error:.3f} at the end. The noise was drawn again in every step.",
        error < 0.2,
        where=f"{title}: {where}",
    )
    _nonlinear(chapter, data, runs, "tanh", "section G, Figure 1 of the supplement")
    _nonlinear(chapter, data, runs, "relu", "Figure 6 of the paper, as section F describes it")
    chapter.draw(
        f"learning_{name}",
        f"What nets have learnt of directions 1, 2, 4 and 8 of {title}, fainter for weaker ones, over the epochs: AE "
        f"blue, WDAE orange, DAE green. Lines are means of {data.sizes.seeds} seeds, bands reach from the lowest to "
        "the highest. Dotted, in all panels: the formulas for a linear net, from the values at the start. The axis of "
        "epochs is that of their square root, since most happens early.",
        figures.learning(data, runs, theory),
    )
    return chapter


def _setting(data: nets.Pictures, runs: nets.Runs, spread: float) -> str:
    """What was run, next to what the paper ran; all sizes are those of the run."""
    sizes, paper = data.sizes, PAPER_SAMPLES[data.name]
    same = "as many as in the paper" if sizes.samples == paper else f"the paper has {paper:,}"
    pooled = f", which is {sizes.variance:g} after averaging squares of {sizes.pool}×{sizes.pool} pixels"
    faint = float(np.max(len(data.X) * PRINTED_DECAY / data.eigenvalues))
    lowest = min(float(run.values.min()) for run in runs.values())
    highest = max(float(run.values.max()) for run in runs.values())
    return (
        f"{data.words}. The number of pictures: {same}. The mean picture is taken away. All nets take {sizes.steps:,} "
        f"steps, {sizes.steps_per_epoch} per epoch, at one learning rate, 0.15·N/λ₁. The supplement gives neither the "
        "paper's learning rate nor its epochs or hidden units; it measures every 100 epochs, so its steps were much "
        "smaller. In the theory only the product of rate and steps counts. The starting weights are small, balanced "
        "and in random directions; seeds differ in the start, the order of the pictures and the noise.\n\n"
        f"The noise has variance {nets.VARIANCE:g} per pixel, as in the paper's figure"
        f"{pooled if sizes.pool > 1 else ''}. The weight decay is γ = {nets.matched_decay(data):.3g}, which "
        f"by theory ends where the noise ends in direction {MATCHED + 1}. The figure of the paper has γ = "
        f"{PRINTED_DECAY:g}; in the loss of its theory that would lower these {nets.MODES} directions by no more than "
        f"{faint:.1%}, so its experiment must have scaled the loss or the pictures in a way that the supplement does "
        "not tell.\n\n"
        "What a net has learnt of a direction is measured on all pictures with the estimator of section F, "
        f"{len(runs['linear', 'AE'].steps)} times, most often at the beginning. Over all runs its values lie between "
        f"{lowest:.3f} and {highest:.3f}; at the end the largest standard deviation over the seeds is {spread:.3f}."
    )


def _theory(data: nets.Pictures, seed: int) -> dict[nets.Kind, Array]:
    """(seeds, records, MODES): the curves in theory, from the shares that the random starts have."""
    n, lam = len(data.X), data.eigenvalues
    starts = [nets.start(data, one) for one in nets.seeds(data, seed)]
    w0 = np.array([np.einsum("ij,ij->j", data.V, W2 @ (W1 @ data.V)) for W1, W2 in starts])[:, None]
    root, tau = np.sqrt(w0), n / nets.rate(data)
    t = nets.records(data.sizes)[:, None].astype(float)
    return {
        "AE": dynamics.dae(t, root, root, lam, 0.0, tau),
        "WDAE": dynamics.wdae(t, w0, lam, n * nets.matched_decay(data), tau),
        "DAE": dynamics.dae(t, root, root, lam, n * data.sizes.variance, tau),
    }


def _nonlinear(chapter: Chapter, data: nets.Pictures, runs: nets.Runs, activation: nets.Activation, where: str) -> None:
    """Add the claim and the numbers of nets with this activation; differences are paired seed by seed."""
    plain, decayed, noisy = (runs[activation, kind] for kind in nets.KINDS)
    # Time to a level that both pass, half the lower limit: a fraction of each net's own limit favours the lower one.
    level = 0.5 * np.minimum(decayed.ends, noisy.ends)
    slow, fast = (run.time_to(level)[:, MATCHED] / data.sizes.steps_per_epoch for run in (decayed, noisy))
    weak, weak_decayed, weak_noisy = (run.ends[:, -1] for run in (plain, decayed, noisy))
    quicker = _gap(slow - fast)
    held_back = _gap(weak - np.maximum(weak_decayed, weak_noisy))
    in_order = _gap(_steps_between(plain) / data.sizes.steps_per_epoch)
    rising = sum(int((run.last_growth() > 0.02).sum()) for run in (plain, decayed, noisy))
    shares = ", ".join(f"{kind} {_three(runs[activation, kind].ends.mean(axis=0))}" for kind in nets.KINDS)
    chapter.claim(
        where,
        f"Mean of {data.sizes.seeds} seeds. Share learnt at the end of directions 1, {MATCHED + 1} and {nets.MODES}: "
        f"{shares}. To half the lower of both ends in direction {MATCHED + 1}, weight decay takes "
        f"{(slow / fast).mean():.2f} times as long as noise, {_epochs(quicker)} more. Noise and decay leave at least "
        f"{held_back.mean:.3f} ± {held_back.sem:.3f} of direction {nets.MODES} unlearnt that the plain net learns. "
        f"Directions 1, 2, 4 and 8 of the plain net pass one half at least {_epochs(in_order)} after each other, or "
        f"not within the run. {rising} of the {3 * nets.MODES} curves still rise by more than 0.02 in the last tenth "
        "of the steps: for these, the share at the end is a matter of pace as well.",
        all(ahead(found) == "holds" for found in (quicker, held_back, in_order)),
        where=f"{TITLES[data.name]}: {where}",
    )
    found = {
        "decay_over_noise_time": float((slow / fast).mean()),
        "weak_noise_over_plain": float((weak_noisy / weak).mean()),
        "weak_decay_over_plain": float((weak_decayed / weak).mean()),
        "strong_first": float(ahead(in_order) == "holds"),
    }
    chapter.numbers.update({f"{data.name}_{activation}_{key}": value for key, value in found.items()})


def _gap(paired: Array) -> Gap:
    """The mean of a difference over the seeds, and its standard error."""
    return gap(float(paired.mean()), float(paired.std(ddof=1) / np.sqrt(len(paired))))


def _epochs(found: Gap) -> str:
    return f"{found.mean:.2f} ± {found.sem:.2f} epochs"


def _steps_between(run: nets.Curves) -> Array:
    """(seeds,) the smallest time between the steps at which directions 1, 2, 4 and 8 reach one half, in this order."""
    return np.asarray(np.diff(run.time_to(0.5)[:, [0, 1, 3, 7]], axis=1).min(axis=1))


def _three(values: Array) -> str:
    return " / ".join(f"{values[mode]:.2f}" for mode in (0, MATCHED, nets.MODES - 1))
