"""Beyond 65,535 items a packed matrix has more than 2³¹ numbers; memory that nobody writes to costs nothing here."""

import mmap
import sys

import numpy as np
import pytest
from scipy import sparse

from offdiag.gramian import layout, packed
from offdiag.solvers import blas, lapack
from offdiag.weights import Packed

WIDE = 2**24  # numbers from one packed row to the next
LARGE = 70_001
NORESERVE = 0x4000  # mmap.MAP_NORESERVE, from Python 3.13


def untouched(n, dtype):
    """Zeros of which only the pages that are written take memory."""
    if sys.platform == "win32":
        pytest.skip("this system reserves memory before it is written to")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (NORESERVE if sys.platform == "linux" else 0)
    try:
        return np.frombuffer(mmap.mmap(-1, n * np.dtype(dtype).itemsize, flags=flags), dtype=dtype)
    except OSError:
        pytest.skip("this system grants no more addresses than it has memory")


def problem(m, dtype):
    A = np.random.default_rng(m).standard_normal((m, m))
    return (A @ A.T / m + np.eye(m)).astype(dtype), np.random.default_rng(1).standard_normal((m, 3)).astype(dtype)


def everything(values, m, V):
    """What BLAS and LAPACK make of a packed matrix."""
    found = [blas.symmetric_product(values, V)]
    blas.add_outer(values, V, 0.5)
    assert lapack.pftrf(values, m) == 0
    for transposed in (False, True):
        W = V.copy()
        lapack.tfsm(values, W, transposed=transposed)
        blas.triangular_product(values, W, transposed=not transposed)
        found.append(W)
    assert lapack.pftri(values, m) == 0  # begins with all of tftri
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [400, 401])
def test_blocks_billions_of_numbers_apart_are_solved_alike(m, dtype, monkeypatch):
    """Rows of 16 million numbers give a small matrix the offsets of one of 80,000 items."""
    A, V = problem(m, dtype)
    every, near = np.arange(m), layout.pack(A)
    expected = everything(near, m, V)
    h, e, _ = layout.layout(m)
    far = untouched((h + e) * WIDE, dtype)
    monkeypatch.setattr(layout, "layout", lambda _: (h, e, WIDE))
    monkeypatch.setattr(layout, "size", lambda _: (h + e) * WIDE)
    assert len(far) > 2**31
    places = layout.positions(m, every, every)
    assert places.max() > 2**31
    far[places] = A
    found = everything(far, m, V)
    for mine, theirs in zip(found, expected, strict=True):
        assert np.array_equal(mine, theirs)
    inverse = far[places]
    monkeypatch.undo()
    assert np.array_equal(inverse, layout.unpack(near, m))


@pytest.mark.parametrize("m", [70_000, LARGE])
def test_places_of_a_large_matrix_are_counted_in_64_bits(m):
    h, e, ld = m - m // 2, 1 - m % 2, m + 1 - m % 2
    i, j = np.array([m - 1, h, 0, h - 1]), np.array([h - 1, m - 1, 0, h])
    expected = [(h - 1) * ld + m - 1 + e, (m - h - e) * ld, e, (h - 1) * ld + h + e]
    found = layout.positions(m, i, j).diagonal()
    assert found.tolist() == expected
    assert found.max() == layout.size(m) - 1 > 2**31
    assert layout.diagonal_positions(m)[[0, h - 1, h, m - 1]].tolist() == [
        e, (h - 1) * ld + h - 1 + e, (1 - e) * ld, (m - h - e) * ld + m - 1 - h,
    ]  # fmt: skip


def test_pairs_of_a_large_catalogue_are_counted_and_read_back():
    items = np.array([3, 34_998, 35_002, 70_000])
    X = sparse.csr_array((np.ones(8), np.tile(items, 2), [0, 4, 8]), shape=(2, LARGE))
    buffer = untouched(layout.size(LARGE), np.float32)  # counts write only where pairs are; other values, everywhere
    counts, sums = packed._accumulate(X, np.ones(2), buffer, None)
    G = packed.Gram(buffer, np.array([0, 0, 0, 0, 2]), counts, sums)
    assert np.array_equal(G.part(items), np.full((4, 4), 2.0))
    assert G.row(70_000).sum() == 8.0
    weights = Packed(buffer, np.ones(LARGE, np.float32), np.zeros(LARGE, np.float32))
    scores = (X[:1] @ weights)[0]
    assert scores[items].tolist() == [6.0] * 4
    assert np.count_nonzero(scores) == 4
