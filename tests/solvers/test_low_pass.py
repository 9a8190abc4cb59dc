"""The directions of a low-pass filter, against dense eigenvectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.solvers import low_pass
from tests.fixtures.low_rank_problems import GivenGram
from tests.fixtures.sparse_catalogue import many_tastes, normalised
from tests.laws.strategies import dtypes, interactions


def captured(Q, A):
    return float(np.trace(Q.T.astype(np.float64) @ A @ Q))


def assert_orthonormal(Q):
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), rtol=0, atol=2e3 * np.finfo(Q.dtype).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 5, 40])
@pytest.mark.parametrize("seed", range(3))
def test_iterated_directions_capture_as_much_as_the_best_ones(dtype, rank, seed):
    X = many_tastes(seed, 900, 400)
    product, A, _ = normalised(X, dtype)
    assert np.count_nonzero(product.g) > low_pass.DEGREE * low_pass.width(rank, 400), "it must not be solved whole"
    Q = low_pass.leading(product, rank)
    assert Q.shape == (400, rank)
    assert Q.dtype == dtype
    assert_orthonormal(Q)
    best = np.linalg.eigvalsh(A)[::-1][:rank].sum()
    assert 0.999 * best <= captured(Q, A) <= best * (1 + 1e-5)
    assert not Q[product.g == 0].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_spectrum_that_falls_steeply_loses_nothing(dtype):
    """One direction a thousand times as strong as the last asked for: a long polynomial would hide all others."""
    rng = np.random.default_rng(0)
    m, rank = 600, 20
    theta = np.concatenate([[1000.0], np.linspace(4, 1, 40), np.full(m - 41, 0.3)])
    V = np.linalg.qr(rng.standard_normal((m, m)))[0]
    A = ((V * theta) @ V.T).astype(dtype)

    Q = low_pass.leading(GivenGram(A), rank)
    assert_orthonormal(Q)
    rest = captured(Q, A.astype(np.float64)) - 1000
    assert rest >= 0.99 * theta[1:rank].sum()


@given(interactions(values="counts"), st.integers(1, 12), dtypes)
def test_small_data_is_solved_whole(X, rank, dtype):
    product, A, _ = normalised(X, dtype)
    Q = low_pass.leading(product, rank)
    true = np.linalg.matrix_rank(A, tol=1e-3)
    assert min(rank, true) <= Q.shape[1] <= min(rank, np.count_nonzero(np.diag(A)))
    assert_orthonormal(Q)
    best = np.linalg.eigvalsh(A)[::-1][:rank].sum()
    assert captured(Q, A) == pytest.approx(best, rel=1e-4, abs=1e-4)


def test_more_directions_than_the_data_has_are_left_out():
    rng = np.random.default_rng(0)
    kinds = (rng.random((4, 300)) < 0.4).astype(np.float32)
    X = sparse.csr_array(kinds[rng.integers(4, size=200)])  # rank 4 in 300 items
    for dtype in ("float32", "float64"):
        product, A, _ = normalised(X, dtype)
        Q = low_pass.leading(product, 30)
        assert Q.shape == (300, 4)
        assert_orthonormal(Q)
        assert captured(Q, A) == pytest.approx(np.trace(A), rel=1e-4)


def test_directions_depend_on_the_seed_but_not_on_threads(monkeypatch):
    X = many_tastes(1, 700, 300)
    first = low_pass.leading(normalised(X)[0], 10, seed=3)
    assert np.array_equal(first, low_pass.leading(normalised(X)[0], 10, seed=3))
    monkeypatch.setattr(parallel, "n_threads", lambda: 1)
    again = low_pass.leading(normalised(X)[0], 10, seed=3)
    np.testing.assert_allclose(again @ again.T, first @ first.T, rtol=0, atol=1e-9)
