"""Bands of the Gram: their sizes are estimated well, and they hold what one machine would count."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster import bands, shards
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Stage
from offdiag.gramian.user_weights import weights_of
from offdiag.solvers import gram_rows, popularity_order, support

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


def test_bands_hold_the_rows_of_one_machine_in_the_estimated_size(client):
    inter = od.synthetic.interactions(2_000, 500, 40_000, seed=3)
    X, homes, work = inter.matrix, Homes.of(client), Stage(client, "counting")
    parts = od.cluster.read(inter, client=client)
    known = shards.popularity(work, parts, 0.5)
    data = shards.spread(work, parts, known, 0.5, homes)
    sizes = bands.estimate(work, data, known, 4, homes)
    here = popularity_order.by_popularity(X, weights_of(np.diff(X.indptr), 0.5), known.rank)
    g = shards.diagonal(work, data)
    np.testing.assert_array_equal(g, popularity_order.diagonal(here))
    H = 1.5 * g + 2.0
    stored, supports = bands.count(work, data, known, sizes, H, 15, "float32", homes, 20_000)
    expected = support.choose(here, H, 15, "float32")
    for name in ("ptr", "rows", "values", "parent", "below"):
        np.testing.assert_array_equal(getattr(supports, name), getattr(expected, name), err_msg=name)
    assert len(stored.ranges) > bands.TASKS * len(homes)  # as many as keep the pieces of a band small
    exact = gram_rows.bytes_of_rows(expected.below, 4).sum()
    assert 0.85 * exact < sizes.stored.sum() < 1.15 * exact
    held = np.bincount(stored.homes, weights=[sizes.stored[lo:hi].sum() for lo, hi in stored.ranges])
    assert held.max() < 1.1 * held.min()
