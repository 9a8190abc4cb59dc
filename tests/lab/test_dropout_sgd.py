"""Dropout by sampling: the steps written out, and where they lead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.lab import dropout
from offdiag.lab import montecarlo as mc


def written_out(M, U, V, X, kept, rates, keep, tied):
    """The steps of the algorithm as matrices, one input at a time."""
    U, V = U.copy(), V.copy()
    for inputs, masks, rate in zip(X, kept, rates, strict=True):
        by_U, by_V = np.zeros_like(U), np.zeros_like(V)
        for x, z in zip(inputs, masks, strict=True):
            e = U @ np.diag(z / keep) @ V.T @ x - M @ x
            by_U += np.outer(e, x) @ V @ np.diag(z / keep)
            by_V += np.outer(x, e) @ U @ np.diag(z / keep)
        if tied:
            U = V = U - rate * (by_U + by_V)
        else:
            U, V = U - rate * by_U, V - rate * by_V
    return U, V


sizes = st.integers(1, 6)


@given(st.integers(0, 2**32 - 1), sizes, sizes, st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_the_compiled_steps_are_those_of_the_algorithm(seed, d1, d2, width, batch, tied):
    from offdiag.lab.dropout_steps import take_steps

    rng = np.random.default_rng(seed)
    d2 = d1 if tied else d2
    M, U = rng.standard_normal((d1, d2)), rng.standard_normal((d1, width))
    V = U if tied else rng.standard_normal((d2, width))
    X, kept, rates = rng.standard_normal((4, batch, d2)), rng.random((4, batch, width)) < 0.6, np.full(4, 0.01)
    expected = written_out(M, U, V, X, kept, rates, 0.6, tied)
    Ut = U.T.copy()
    Vt = Ut if tied else V.T.copy()
    take_steps(Ut, Vt, X, X @ M.T, kept, rates, 0.6)
    assert np.allclose(Ut.T, expected[0], rtol=1e-10, atol=1e-12)
    assert np.allclose(Vt.T, expected[1], rtol=1e-10, atol=1e-12)


def test_the_mean_step_is_half_the_gradient_of_the_objective():
    rng = np.random.default_rng(7)
    M, U, V, drop = rng.standard_normal((3, 2)), rng.standard_normal((3, 2)), rng.standard_normal((2, 2)), 0.3
    masks, chances = mc.enumerate_masks(2, drop=drop)
    X = np.sqrt(2) * np.concatenate([np.eye(2), -np.eye(2)])  # four inputs whose second moment is I
    step = np.zeros_like(U)
    for z, chance in zip(masks, chances, strict=True):
        for x in X:
            moved = written_out(M, U, V, x[None, None], z[None, None], np.ones(1), 1 - drop, False)[0]
            step += chance / 4 * (U - moved)
    slope, size = np.zeros_like(U), 1e-6
    for at in np.ndindex(U.shape):
        E = np.zeros_like(U)
        E[at] = size
        slope[at] = dropout.objective(M, U + E, V, drop) - dropout.objective(M, U - E, V, drop)
    assert np.allclose(step, slope / (2 * size) / 2, atol=1e-7)


def test_sampling_converges_to_the_closed_form_and_equalises():
    M = np.random.default_rng(8).standard_normal((4, 3))
    best = dropout.optimum(M, 3, 0.5)
    trace = dropout.sgd(M, 3, 0.5, steps=60_000, learning_rate=0.02, decay=1e-3, seed=1, runs=3, record_every=20_000)
    assert trace.steps.tolist() == [0, 20_000, 40_000, 60_000]
    assert trace.objectives.shape == trace.variances.shape == (3, 4)
    assert (trace.objectives >= best.value - 1e-12).all()
    assert (trace.objectives[:, -1] < 1.005 * best.value).all()
    assert (trace.variances[:, -1] < 1e-3 * best.singular_values.sum()).all()
    for run in range(3):
        last = dropout.objective(M, trace.U[run], trace.V[run], 0.5)
        assert last == pytest.approx(trace.objectives[run, -1], rel=1e-12)


def test_tied_sampling_equalises_the_weights_and_records_its_path():
    start = np.array([[1.2, 0.1]])
    trace = dropout.sgd(
        [[2.0]], 2, 1 / 3, steps=20_000, learning_rate=0.02, decay=1e-2, tied=True, start=start, record_path=True
    )
    assert trace.path is not None
    assert trace.path.shape == (1, len(trace.steps), 1, 2)
    assert np.array_equal(trace.path[0, 0], start)
    assert np.array_equal(trace.path[0, -1], trace.U[0])
    assert np.allclose(np.abs(trace.U[0]), np.sqrt(2 / 2.5), atol=0.05)  # λ = 1/2, so a² = m/(2 + λ)


def test_a_run_depends_on_the_seed_and_its_place_only():
    M = np.ones((2, 3))
    settings = {"steps": 50, "learning_rate": 0.01}
    once = dropout.sgd(M, 2, 0.3, runs=3, seed=4, **settings)
    again = dropout.sgd(M, 2, 0.3, runs=2, seed=4, **settings)
    other = dropout.sgd(M, 2, 0.3, runs=2, seed=5, **settings)
    assert np.array_equal(once.U[:2], again.U)
    assert not np.allclose(again.U, other.U)
    assert not np.allclose(once.U[0], once.U[1])
    assert len(once.steps) == 51
    rare = dropout.sgd(M, 2, 0.3, runs=3, seed=4, record_every=20, **settings)
    assert rare.steps.tolist() == [0, 20, 40, 50]
    assert np.array_equal(rare.U, once.U)
    assert np.array_equal(rare.objectives, once.objectives[:, rare.steps])


def test_drawing_in_chunks_changes_nothing(monkeypatch):
    whole = dropout.sgd(np.ones((2, 3)), 2, 0.3, 50, 0.01, batch=2, record_every=50)
    monkeypatch.setattr("offdiag.lab.dropout_sgd.CHUNK", 7)
    pieces = dropout.sgd(np.ones((2, 3)), 2, 0.3, 50, 0.01, batch=2, record_every=50)
    assert np.array_equal(whole.U, pieces.U)


def test_batches_reduce_the_noise_of_the_steps():
    M, best = np.eye(3), dropout.optimum(np.eye(3), 3, 0.5).value
    settings = {"steps": 4000, "learning_rate": 0.05, "runs": 4, "record_every": 4000}
    one = dropout.sgd(M, 3, 0.5, **settings).objectives[:, -1].mean() - best
    many = dropout.sgd(M, 3, 0.5, batch=16, **settings).objectives[:, -1].mean() - best
    assert 0 < many < one / 4


def test_progress_is_reported_per_run():
    reported = []
    dropout.sgd(np.eye(2), 2, 0.5, steps=4, learning_rate=0.1, runs=2, progress=lambda *a: reported.append(a))
    assert [fraction for _, fraction in reported] == [0.5, 1.0]


def test_annealing_removes_the_noise_of_the_last_steps():
    M = np.random.default_rng(9).standard_normal((4, 3))
    best = dropout.optimum(M, 3, 0.5).value
    settings = {"steps": 8000, "learning_rate": 0.02, "seed": 1, "runs": 4, "record_every": 4000}
    constant, annealed = (dropout.sgd(M, 3, 0.5, anneal=anneal, **settings) for anneal in (False, True))
    assert np.array_equal(constant.objectives[:, :2], annealed.objectives[:, :2])  # the first half is the same
    excess = [trace.objectives[:, -1].mean() / best - 1 for trace in (constant, annealed)]
    assert excess[1] < 0.3 * excess[0]
