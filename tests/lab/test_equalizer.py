"""Equal column norms by rotation: Givens, the paper's algorithm, the universal matrix; and the pair of factors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.lab import equalizer
from tests.fixtures.mistakes import rejects

ways = pytest.mark.parametrize("way", [equalizer.equalize, equalizer.eqz], ids=["givens", "eqz"])


@st.composite
def any_matrix(draw, most=9):
    """Every rank, graded columns, ties, zero columns, huge and tiny scales."""
    d, r = draw(st.integers(1, most)), draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = draw(st.integers(0, min(d, r)))
    U = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, r))
    kind = draw(st.sampled_from(["plain", "graded", "whole", "dead"]))
    if kind == "graded":
        U = U * 10.0 ** -np.arange(r)
    elif kind == "whole":
        U = rng.integers(-1, 2, (d, r)).astype(float)
    elif kind == "dead":
        U[:, ::2] = 0
    return U * draw(st.sampled_from([1.0, 1e-200, 1e200]))


@ways
@given(U=any_matrix())
def test_any_matrix_can_be_equalised(way, U):
    Q = way(U)
    r = U.shape[1]
    assert np.allclose(Q.T @ Q, np.eye(r), atol=1e-13)
    assert equalizer.spread(U @ Q) <= 1e-12


def test_width_200_is_equalised_by_at_most_199_rotations():
    rng = np.random.default_rng(0)
    for U in (rng.standard_normal((300, 200)), rng.standard_normal((3, 200)), np.diag(0.9 ** np.arange(200))):
        Q, count = equalizer.rotations(U)
        assert count <= 199
        assert equalizer.spread(U @ Q) <= 1e-12
        assert np.allclose(Q.T @ Q, np.eye(200), atol=1e-13)
        assert np.array_equal(Q, equalizer.equalize(U))


def test_an_equalised_matrix_is_left_alone():
    assert equalizer.rotations(np.ones((4, 5)))[1] == 0
    assert np.array_equal(equalizer.equalize(np.zeros((3, 4))), np.eye(4))
    assert np.array_equal(equalizer.equalize([[3.0], [4.0]]), [[1.0]])


def test_the_pivot_of_the_published_algorithm_becomes_the_mean_not_zero():
    U = np.random.default_rng(1).standard_normal((5, 4))
    first = (U @ equalizer.eqz(U))[:, 0]
    assert first @ first == pytest.approx(np.trace(U.T @ U) / 4, rel=1e-13)


@pytest.mark.parametrize("r", [1, 2, 4, 8, 64])
def test_the_hadamard_matrix_is_orthogonal_and_equalises_every_diagonal(r):
    Z = equalizer.hadamard(r)
    assert np.allclose(Z.T @ Z, np.eye(r), atol=1e-14)
    D = np.diag(np.random.default_rng(r).standard_normal(r))
    assert np.allclose(np.diag(Z.T @ D @ Z), np.trace(D) / r, atol=1e-14)


def test_the_hadamard_matrix_doubles_with_one_root_of_two_per_level():
    half = equalizer.hadamard(4)
    assert np.allclose(equalizer.hadamard(8), np.block([[half, half], [-half, half]]) / np.sqrt(2), atol=1e-15)


@given(st.integers(1, 9), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2**32 - 1))
def test_the_universal_equaliser_works_for_powers_of_two(d, r, seed):
    U = np.random.default_rng(seed).standard_normal((d, r))
    Q = equalizer.universal(U)
    assert np.allclose(Q.T @ Q, np.eye(r), atol=1e-13)
    assert equalizer.spread(U @ Q) <= 1e-12


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 8), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_a_pair_has_a_jointly_equalised_twin_with_the_same_product(d1, d2, r, rank, seed):
    rng = np.random.default_rng(seed)
    low = rng.standard_normal((min(rank, r), r))
    U, V = rng.standard_normal((d1, len(low))) @ low, rng.standard_normal((d2, r))
    A, B = equalizer.joint(U, V)
    assert A.shape == U.shape
    assert B.shape == V.shape
    product = U @ V.T
    scale = max(np.abs(product).max(), 1e-300)
    assert np.allclose(A @ B.T, product, atol=1e-12 * scale)
    share = np.linalg.svd(product, compute_uv=False).sum() / r
    assert np.allclose((A**2).sum(axis=0), share, atol=1e-12 * scale)
    assert np.allclose((B**2).sum(axis=0), share, atol=1e-12 * scale)


def test_spread_is_relative_to_the_mean():
    assert equalizer.spread([[1.0, 2.0]]) == pytest.approx(3 / 2.5)
    assert equalizer.spread(np.zeros((2, 3))) == 0
    assert equalizer.spread([[1e-200, 2e-200]]) == pytest.approx(3 / 2.5)


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: equalizer.hadamard(6), "power of two.*6.*equalize"),
    (lambda: equalizer.hadamard(0), "at least 1.*0"),
    (lambda: equalizer.universal(np.ones((2, 3))), "power of two"),
    (lambda: equalizer.equalize(np.ones(3)), r"U must be a matrix.*\(3,\)"),
    (lambda: equalizer.equalize(np.zeros((3, 0))), r"U must be a matrix"),
    (lambda: equalizer.equalize([[np.nan, 1.0]]), "NaN"),
    (lambda: equalizer.eqz([[np.inf, 1.0]]), "infinite"),
    (lambda: equalizer.joint(np.ones((2, 3)), np.ones((2, 4))), "V must be any×3.*2×4"),
)


def test_balanced_factors_share_the_norm_among_all_units():
    U, V = equalizer.balanced(np.eye(3)[:, :1], np.array([4.0]), np.eye(3)[:, :1], 4)
    assert np.allclose((U**2).sum(axis=0), 1.0)
    assert np.allclose(U @ V.T, np.diag([4.0, 0, 0]))
