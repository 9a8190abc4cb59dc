"""Packed symmetric matrices: products in double precision, other catalogues and fingerprints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag._kernels import packed_rows
from offdiag.gramian import layout
from tests.laws.strategies import dtypes

sizes = st.integers(1, 24)
seeds = st.integers(0, 2**32 - 1)


def symmetric(m, seed):
    A = np.random.default_rng(seed).standard_normal((m, m))
    return A + A.T


@given(sizes, seeds, dtypes)
def test_products_of_a_packed_matrix(m, seed, dtype):
    A = symmetric(m, seed).astype(dtype)
    V = np.random.default_rng(seed).standard_normal((3, m))
    np.testing.assert_allclose(packed_rows.products(layout.pack(A), m, V), V @ A.astype(float), atol=1e-12)


@given(sizes, seeds, st.data())
def test_items_move_come_and_go(m, seed, data):
    A = symmetric(m, seed)
    at = np.array(data.draw(st.permutations([*range(m), -1, -1]))[: data.draw(st.integers(1, m + 2))])
    expected = np.where((at[:, None] >= 0) & (at >= 0), A[np.ix_(at, at)], 0)
    assert np.array_equal(layout.unpack(packed_rows.moved(layout.pack(A), m, at), len(at)), expected)


def test_fingerprints_see_the_last_number_of_any_array():
    for size in range(1, 9):
        array = np.arange(size, dtype=np.float32)
        other = np.append(array[:-1], np.float32(size))
        assert not np.array_equal(packed_rows.fingerprints(array), packed_rows.fingerprints(other))


def test_fingerprints_see_every_change_and_every_move():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 256, 3 << 20, dtype=np.uint8)
    first = packed_rows.fingerprints(words)
    assert len(first) == 3
    assert np.array_equal(first, packed_rows.fingerprints(words.copy()))
    for change in (0, 12_345, len(words) - 1):
        other = words.copy()
        other[change] ^= 1
        assert not np.array_equal(first, packed_rows.fingerprints(other))
    assert not np.array_equal(first, packed_rows.fingerprints(np.roll(words, 4)))
    assert len({packed_rows.fingerprints(np.zeros(n, np.uint8)).tobytes() for n in range(1, 40, 8)}) == 5


@pytest.mark.parametrize("m", [1, 2, 5, 70, 131])
def test_sums_over_a_packed_triangle_and_what_they_scale(m):
    rng = np.random.default_rng(m)
    T, Z, scale = np.tril(rng.random((m, m))), rng.random((m, m)), rng.random(m)
    h, e, _ = layout.layout(m)
    P, own, both, before = layout.rectangle(layout.pack(T + np.tril(T, -1).T), m), np.zeros(m), np.zeros(m), Z.copy()
    for lo, hi in ((0, m // 2), (m // 2, m)):
        packed_rows.triangle_sums(P, h, e, Z, lo, hi, own, both)
        packed_rows.subtract_triangle(P, h, e, scale, Z, lo, hi)
    np.testing.assert_allclose(own, (T**2).sum(axis=0))
    np.testing.assert_allclose(both, (T * before).sum(axis=0))
    np.testing.assert_allclose(Z, before - T * scale)
