import numpy as np
import pytest

from offdiag._kernels import order_counts
from offdiag.gramian import layout


def example(m):
    rng = np.random.default_rng(m)
    G = rng.random((m, m))
    return layout.pack(G + G.T), G + G.T, rng.random((m, m)), layout.layout(m)[:2]


@pytest.mark.parametrize("m", [1, 2, 5, 66, 131, 300])
@pytest.mark.parametrize("rows", [1, 3, 64, 200])
def test_folding_adds_what_belongs_to_other_packed_rows(m, rows):
    packed, G, U, (h, e) = example(m)
    for top in range(0, m, rows):
        bottom = min(top + rows, m)
        for lo, hi in ((0, m // 3), (m // 3, m)):
            order_counts.fold(layout.rectangle(packed, m), h, e, U[top:bottom], top, bottom, lo, hi)
    i, k = np.indices((m, m))
    elsewhere = np.where(i < h, k < i, (k < h) | (k > i))  # the rest of row i is in the packed row of item i
    added = np.where(elsewhere, U, 0)
    np.testing.assert_array_equal(layout.unpack(packed, m), G + added + added.T)


@pytest.mark.parametrize("m", [1, 2, 5, 66, 131])
def test_spreading_scales_a_packed_matrix_and_unpacks_it(m):
    packed, G, K, (h, e) = example(m)
    for lo, hi in ((0, m // 2), (m // 2, m)):
        order_counts.spread(layout.rectangle(packed, m), h, e, 0.5, K, lo, hi)
    np.testing.assert_array_equal(layout.unpack(packed, m), 0.5 * G)
    np.testing.assert_array_equal(K, 0.5 * G)
