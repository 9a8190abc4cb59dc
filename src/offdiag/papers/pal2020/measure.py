"""Training runs for Pal et al. (2020): linear nets under DropBlock, DropConnect and dropout, from one start."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag.lab import descent, dropblock, dropconnect
from offdiag.lab.checks import Matrix
from offdiag.papers.pal2020.sizes import Sizes
from offdiag.progress import Progress


@dataclass(frozen=True, eq=False)
class Data:
    Y: Matrix
    X: Matrix
    start: tuple[Matrix, Matrix]


@dataclass(frozen=True, eq=False)
class Run:
    """One descent and its closed-form minimum."""

    theta: float
    block: int
    trace: descent.Trace
    best: dropblock.Optimum
    spread: tuple[float, float]  # of the block norms, standard deviation over mean: at the start and at the end

    @property
    def excess(self) -> float:
        return float(self.trace.deterministic[-1] / self.best.value - 1)

    @property
    def scatter(self) -> float:
        """The standard deviation of a drawn loss over its mean, in the last third of the training."""
        return float(np.std((self.trace.stochastic / self.trace.deterministic)[-len(self.trace.steps) // 3 :]))


def offset(trace: descent.Trace) -> float:
    """The mean of (stochastic − deterministic)/deterministic over the trace, in standard errors."""
    samples = (trace.stochastic / trace.deterministic - 1)[1:]
    return float(abs(samples.mean()) / (samples.std(ddof=1) / np.sqrt(len(samples))))


def data(s: Sizes, seed: int) -> Data:
    """X from N(0, 1), Y = U_true V_trueᵀ X, and a start; all entries standard normal, as in the paper."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((s.inputs, s.samples))
    U, V = rng.standard_normal((s.outputs, s.width)), rng.standard_normal((s.inputs, s.width))
    start = rng.standard_normal(U.shape), rng.standard_normal(V.shape)
    return Data(U @ V.T @ X, X, start)


def rate(s: Sizes, theta: float) -> float:
    """A step size for single samples that neither diverges nor crawls; smaller where rare units are multiplied most."""
    return 0.15 * theta * min(1.0, 10 * theta) / (s.inputs * s.width)


def descents(s: Sizes, given: Data, seed: int, progress: Progress) -> list[Run]:
    """Figures 1 and 5: Algorithm 1 for several θ and block sizes, all from one start."""
    pairs = [(0.5, block) for block in s.blocks]
    pairs += [(theta, s.block) for theta in s.thetas if (theta, s.block) not in pairs]
    runs = []
    for n, (theta, block) in enumerate(sorted(pairs)):
        progress(f"descent · θ = {theta:g}, block {block}", n / len(pairs))
        settings: dict[str, Any] = {"steps": s.steps, "record": 300, "start": given.start, "seed": seed}
        trace = dropblock.sgd(given.Y, given.X, s.width, block, 1 - theta, learning_rate=rate(s, theta), **settings)
        best = dropblock.optimum(given.Y, given.X, s.width, block, 1 - theta)
        norms = [dropblock.block_norms(U, V, given.X, block) for U, V in (given.start, (trace.U, trace.V))]
        spread = [float(norm.std() / norm.mean()) for norm in norms]
        runs.append(Run(theta, block, trace, best, (spread[0], spread[1])))
    return runs


def lemma21(s: Sizes, given: Data) -> float:
    """Relative error of the formula against the mean over all 2^k masks, at the start of the experiment."""
    U, V = given.start
    T = V.T @ given.X
    block = max(s.block, s.width // 10)
    k = s.width // block
    parts = [U[:, i : i + block] @ T[i : i + block] for i in range(0, s.width, block)]
    # ‖Y − Σ w_i P_i/θ‖² from inner products, so that a mask costs k² instead of a pass over the data
    P = np.array([part.ravel() for part in parts])
    y = given.Y.ravel()
    inner, cross, square = P @ P.T, P @ y, float(y @ y)
    worst = 0.0
    for theta in (0.2, 0.5, 0.9):
        masks = np.array(list(itertools.product([0, 1], repeat=k)))
        chances = np.prod(np.where(masks, theta, 1 - theta), axis=1)
        losses = square - 2 * masks @ cross / theta + np.einsum("ni,ij,nj->n", masks, inner, masks) / theta**2
        formula = dropblock.expected_loss(given.Y, U, V, given.X, block, 1 - theta)
        worst = max(worst, abs(float(chances @ losses) / formula - 1))
    return worst


@dataclass(frozen=True, eq=False)
class Connect:
    """DropConnect at one θ on one kind of input: two descents from one start, and the least mean loss."""

    inputs: str
    theta: float
    trace: descent.Trace  # of DropConnect
    dropout: descent.Trace
    cosine: float  # the largest between two input rows
    misread: float  # the printed objective over the exact one at the end of DropConnect
    best: dropconnect.Optimum

    @property
    def apart(self) -> float:
        """Dropout's final objective over DropConnect's, each measured by its own exact formula."""
        return float(self.dropout.deterministic[-1] / self.trace.deterministic[-1])

    @property
    def excess(self) -> float:
        return float(self.trace.deterministic[-1] / self.best.value - 1)


def connects(s: Sizes, given: Data, seed: int, progress: Progress) -> tuple[list[Connect], list[Connect]]:
    """Figure 3 (θ = 0.5) for the inputs of the paper, whitened and correlated inputs; Figure 6, other θ."""
    rng = np.random.default_rng(seed)
    mixing = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(s.inputs), np.arange(s.inputs))))
    kinds = {
        "as in the paper": given.X,
        "whitened": dropconnect.whitened(given.X) * np.sqrt(s.samples),
        "correlated": mixing @ rng.standard_normal(given.X.shape),
    }
    others = [theta for theta in s.thetas if theta != 0.5]
    plan = [(name, X, 0.5) for name, X in kinds.items()] + [("as in the paper", given.X, theta) for theta in others]
    M = given.Y @ np.linalg.pinv(given.X)
    found = []
    for n, (name, X, theta) in enumerate(plan):
        progress(f"DropConnect · inputs {name}, θ = {theta:g}", n / len(plan))
        found.append(_connect(name, M @ X, X, theta, s, given, seed))
    return found[: len(kinds)], found[len(kinds) :]


def _connect(name: str, Y: Matrix, X: Matrix, theta: float, s: Sizes, given: Data, seed: int) -> Connect:
    settings: dict[str, Any] = {"steps": s.steps, "record": 150, "start": given.start, "seed": seed}
    settings["learning_rate"] = rate(s, theta)
    trace = dropconnect.sgd(Y, X, s.width, 1 - theta, **settings)
    plain = dropblock.sgd(Y, X, s.width, 1, 1 - theta, **settings)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosine = float(np.abs(rows @ rows.T - np.eye(len(X))).max())
    printed = dropconnect.papers_form(Y, trace.U, trace.V, X, 1 - theta)
    best = dropconnect.optimum(Y, X, s.width, 1 - theta)
    return Connect(name, theta, trace, plain, cosine, printed / float(trace.deterministic[-1]), best)


@dataclass(frozen=True, eq=False)
class Anywhere:
    """One way to drop blocks: how often a unit is kept, and how training went."""

    name: str
    seeds: float  # probability that a seed lives
    kept: float  # measured: how often a unit lives
    trace: descent.Trace | None


def anywhere(s: Sizes, given: Data, seed: int, progress: Progress) -> list[Anywhere]:
    """Figure 4: the grid, and blocks at any position with seeds kept with θ, θ^(1/r) and the printed θ′."""
    progress("blocks · anywhere", 0.0)
    theta, r = 0.5, s.block
    printed = 1 - (1 - theta) ** (1 / (2 * r - 1))
    settings: dict[str, Any] = {"steps": s.steps, "record": 150, "start": given.start, "seed": seed}
    rng = np.random.default_rng(seed)
    found = []
    for name, seeds in (
        ("grid", theta),
        ("anywhere, seeds kept with θ^(1/r)", theta ** (1 / r)),
        ("anywhere, seeds kept with θ", theta),
        ("anywhere, seeds kept as printed", printed),
    ):
        on_grid = name == "grid"
        unit = theta if on_grid else seeds**r
        alive = rng.random((20_000, s.width // r if on_grid else s.width + r - 1)) < seeds
        windows = np.lib.stride_tricks.sliding_window_view(alive, 1 if on_grid else r, axis=1).all(axis=-1)
        trace = None
        if unit > 0.01:  # below this, no step size works
            step = rate(s, unit)
            trace = dropblock.sgd(
                given.Y, given.X, s.width, r, 1 - unit, overlap=not on_grid, learning_rate=step, **settings
            )
        found.append(Anywhere(name, seeds, float(windows.mean()), trace))
    return found
