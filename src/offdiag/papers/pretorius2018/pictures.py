"""The chapters on images: AE, WDAE and DAE with linear, tanh and ReLU units, measured with the estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.claims import Chapter, Claim, Drawing, verdict
from offdiag.papers.pretorius2018 import figures, nets
from offdiag.progress import Progress

Array = NDArray[np.float64]
MATCHED = 3  # the direction, counted from 0, in which noise and decay have the same fixed point in theory
PRINTED_DECAY = 0.0045
_PAPER_SAMPLES = {"mnist": "50,000", "cifar10": "30,000"}
_TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def pictures(data: nets.Pictures, seed: int, tell: Progress) -> tuple[Chapter, dict[str, float]]:
    """Nine nets: three activations, each plain, with weight decay and with noise."""
    name = data.name
    runs: dict[tuple[str, str], nets.Curves] = {}
    for number, activation in enumerate(nets.ACTIVATIONS):
        for place, kind in enumerate(nets.KINDS):
            tell(f"{_TITLES[name]} · {activation} {kind}", (3 * number + place) / 9)
            runs[activation, kind] = nets.train(data, activation, kind, seed)
    tell(_TITLES[name], 1.0)
    theory = _theory(data, runs["linear", "AE"].steps, seed)
    error = max(float(np.max(np.abs(runs["linear", kind].values - theory[kind]))) for kind in nets.KINDS)
    ends_error = max(float(np.max(np.abs(runs["linear", kind].values[-1] - theory[kind][-1]))) for kind in nets.KINDS)
    numbers = {f"{name}_linear_error": error, f"{name}_linear_end_error": ends_error}
    claims = [
        Claim(
            where=f"{_TITLES[name]}: the paper's experiments on pictures, as section F describes them",
            says="On real data, linear nets follow the formulas approximately, although they do not start aligned.",
            measured=f"Of the {nets.MODES} leading directions, over all steps and the three nets, the learnt share is "
            f"at most "
            f"{error:.3f} from the formula, and {ends_error:.3f} at the end. The noise was drawn again in every step.",
            verdict=verdict(error < 0.2),
            code="lab.dynamics.dae, lab.dynamics.wdae",
        )
    ]
    for activation, where in (
        ("tanh", "section G, Figure 1 of the supplement"),
        ("relu", "Figure 6 of the paper, as section F describes it"),
    ):
        claim, found = _nonlinear(data, runs, activation, where)
        claims.append(claim)
        numbers |= {f"{name}_{activation}_{key}": value for key, value in found.items()}
    lowest = min(float(run.values.min()) for run in runs.values())
    highest = max(float(run.values.max()) for run in runs.values())
    n = len(data.X)
    faint = float(np.max(n * PRINTED_DECAY / data.eigenvalues))
    pooled = f", which is {data.sizes.variance:g} after averaging squares of {data.sizes.pool}×{data.sizes.pool} pixels"
    text = (
        f"{data.words}, mean picture taken away; {data.sizes.hidden} hidden units; {data.sizes.steps} "
        f"steps of full-batch gradient descent at one learning rate, 0.15·N/λ₁, for all nets; small balanced starting "
        f"weights in random directions. The paper has {_PAPER_SAMPLES[name]} pictures; the curves depend on λ/N, which "
        f"hardly changes with N. "
        f"Noise of variance {nets.VARIANCE:g} per pixel, as in the paper's "
        f"figure{pooled if data.sizes.pool > 1 else ''}. "
        f"The weight decay is γ = {nets.matched_decay(data):.3g}, which by theory ends where the noise ends in "
        f"direction {MATCHED + 1}. "
        f"The figure of the paper has γ = {PRINTED_DECAY:g}; in the loss of its theory that would lower these "
        f"{nets.MODES} directions by no more than {faint:.1%}, so its experiment must have scaled the loss or the "
        f"pictures in a way that the supplement does not tell.\n\n"
        f"What a net has learnt of a direction is measured with the estimator of section F every "
        f"{runs['linear', 'AE'].steps[1]} steps; over all runs its values lie between {lowest:.3f} and {highest:.3f}."
    )
    drawing = Drawing(
        f"pictures_{name}",
        "AE blue, WDAE orange, DAE green; fainter for weaker directions. Dotted: the formulas, from the values at the "
        "start.",
        figures.pictures(data, runs, theory),
    )
    chapter = Chapter(f"Pictures: {_TITLES[name]}", text, claims, [drawing])
    return chapter, numbers


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
    data: nets.Pictures, runs: dict[tuple[str, str], nets.Curves], activation: str, where: str
) -> tuple[Claim, dict[str, float]]:
    plain, decayed, noisy = (runs[activation, kind] for kind in nets.KINDS)
    weak = nets.MODES - 1
    # Time to a level that both pass, half the lower limit: a fraction of each net's own limit favours the lower one.
    level = 0.5 * np.minimum(decayed.values[-1], noisy.values[-1])
    faster = float(decayed.time_to(level)[MATCHED] / noisy.time_to(level)[MATCHED])
    kept = {kind: runs[activation, kind].values[-1] for kind in nets.KINDS}
    name = "ReLU" if activation == "relu" else activation
    claim = Claim(
        where=f"{_TITLES[data.name]}: {where}",
        says=f"Nets with {name} units learn in the same manner: strong directions first, noise and weight decay hold "
        f"weak "
        "ones back, and noise is quicker than weight decay.",
        measured=f"Share learnt at the end of directions 1, {MATCHED + 1} and {nets.MODES}: AE {_three(kept['AE'])}, "
        f"WDAE "
        f"{_three(kept['WDAE'])}, DAE {_three(kept['DAE'])}. To half the lower of both ends in direction "
        f"{MATCHED + 1}, weight decay "
        f"takes {faster:.2f} times as many steps as noise.",
        verdict=verdict(
            faster > 1 and kept["AE"][weak] > max(kept["WDAE"][weak], kept["DAE"][weak]) and _ordered(plain)
        ),
        code="lab.dynamics.estimate",
    )
    return claim, {
        "decay_over_noise_time": faster,
        "weak_noise_over_plain": float(kept["DAE"][weak] / kept["AE"][weak]),
        "weak_decay_over_plain": float(kept["WDAE"][weak] / kept["AE"][weak]),
        "strong_first": float(_ordered(plain)),
    }


def _ordered(run: nets.Curves) -> bool:
    """Whether directions 1, 2, 4 and 8 reach one half in this order."""
    times = run.time_to(0.5)[[0, 1, 3, 7]]
    return bool((times[1:] >= times[:-1]).all())


def _three(values: Array) -> str:
    return " / ".join(f"{values[mode]:.2f}" for mode in (0, MATCHED, nets.MODES - 1))
