"""The next-item ridge against its normal equations, column by column."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.gramian import layout
from offdiag.solvers import cholesky, lapack, next_item
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, ordered


def solved(A, K, dtype="float64", **problem):
    return next_item.solve(layout.pack(A.astype(dtype)), np.array(K, dtype=dtype, order="C"), **problem)


@given(
    data=ordered(), decay=st.sampled_from([1.0, 0.6]), dropout=dropouts, l2=st.sampled_from([0.5, 3.0]),
    repeats=st.booleans(), dtype=dtypes,
)  # fmt: skip
def test_weights_solve_the_problem_of_each_column(data, decay, dropout, l2, repeats, dtype):
    events, m = data
    A, K = oracles.order_sums([[item for item, _ in user] for user in events], m, decay=decay)
    B = solved(A, K, dtype, dropout=dropout, l2=l2, repeats=repeats)
    true = oracles.next_item_weights(A, K, dropout, l2, repeats=repeats)
    np.testing.assert_allclose(B, true, atol=oracles.TOLERANCE[dtype])
    assert B.dtype == dtype


def random_problem(m, seed=0):
    rng = np.random.default_rng(seed)
    S = (rng.random((3 * m, m)) < 0.2) * rng.random((3 * m, m))
    return S.T @ S, S.T @ (rng.random((3 * m, m)) < 0.1)


@pytest.mark.parametrize("m", [1, 2, 7, 200, 301])
@pytest.mark.parametrize("repeats", [False, True])
def test_the_residual_is_zero_where_weights_are_free(m, repeats):
    A, K = random_problem(m)
    B = solved(A, K, dropout=0.3, l2=2.0, repeats=repeats)
    residual = (A + np.diag(oracles.penalty(A, 0.3, 2.0))) @ B - K
    if not repeats:
        assert not np.diag(B).any()
        np.fill_diagonal(residual, 0.0)
    assert abs(residual).max() < 1e-10 * max(abs(K).max(), 1)


def test_a_symmetric_right_hand_side_gives_edlae():
    X = (np.random.default_rng(0).random((80, 31)) < 0.3).astype(np.float64)
    G = X.T @ X
    B = solved(G, G, dropout=0.4, l2=3.0)
    np.testing.assert_allclose(B, oracles.weights(G, 0.4, 3.0, 0.0), atol=1e-12)


def test_the_arrays_of_the_caller_are_overwritten():
    A, K = random_problem(20)
    K = np.ascontiguousarray(K)
    assert next_item.solve(layout.pack(A), K, dropout=0.0, l2=1.0) is K


def test_a_solve_allocates_little_beside_its_arrays():
    """Their 1.5 m² numbers are what a fit is allowed; a mask of m² bytes for a check would be a sixth more."""
    solved(*random_problem(3), "float32", dropout=0.5, l2=1.0)  # loads what is compiled
    m = 1500
    A, K = np.zeros(layout.size(m), dtype=np.float32), np.ones((m, m), dtype=np.float32)
    A[layout.diagonal_positions(m)] = 1.0
    tracemalloc.start()
    next_item.solve(A, K, dropout=0.5, l2=1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.1 * K.nbytes


def test_an_overflow_anywhere_is_an_error():
    A, K = np.zeros(layout.size(600), dtype=np.float32), np.zeros((600, 600), dtype=np.float32)
    A[layout.diagonal_positions(600)] = 1e-30
    K[-1, 0] = 3e38
    with pytest.raises(od.OffdiagError, match="overflowed"):
        next_item.solve(A, K, dropout=0.0, l2=1e-30)


def test_an_item_that_starts_nothing_predicts_nothing():
    A, K = oracles.order_sums([[0, 1, 2], [1, 2]], 4)
    B = solved(A, K, dropout=0.5, l2=0.0)
    assert not B[2].any()  # always last
    assert not B[3].any()  # never seen
    assert B[1, 2] > 0


def test_items_that_nothing_separates_are_an_error():
    A, K = oracles.order_sums([[0, 1, 2], [0, 1, 2]], 3)
    A[1], A[:, 1] = A[0], A[:, 0]
    with pytest.raises(od.OffdiagError, match="singular"):
        solved(A, K, dropout=0.0, l2=0.0)


def test_progress_never_falls_and_ends_below_one(monkeypatch):
    monkeypatch.setattr(cholesky, "_flops_per_second", lambda: 1e9)
    reported = []
    A, K = random_problem(1500)
    solved(A, K, "float32", dropout=0.0, l2=1.0, progress=lambda *report: reported.append(report))
    shares = [share for _, share in reported]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m", [1, 4, 9])
def test_a_packed_factor_divides_rows_in_place(m, transposed):
    A, _ = random_problem(m)
    A += np.eye(m)
    L, packed = np.linalg.cholesky(A), layout.pack(A)
    lapack.pftrf(packed, m)
    B = np.random.default_rng(1).random((m, 5))
    true = np.linalg.solve(L.T if transposed else L, B)
    lapack.tfsm(packed, B, transposed=transposed)
    np.testing.assert_allclose(B, true, atol=1e-12)
    with pytest.raises(ValueError, match="C-ordered"):
        lapack.tfsm(packed, np.asfortranarray(np.ones((m + 1, 3))))


@pytest.mark.parametrize("m", [1, 4, 9])
def test_a_packed_factor_is_inverted_in_place(m):
    A, _ = random_problem(m)
    packed = layout.pack(A + np.eye(m))
    lapack.pftrf(packed, m)
    assert lapack.tftri(packed, m) == 0
    inverse = np.tril(layout.unpack(packed, m))
    np.testing.assert_allclose(inverse, np.linalg.inv(np.linalg.cholesky(A + np.eye(m))), atol=1e-12)
