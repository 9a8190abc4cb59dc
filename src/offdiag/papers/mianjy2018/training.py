"""The training runs of [Mianjy18]: two paths over the surface of a scalar, and the convergence of larger nets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag.lab import dropout, landscape
from offdiag.lab.checks import Matrix
from offdiag.lab.dropout import Trace
from offdiag.papers.mianjy2018.measure import LAMBDAS, drop_of
from offdiag.papers.mianjy2018.sizes import Sizes
from offdiag.progress import Progress


@dataclass(frozen=True, eq=False)
class Toy:
    """Figure 2 for one λ: two runs over the surface of a scalar."""

    lam: float
    contours: landscape.Contours
    traces: list[Trace]

    @property
    def distance(self) -> float:
        """Distance from the end of a run to the nearest global minimum, relative to its norm; the larger of two."""
        ends = np.array([trace.U[0, 0] for trace in self.traces])
        off = np.linalg.norm(ends[:, None] - self.contours.minima, axis=2).min(axis=1)
        return float(off.max() / np.linalg.norm(self.contours.minima[0]))


def toy_runs(steps: int, seed: int, m: float = 2.0) -> list[Toy]:
    starts = (np.array([[1.75, 0.15]]), np.array([[-0.25, -0.6]]))
    out = []
    for lam in LAMBDAS:
        settings: Any = {"steps": steps, "learning_rate": 0.01, "decay": 1e-3, "tied": True, "record_path": True}
        runs = [
            dropout.sgd([[m]], 2, drop_of(lam), start=start, seed=seed + n, record_every=10, **settings)
            for n, start in enumerate(starts)
        ]
        out.append(Toy(lam, landscape.contours(m, drop_of(lam), reach=2.0), runs))
    return out


CLOSE = 0.03  # how far above the closed form, relative to it, training may end


@dataclass(frozen=True, eq=False)
class Training:
    """Figure 3 for one width and one λ."""

    width: int
    lam: float
    best: dropout.Optimum
    trace: Trace

    @property
    def objective(self) -> Matrix:
        return np.asarray(self.trace.objectives.mean(axis=0))

    @property
    def variance(self) -> Matrix:
        return np.asarray(self.trace.variances.mean(axis=0))

    @property
    def excess(self) -> float:
        """Excess of the final mean over runs, relative to the minimum."""
        return float(self.objective[-1] / self.best.value - 1)

    @property
    def rise(self) -> float:
        """The largest rise of the mean variance above its previous minimum, relative to the start."""
        return float(np.max(self.variance - np.minimum.accumulate(self.variance)) / self.variance[0])

    @property
    def settling_time(self) -> float:
        """The recorded step from which the mean variance stays below a tenth of its start; infinite if never."""
        first = np.flatnonzero(self.variance >= self.variance[0] / 10)[-1] + 1
        return float(self.trace.steps[first]) if first < len(self.variance) else float("inf")


def target(sizes: Sizes, seed: int) -> Matrix:
    """M (outputs × inputs) with random singular subspaces and an exponentially decaying spectrum."""
    rng = np.random.default_rng(seed)
    n = min(sizes.inputs, sizes.outputs)
    W, Y = (np.linalg.qr(rng.standard_normal((d, n)))[0] for d in (sizes.outputs, sizes.inputs))
    return np.asarray((W * np.exp(-np.arange(n) / sizes.fall)) @ Y.T)


def train_all(sizes: Sizes, seed: int, progress: Progress) -> list[Training]:
    M = target(sizes, seed)
    cases = [(width, lam) for width in sizes.widths for lam in LAMBDAS]
    out = []
    for n, (width, lam) in enumerate(cases):

        def report(stage: str, fraction: float, n: int = n, width: int = width, lam: float = lam) -> None:
            progress(f"Figure 3 · width {width}, λ {lam:g}", (n + fraction) / len(cases))

        trace = dropout.sgd(
            M,
            width,
            drop_of(lam),
            steps=sizes.steps,
            learning_rate=sizes.rate,
            anneal=True,
            seed=seed + width,  # the same starts, inputs and random numbers for every λ
            runs=sizes.runs,
            record_every=sizes.steps // 160,
            progress=report,
        )
        out.append(Training(width, lam, dropout.optimum(M, width, drop_of(lam)), trace))
    return out


def settle_in_order(trainings: list[Training]) -> bool:
    """Whether at each width the variance settles no later for a larger λ than for a smaller one."""
    widths = {t.width for t in trainings}
    orders = [
        [t.settling_time for t in sorted(trainings, key=lambda t: -t.lam) if t.width == width] for width in widths
    ]
    return all(steps == sorted(steps) for steps in orders)


def settle_ratio(trainings: list[Training], width: int) -> float:
    """How many times longer the smallest λ takes than the largest, at least: an unsettled run counts as its end."""
    group = sorted((t for t in trainings if t.width == width), key=lambda t: t.lam)
    end = float(group[0].trace.steps[-1])
    return min(group[0].settling_time, end) / min(group[-1].settling_time, end)
