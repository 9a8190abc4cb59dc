"""The chapters on images: AE, WDAE and DAE with linear, tanh and ReLU units, measured with the estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.claims import Chapter
from offdiag.papers.driver import TITLES
from offdiag.papers.pretorius2018 import figures, nets
from offdiag.progress import Progress

Array = NDArray[np.float64]
MATCHED = 3  # the direction, counted from 0, in which noise and decay have the same fixed point in theory
PRINTED_DECAY = 0.0045
_PAPER_SAMPLES = {"mnist": "50,000", "cifar10": "30,000"}


def pictures(data: nets.Pictures, seed: int, progress: Progress) -> Chapter:
    """Nine nets: three activations, each plain, with weight decay and with noise."""
    name, title = data.name, TITLES[data.name]
    runs: dict[tuple[str, str], nets.Curves] = {}
    for activation in nets.ACTIVATIONS:
        for kind in nets.KINDS:
            progress(f"{title} · {activation} {kind}", len(runs) / 9)
            runs[activation, kind] = nets.train(data, activation, kind, seed)
    progress(title, 1.0)
    theory = _theory(data, runs["linear", "AE"].steps, seed)
    off = np.array([np.abs(runs["linear", kind].values - theory[kind]) for kind in nets.KINDS])
    error, end_error = float(off.max()), float(off[:, -1].max())
    lowest = min(float(run.values.min()) for run in runs.values())
    highest = max(float(run.values.max()) for run in runs.values())
    faint = float(np.max(len(data.X) * PRINTED_DECAY / data.eigenvalues))
    pooled = f", which is {data.sizes.variance:g} after averaging squares of {data.sizes.pool}×{data.sizes.pool} pixels"
    chapter = Chapter(
        "pretorius2018",
        f"Pictures: {title}",
        f"{data.words}, mean picture taken away; {data.sizes.hidden} hidden units; {data.sizes.steps} steps of "
        "full-batch gradient descent at one learning rate, 0.15·N/λ₁, for all nets; small balanced starting weights in "
        f"random directions. The paper has {_PAPER_SAMPLES[name]} pictures; the curves depend on λ/N, which hardly "
        f"changes with N. Noise of variance {nets.VARIANCE:g} per pixel, as in the paper's "
        f"figure{pooled if data.sizes.pool > 1 else ''}. The weight decay is γ = {nets.matched_decay(data):.3g}, which "
        f"by theory ends where the noise ends in direction {MATCHED + 1}. The figure of the paper has γ = "
        f"{PRINTED_DECAY:g}; in the loss of its theory that would lower these {nets.MODES} directions by no more than "
        f"{faint:.1%}, so its experiment must have scaled the loss or the pictures in a way that the supplement does "
        "not tell.\n\n"
        "What a net has learnt of a direction is measured with the estimator of section F every "
        f"{runs['linear', 'AE'].steps[1]} steps; over all runs its values lie between {lowest:.3f} and {highest:.3f}.",
        {f"{name}_linear_error": error, f"{name}_linear_end_error": end_error},
    )
    where = "the paper's experiments on pictures, as section F describes them"
    chapter.claim(
        where,
        f"Of the {nets.MODES} leading directions, over all steps and the three nets, the learnt share is at most "
        f"{error:.3f} from the formula, and {end_error:.3f} at the end. The noise was drawn again in every step.",
        error < 0.2,
        where=f"{title}: {where}",
    )
    _nonlinear(chapter, data, runs, "tanh", "section G, Figure 1 of the supplement")
    _nonlinear(chapter, data, runs, "relu", "Figure 6 of the paper, as section F describes it")
    chapter.draw(
        f"pictures_{name}",
        "AE blue, WDAE orange, DAE green; fainter for weaker directions. Dotted: the formulas, from the values at the "
        "start.",
        figures.pictures(data, runs, theory),
    )
    return chapter


def _theory(data: nets.Pictures, steps: NDArray[np.int64], seed: int) -> dict[str, Array]:
    """The theoretical curves, starting from the shares of the random start."""
    n, lam = len(data.X), data.eigenvalues
    V = data.basis[1][:, : nets.MODES]
    W1, W2 = nets.start(data, seed)
    w0 = np.einsum("ij,ij->j", V, W2 @ (W1 @ V))
    root, t, tau = np.sqrt(w0), steps[:, None].astype(float), n / nets.rate(data)
    return {
        "AE": dynamics.dae(t, root, root, lam, 0.0, tau),
        "WDAE": dynamics.wdae(t, w0, lam, n * nets.matched_decay(data), tau),
        "DAE": dynamics.dae(t, root, root, lam, n * data.sizes.variance, tau),
    }


def _nonlinear(
    chapter: Chapter, data: nets.Pictures, runs: dict[tuple[str, str], nets.Curves], activation: str, where: str
) -> None:
    """Add the claim and the numbers of nets with this activation."""
    plain, decayed, noisy = (runs[activation, kind] for kind in nets.KINDS)
    # Time to a level that both pass, half the lower limit: a fraction of each net's own limit favours the lower one.
    level = 0.5 * np.minimum(decayed.values[-1], noisy.values[-1])
    faster = float(decayed.time_to(level)[MATCHED] / noisy.time_to(level)[MATCHED])
    weak, weak_decayed, weak_noisy = (float(run.values[-1, -1]) for run in (plain, decayed, noisy))
    ordered = _ordered(plain)
    shares = ", ".join(f"{kind} {_three(runs[activation, kind].values[-1])}" for kind in nets.KINDS)
    chapter.claim(
        where,
        f"Share learnt at the end of directions 1, {MATCHED + 1} and {nets.MODES}: {shares}. To half the lower of both "
        f"ends in direction {MATCHED + 1}, weight decay takes {faster:.2f} times as many steps as noise.",
        faster > 1 and weak > max(weak_decayed, weak_noisy) and ordered,
        where=f"{TITLES[data.name]}: {where}",
    )
    found = {
        "decay_over_noise_time": faster,
        "weak_noise_over_plain": weak_noisy / weak,
        "weak_decay_over_plain": weak_decayed / weak,
        "strong_first": float(ordered),
    }
    chapter.numbers.update({f"{data.name}_{activation}_{key}": value for key, value in found.items()})


def _ordered(run: nets.Curves) -> bool:
    """Whether directions 1, 2, 4 and 8 reach one half in this order."""
    times = run.time_to(0.5)[[0, 1, 3, 7]]
    return bool((times[1:] >= times[:-1]).all())


def _three(values: Array) -> str:
    return " / ".join(f"{values[mode]:.2f}" for mode in (0, MATCHED, nets.MODES - 1))
