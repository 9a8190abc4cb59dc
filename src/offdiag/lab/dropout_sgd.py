"""Dropout as usually done: draw an input and a mask, take a step [Mianjy18 Alg. 1]; many runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks, descent
from offdiag.lab.checks import Matrix
from offdiag.progress import Progress, reporter

CHUNK = 1000  # inputs drawn at a time


@dataclass(frozen=True, eq=False)
class Trace:
    """The records of each run, and the weights at the end.

    Example:
        >>> od.lab.dropout.sgd(np.eye(2), 2, 0.5, steps=4, learning_rate=0.1, record_every=2).steps
        array([0, 2, 4])
    """

    steps: NDArray[np.int64]  # (n,) steps taken before each record, starting with 0
    objectives: Matrix  # (runs, n) the expected loss at the iterate, exactly
    variances: Matrix  # (runs, n) of ‖u_i‖‖v_i‖ over the units; 0 when equalised
    U: Matrix  # (runs, d1, width)
    V: Matrix  # (runs, d2, width); U itself with tied weights
    path: Matrix | None  # (runs, n, d1, width) U at every record, if requested


def sgd(
    M: Any,
    width: int,
    drop: float,
    steps: int,
    learning_rate: float,
    seed: int = 0,
    *,
    runs: int = 1,
    batch: int = 1,
    record_every: int | None = None,
    decay: float = 0.0,
    anneal: bool = False,
    tied: bool = False,
    start: tuple[Any, Any] | Any = None,
    record_path: bool = False,
    progress: Progress | bool | None = None,
) -> Trace:
    """Stochastic gradient descent on ‖Mx − U·diag(z)·Vᵀx/keep‖² with x ~ N(0, I) and a fresh mask per input.

    Step t has rate η = ``learning_rate``/(1 + decay·t): U ← U − η·e·hᵀ and V ← V − η·x·gᵀ with h = z∘Vᵀx/keep,
    e = Uh − Mx and g = z∘Uᵀe/keep, averaged over ``batch`` inputs. The paper omits the last factor 1/keep, which
    only rescales η; the factor 2 of the gradient is omitted both here and there. With ``anneal`` η is
    also multiplied by ``lab.descent.annealed``: without it, the noise of the last steps stays in the result. With
    ``tied`` both updates go to U.
    ``start`` is (U, V), or U if tied, and is shared by all runs; without it, each run draws its own, normal,
    with columns of norm 1 on average.

    Example:
        >>> run = od.lab.dropout.sgd(np.eye(2), 2, 0.5, steps=2000, learning_rate=0.05, decay=0.01)
        >>> bool(run.objectives[0, -1] < run.objectives[0, 0])
        True
    """
    progress = reporter(progress)
    from offdiag._kernels.parallel import run_parallel
    from offdiag.lab.dropout_steps import take_steps

    M = checks.symmetric(M, "M") if tied else checks.matrix(M, "M")
    width, lam = whole("width", width, 1), checks.odds(drop)
    steps, runs, batch = whole("steps", steps, 1), whole("runs", runs, 1), whole("batch", batch, 1)
    every = max(steps // 100, 1) if record_every is None else whole("record_every", record_every, 1)
    learning_rate = number("learning_rate", learning_rate, 0, checks.LARGEST, above=True)
    decay, seed = number("decay", decay, 0, checks.LARGEST), whole("seed", seed)
    marks = np.append(np.arange(0, steps, every), steps)
    U, V = _initial_factors(start, M.shape, width, tied)
    n, keep = len(marks), 1 - drop
    objectives, variances = np.empty((runs, n)), np.empty((runs, n))
    ends = np.empty((runs, len(M), width)), np.empty((runs, M.shape[1], width))
    path = np.empty((runs, n, len(M), width)) if record_path else None
    seeds = np.random.SeedSequence(seed).spawn(runs)
    chunk = max(CHUNK // batch, 1)

    def one(run: int) -> None:
        # one stream per kind of draw: the draws depend neither on the chunks nor on record_every
        starts, inputs, coins = (np.random.default_rng(child) for child in seeds[run].spawn(3))
        if U is None or V is None:
            Ut = starts.standard_normal((width, len(M))) / np.sqrt(len(M))
            Vt = Ut if tied else starts.standard_normal((width, M.shape[1])) / np.sqrt(M.shape[1])
        else:
            Ut = np.array(U.T, order="C")  # a copy: steps are taken in place
            Vt = Ut if tied else np.array(V.T, order="C")
        for at, mark in enumerate(marks):
            for begin in range(int(marks[at - 1]), int(mark), chunk) if at else ():
                size = min(chunk, int(mark) - begin)
                X = inputs.standard_normal((size, batch, M.shape[1]))
                kept = coins.random((size, batch, width)) < keep
                at_step = np.arange(begin, begin + size)
                rates = learning_rate / (1 + decay * at_step) / batch
                if anneal:
                    rates *= descent.annealed(at_step, steps)
                take_steps(Ut, Vt, X, X @ M.T, kept, rates, keep)
            if not np.abs(Ut).max() + np.abs(Vt).max() < 1e30:  # also when NaN
                raise OffdiagError(f"the iterates diverged by step {mark}; lower learning_rate={learning_rate:g}")
            scores = importances(Ut.T, Vt.T)
            objectives[run, at] = np.sum((M - Ut.T @ Vt) ** 2) + lam * np.sum(scores**2)
            variances[run, at] = np.var(scores)
            if path is not None:
                path[run, at] = Ut.T
        ends[0][run], ends[1][run] = Ut.T, Vt.T

    def done(finished: int) -> None:
        if progress:
            progress(f"dropout, {runs} runs", finished / runs)

    run_parallel(one, [(run,) for run in range(runs)], done)
    return Trace(marks, objectives, variances, *ends, path)


def importances(U: Matrix, V: Matrix) -> Matrix:
    """‖u_i‖·‖v_i‖ of each unit, the importance scores of [Mianjy18 sec. 6]; leading axes are runs.

    Example:
        >>> od.lab.dropout.importances(np.array([[3.0, 1.0], [4.0, 0.0]]), np.ones((1, 2)))
        array([5., 1.])
    """
    return np.asarray(np.linalg.norm(U, axis=-2) * np.linalg.norm(V, axis=-2))


def _initial_factors(start: Any, shape: tuple[int, ...], width: int, tied: bool) -> tuple[Matrix | None, Matrix | None]:
    if start is None:
        return None, None
    U, V = (start, start) if tied else checks.pair(start, "start")
    return checks.matrix(U, "U", (shape[0], width)), checks.matrix(V, "V", (shape[1], width))
