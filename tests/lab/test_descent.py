"""Stochastic gradient descent under noise: its steps, its trace and its records."""

import itertools

import numpy as np
import pytest

from offdiag.lab import descent, dropblock


def net(seed, a, b, n, width):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((b, n))
    return 2 * rng.standard_normal((a, n)), X, rng.standard_normal((a, width)), rng.standard_normal((b, width))


@pytest.mark.parametrize("overlap", [False, True])
def test_descent_approaches_the_optimum_with_an_unbiased_trace(overlap):
    Y, X, *_ = net(7, 6, 5, 40, 6)
    found = dropblock.optimum(Y, X, 6, 2, 0.4)
    run = dropblock.sgd(Y, X, 6, 2, 0.4, overlap=overlap, steps=6000, learning_rate=0.01, batch=10, record=400, seed=1)
    assert run.steps[0] == 0
    assert run.steps[-1] == 6000
    settled = run.steps > 3000
    off = (run.stochastic - run.deterministic)[settled]
    assert abs(off.mean()) < 4 * off.std(ddof=1) / np.sqrt(settled.sum())
    if not overlap:
        assert run.deterministic.min() >= found.bound * (1 - 1e-12)
        assert run.deterministic[-1] < 1.02 * found.value
        assert run.deterministic[-1] == pytest.approx(dropblock.expected_loss(Y, run.U, run.V, X, 2, 0.4), rel=1e-9)
    else:
        C = dropblock.overlapping(0.6, 2).cov(6) / 0.36
        T = run.V.T @ X
        mean = np.sum((Y - run.U @ T) ** 2) + np.sum(C * (run.U.T @ run.U) * (T @ T.T))
        assert run.deterministic[-1] == pytest.approx(mean, rel=1e-9)


def test_one_step_of_descent_is_the_one_in_print():
    Y, X, U, V = net(8, 3, 4, 1, 4)
    run = dropblock.sgd(Y, X, 4, 2, 0.5, steps=1, learning_rate=0.01, decay=False, record=2, start=(U, V), seed=3)
    fits = []
    for mask in itertools.product([0, 1], repeat=2):
        D = np.diag(np.repeat(mask, 2).astype(float))
        error = U @ D @ V.T @ X / 0.5 - Y
        U1 = U - 0.01 / 0.5 * error @ X.T @ V @ D
        V1 = V - 0.01 / 0.5 * X @ error.T @ U @ D
        fits.append(np.allclose(run.U, U1) and np.allclose(run.V, V1))
    assert sum(fits) == 1


@pytest.mark.parametrize(("record", "steps"), [(1, [0, 7]), (2, [0, 7]), (3, [0, 3, 7]), (99, list(range(8)))])
def test_the_last_step_is_always_recorded(record, steps):
    trace = dropblock.sgd(np.eye(3), np.eye(3), 2, 1, 0.5, steps=7, record=record)
    assert trace.steps.tolist() == steps
    assert trace.deterministic[-1] == pytest.approx(
        dropblock.expected_loss(np.eye(3), trace.U, trace.V, np.eye(3), 1, 0.5)
    )


def test_annealed_steps_are_whole_for_half_of_the_time_and_end_at_zero():
    factors = descent.annealed(np.arange(11), 10)
    assert (factors[:6] == 1).all()
    assert factors[6:] == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])
