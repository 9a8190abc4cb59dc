import numpy as np

from offdiag._kernels import order_counts
from offdiag.gramian import layout


def test_tails_sum_the_squares_of_what_follows():
    indptr, step = np.array([0, 0, 1, 5]), np.array([9.0, 0.1, 0.5, 0.25, 0.125])
    out = np.full(5, -1.0)
    order_counts.tails(indptr, step, out)
    last = 1.0  # of the source that ends with the last event but one
    middle = 1 + 0.25**2 * last
    assert out.tolist() == [-1.0, 1 + 0.5**2 * middle, middle, last, -1.0]


def test_folding_adds_both_triangles_and_leaves_the_old_matrix():
    for m in (1, 2, 5, 66, 131):
        rng = np.random.default_rng(m)
        G = rng.random((m, m))
        G += G.T
        packed, U = layout.pack(G), rng.random((m, m))
        h, e, _ = layout.layout(m)
        both = U.copy()
        for lo, hi in ((0, m // 2), (m // 2, m)):
            order_counts.fold(layout.rectangle(packed, m), h, e, 0.5, both, lo, hi)
        np.testing.assert_allclose(layout.unpack(packed, m), 0.5 * G + U + U.T)
        np.testing.assert_allclose(both, 0.5 * G)
