"""The largest entries of rows, and small systems of kernels."""

import numpy as np
import pytest
from scipy import sparse

from offdiag._kernels import nearest_items


@pytest.mark.parametrize("size", [1, 3, 7, 30])
def test_the_largest_entries_are_those_of_a_stable_sort(size):
    rng = np.random.default_rng(size)
    rows = rng.integers(-2, 6, (40, 30)).astype(float)  # many are equal, many are not above 0
    sets, products = np.empty((40, size), dtype=np.int64), np.empty((40, size))
    nearest_items.largest(rows, sets, products)
    for row, places, values in zip(rows, sets, products, strict=True):
        order = np.argsort(-row, kind="stable")[:size]
        expected = np.sort(order[row[order] > 0])
        assert places[: len(expected)].tolist() == expected.tolist()
        assert values[: len(expected)].tolist() == row[expected].tolist()
        assert (places[len(expected) :] == -1).all()
        assert not values[len(expected) :].any()


def test_similar_rows_are_those_of_the_dense_product():
    rng = np.random.default_rng(0)
    f, F = (sparse.csr_array(rng.random((n, 8)) * (rng.random((n, 8)) < 0.5)) for n in (6, 9))
    by_feature, out = F.tocsc(), np.full((3, 9), np.nan)
    columns = by_feature.indptr, by_feature.indices, by_feature.data
    nearest_items.similar(f.indptr, f.indices, f.data, *columns, 2, 5, out)
    np.testing.assert_allclose(out, (f @ F.T).toarray()[2:5], atol=1e-12)


@pytest.mark.parametrize("power", [1, 2, 4])
def test_mixtures_solve_their_systems(power):
    rng = np.random.default_rng(power)
    rows, own = rng.random((5, 7, 4)), rng.random((5, 4))
    rows[2] = 0  # no neighbour at all
    grams, products = rows @ rows.transpose(0, 2, 1), (rows @ own[:, :, None])[:, :, 0]
    out = np.full((5, 7), np.nan)
    nearest_items.solve(grams, products, power, 0.1, 1, 5, out)
    assert np.isnan(out[0]).all()
    expected = np.linalg.solve(grams[1:] ** power + 0.1 * np.eye(7), products[1:, :, None] ** power)[:, :, 0]
    np.testing.assert_allclose(out[1:], expected, rtol=1e-8, atol=1e-12)
