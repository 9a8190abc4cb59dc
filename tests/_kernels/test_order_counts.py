import numpy as np
import pytest

from offdiag._kernels import order_counts
from offdiag.gramian import layout


def example(m):
    rng = np.random.default_rng(m)
    G = rng.random((m, m))
    return layout.pack(G + G.T), G + G.T, rng.random((m, m)), layout.layout(m)[:2]


@pytest.mark.parametrize("m", [1, 2, 5, 66, 131])
@pytest.mark.parametrize("rows", [1, 3, 64, 200])
def test_folding_adds_both_triangles_a_band_of_rows_at_a_time(m, rows):
    packed, G, U, (h, e) = example(m)
    for top in range(0, m, rows):
        bottom = min(top + rows, m)
        for lo, hi in ((0, m // 3), (m // 3, m)):
            order_counts.fold(layout.rectangle(packed, m), h, e, U[top:bottom], top, bottom, lo, hi)
    np.testing.assert_array_equal(layout.unpack(packed, m), expected(G, U))


def expected(G, U):
    """Each entry gets the term of the upper row first."""
    upper = (np.triu(G) + np.triu(U)) + np.tril(U).T
    return np.triu(upper) + np.triu(upper, 1).T


@pytest.mark.parametrize("m", [1, 2, 5, 66, 131])
def test_spreading_scales_a_packed_matrix_and_unpacks_it(m):
    packed, G, K, (h, e) = example(m)
    for lo, hi in ((0, m // 2), (m // 2, m)):
        order_counts.spread(layout.rectangle(packed, m), h, e, 0.5, K, lo, hi)
    np.testing.assert_array_equal(layout.unpack(packed, m), 0.5 * G)
    np.testing.assert_array_equal(K, 0.5 * G)
