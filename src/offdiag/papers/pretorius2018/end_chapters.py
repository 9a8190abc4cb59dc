"""Sections D to F: where the nets converge, how large a step may be, and the estimator on whole nets."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.claims import Chapter
from offdiag.papers.pretorius2018 import figures

Array = NDArray[np.float64]


def ends(seed: int) -> Chapter:
    n, s2 = 50, 0.4
    X = np.random.default_rng(seed).standard_normal((n, 4)) * np.array([1.6, 1.0, 0.7, 0.4])
    lam = dynamics.eigenbasis(X)[0]
    eps, mode = n * s2, 1
    equal = float(dynamics.equivalent_decay(lam[mode], eps))  # this is Nγ
    W1, W2 = dynamics.aligned_start(X, 4, 0.3, 0.3, seed=seed)
    ended = {
        name: dynamics.gradient_descent(X, W1, W2, rate=0.1, steps=2500, record=2500, **settings).values[-1]
        for name, settings in (
            ("DAE", {"variance": s2}),
            ("WDAE", {"weight_decay": equal / n}),
            ("printed", {"weight_decay": equal}),
        )
    }
    error = float(abs(ended["DAE"][mode] - ended["WDAE"][mode]))
    printed = float(abs(ended["DAE"][mode] - ended["printed"][mode]))
    formula = float(
        max(
            np.max(np.abs(ended["DAE"] - dynamics.dae_fixed_point(lam, eps))),
            np.max(np.abs(ended["WDAE"] - dynamics.wdae_fixed_point(lam, equal))),
        )
    )
    t, one, noise = np.linspace(0, 14, 200), 1.0, 1.0
    decay = float(dynamics.equivalent_decay(one, noise))
    curves = {
        "AE": dynamics.dae(t, 0.05, 0.05, one, 0.0, 1.0),
        "WDAE": dynamics.wdae(t, 0.0025, one, decay, 1.0),
        "DAE": dynamics.dae(t, 0.05, 0.05, one, noise, 1.0),
    }
    slower = float(dynamics.wdae_time(0.9, 0.0025, one, decay, 1.0) / dynamics.dae_time(0.9, 0.0025, one, noise, 1.0))
    chapter = Chapter(
        "pretorius2018",
        "Where they end, and how fast",
        "Which weight decay does the work of a given noise? The ends can be made equal in one direction. Then one can "
        "ask which net gets there first.",
        {
            "equal_ends_error": error,
            "equal_ends_printed_error": printed,
            "ends_formula_error": formula,
            "decay_time_over_noise_time": slower,
        },
    )
    chapter.claim(
        "Section E",
        f"A net trained on {n} samples ends at {ended['DAE'][mode]:.4f} with noise, at "
        f"{ended['WDAE'][mode]:.4f} with Nγ = λε/(λ + ε), and at {ended['printed'][mode]:.4f} with γ itself set to "
        f"that. Both ends are those of the formulas to within {formula:.0e}.",
        error < 1e-6,
    )
    chapter.claim(
        "Sections B, C and E",
        "With ends made equal (λ = 1, ε = 1, Nγ = 0.5) and the same small steps, weight decay needs "
        f"{slower:.2f} times as long as noise to come to 90 % of the end: near 0 the DAE grows at the rate 2λ, the "
        "WDAE at 2(λ − Nγ).",
        slower > 1,
    )
    chapter.draw(
        "ends",
        "Left: noise lowers all directions smoothly, weight decay cuts weak ones off; they meet at the dotted line. "
        "Right: where they end alike, the net with noise gets there first.",
        figures.ends(np.logspace(-2, 2, 200), noise, one, t, curves),
    )
    return chapter


def learning_rates() -> Chapter:
    lam, eps = 1.0, 0.8
    n_samples = 40  # N, so that γ and Nγ differ
    top = float(np.linalg.eigvalsh(dynamics.dae_hessian(1, 1, lam, eps, 1))[-1])
    n_gamma = float(dynamics.equivalent_decay(lam, eps))
    top_decay = float(np.linalg.eigvalsh(dynamics.wdae_hessian(1, 1, lam, n_gamma, 1))[-1])
    hessian_error = _hessian_error(lam, eps)
    path = dynamics.dae(np.linspace(0, 40, 400), 0.03, 0.03, lam, eps, 1.0)
    root = np.sqrt(path)
    steepest = float(np.linalg.eigvalsh(dynamics.dae_hessian(root, root, lam, eps, 1.0))[:, -1].max())
    noises = np.linspace(0, 4, 33)
    decays = dynamics.equivalent_decay(lam, noises)
    dae, wdae = dynamics.dae_learning_rate(lam, noises), dynamics.wdae_learning_rate(lam, decays)
    steps = {
        "DAE, N/(2λ + 3ε)": _steps_needed(lam, noises, 0 * noises, dae),
        "WDAE, N/(2λ + Nγ)": _steps_needed(lam, 0 * noises, decays, wdae),
        "DAE, N/2λ": _steps_needed(lam, noises, 0 * noises, np.full_like(noises, 1 / (2 * lam))),
    }
    at = int(np.argmin(np.abs(noises - 1)))
    used = {name: int(values[at]) for name, values in steps.items()}
    printed_top = 2 * lam + n_gamma / n_samples
    even = float(np.max(np.abs(dae * lam - wdae * (lam - decays))))
    fraction = float(dynamics.learning_rate_ratio(lam, noises[at], decays[at]))
    chapter = Chapter(
        "pretorius2018",
        "How long a step may be",
        "Gradient descent takes steps of finite length. Too long a step overshoots where the loss curves strongly, so "
        "the paper takes one over the largest curvature as the best learning rate.",
        {
            "hessian_error": hessian_error,
            "steepest_on_the_way": steepest / (2 * lam),
            "printed_rates_even": even,
            "steps_printed_over_2lambda": used["DAE, N/(2λ + 3ε)"] / used["DAE, N/2λ"],
        },
    )
    chapter.claim(
        "Section D, the Hessian",
        f"Against second differences at 50 points the largest error is {hessian_error:.0e}.",
        hessian_error < 1e-5,
    )
    chapter.claim(
        "Section D, Eq. 8 of the paper",
        f"At λ = 1, ε = 0.8, N = {n_samples} the curvature there is {top:.4f}/N with noise (2λ + 3ε = "
        f"{2 * lam + 3 * eps:.4f}) and {top_decay:.4f}/N with the equivalent decay (2λ + Nγ = "
        f"{2 * lam + n_gamma:.4f}, as printed {printed_top:.4f}).",
        abs(top - 2 * lam - 3 * eps) < 1e-12 and abs(top_decay - 2 * lam - n_gamma) < 1e-12,
    )
    chapter.claim(
        "Section D",
        "A small balanced start never gets there when there is noise. On its way the largest curvature is "
        f"{steepest:.3f}/N = 2λ/N, at its end, against {top:.3f}/N at w1 = w2 = 1. At ε = 1 the printed rate takes "
        f"{used['DAE, N/(2λ + 3ε)']} steps to come within 1 % of the end, the rate N/2λ only {used['DAE, N/2λ']}.",
        steepest > top - 1e-6,
    )
    chapter.claim(
        "Section D, the ratio R",
        f"With Nγ for γ and equal ends (λ = ε = 1), R = {fraction:.3f}: the DAE takes shorter steps. Each "
        f"at its own printed rate, the DAE needs {used['DAE, N/(2λ + 3ε)']} steps and the WDAE "
        f"{used['WDAE, N/(2λ + Nγ)']}: rate times speed of growth, α_ε·λ and α_γ·(λ − Nγ), are equal to within "
        f"{even:.0e} for all ε, so noise gains nothing at these rates; at equal rates it does.",
        abs(fraction - float(dae[at] / wdae[at])) < 1e-12,
    )
    chapter.draw(
        "rates",
        "Left: the rates of Eq. 8, corrected, with ends made equal. Right: steps to within 1 % of the end from w1 = "
        "w2 = 0.1.",
        figures.rates(noises, dae, wdae, steps),
    )
    return chapter


def whole_net(seed: int) -> Chapter:
    n, rate, steps = 60, 4e-3, 3000
    X = np.random.default_rng(seed).standard_normal((n, 8)) * np.array([2, 1.6, 1.3, 1, 0.8, 0.6, 0.4, 0.3])
    s2, gamma, hidden = 0.5, 0.2, 5
    W1, W2 = dynamics.aligned_start(X, hidden, 0.1, 0.1, seed=seed)
    settings: dict[str, dict[str, float]] = {
        "AE": {},
        "WDAE, γ = 0.2": {"weight_decay": gamma},
        "DAE, s² = 0.5": {"variance": s2},
    }
    found, theory = {}, {}
    for name, force in settings.items():
        found[name] = dynamics.gradient_descent(X, W1, W2, rate=rate, steps=steps, record=50, **force)
        lam, t = found[name].eigenvalues[:hidden], found[name].steps[:, None]
        if "weight_decay" in force:
            theory[name] = dynamics.wdae(t, 0.01, lam, n * gamma, n / rate)
        else:
            theory[name] = dynamics.dae(t, 0.1, 0.1, lam, n * force.get("variance", 0.0), n / rate)
    error = max(float(np.max(np.abs(found[k].values[:, :hidden] - theory[k]))) for k in found)
    shorter = dynamics.gradient_descent(X, W1, W2, rate=rate / 2, steps=2 * steps, record=100, variance=s2)
    close = theory["DAE, s² = 0.5"]
    order = float(
        np.max(np.abs(found["DAE, s² = 0.5"].values[:, :hidden] - close))
        / np.max(np.abs(shorter.values[:, :hidden] - close))
    )
    last = found["DAE, s² = 0.5"]
    modes = dynamics.estimate(X, lambda rows: rows @ (last.W2 @ last.W1).T).values
    exact = float(np.max(np.abs(modes - last.values[-1])))
    above = dynamics.estimate(X, lambda rows: 1.5 * rows).values.max()
    below = dynamics.estimate(X, lambda rows: -0.5 * rows).values.min()
    chapter = Chapter(
        "pretorius2018",
        "From one direction to a whole net",
        "The scalar equations hold when the weights are aligned with the directions of the data. We train whole "
        "matrices from such a start, then look through the estimator that also serves nets that are not linear.",
        {"whole_net_error": error, "whole_net_order": order, "estimator_error": exact},
    )
    chapter.claim(
        "Section B",
        f"Nets of 8 inputs and {hidden} hidden units, started aligned with the data, are within "
        f"{error:.1e} of the curves during {steps} steps; steps half as long bring them {order:.1f} times closer, "
        "so what is left is the length of a step.",
        error < 8e-3 and 1.8 < order < 2.2,
    )
    chapter.claim(
        "Section F",
        f"For an aligned linear net it is the true share to within {exact:.0e}. A net that gives back "
        f"1.5·x scores {above:.1f}, one that gives back −0.5·x scores {below:.1f}.",
        exact < 1e-9,
    )
    chapter.draw(
        "whole_net",
        "Lines: closed forms. Dots: gradient descent on all weights of a net; five directions each.",
        figures.whole_net(found, theory),
    )
    return chapter


def _steps_needed(lam: float, noise: Array, decay: Array, rate: Array, *, most: int = 2000) -> Array:
    """Steps of gradient descent from w1 = w2 = 0.1 until w stays within 1 % of its limit, N = 1, per setting."""
    end = np.where(decay > 0, dynamics.wdae_fixed_point(lam, decay), dynamics.dae_fixed_point(lam, noise))
    u = np.full_like(noise, 0.1)  # w1 = w2 = u stay equal
    needed = np.zeros_like(noise)
    for step in range(1, most + 1):
        u = u + rate * (u * (lam - u * u * (lam + noise)) - decay * u)
        needed = np.where(np.abs(u * u - end) > 0.01 * end, step + 1, needed)
    return needed


def _hessian_error(lam: float, eps: float) -> float:
    """Largest difference between the Hessian and second differences of the loss, over 50 points."""
    w1, w2 = np.random.default_rng(0).uniform(-1.5, 1.5, (2, 50))
    step = 1e-4

    def loss(a: Array, b: Array) -> Array:
        return np.asarray(lam / 2 * (1 - a * b) ** 2 + eps / 2 * (a * b) ** 2)

    numeric = np.zeros((50, 2, 2))
    axes = np.eye(2) * step
    for i, j, p, q in product((0, 1), (0, 1), (-1, 1), (-1, 1)):
        shift = p * axes[i] + q * axes[j]
        numeric[:, i, j] += p * q * loss(w1 + shift[0], w2 + shift[1])
    numeric /= 4 * step**2
    return float(np.max(np.abs(numeric - dynamics.dae_hessian(w1, w2, lam, eps, 1.0))))
