"""Products of sharded users are those of all users, whatever the weights, values and number of pieces."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster import products
from offdiag.cluster.counting import totals
from offdiag.cluster.placement import Homes
from offdiag.cluster.products import ShardedProduct
from offdiag.cluster.stages import Stage
from tests.fixtures.partitions import cut, table, write_parts
from tests.laws import oracles

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")

NEAR = {"float32": 1e-5, "float64": 1e-13}


@pytest.mark.parametrize(("dtype", "power", "piece"), [("float32", 0.5, 1 << 22), ("float64", 0.0, 100)])
def test_the_product_is_that_of_the_whole_gram(client, tmp_path, monkeypatch, dtype, power, piece):
    monkeypatch.setattr(products, "PIECE", piece)  # V in one piece, or one for each worker
    files = write_parts(tmp_path / "parts", cut(table(2000), 3))
    parts = od.cluster.read(files, value="value", client=client)
    X = parts.gather().matrix.toarray().astype(np.float64)
    work, homes = Stage(client, "multiplying"), Homes.of(client)
    scale = totals(parts, power).scale
    product = ShardedProduct.of(work, parts, power, scale, dtype, 4, homes)
    G = oracles.gram(X, power)
    V = np.random.default_rng(0).standard_normal((len(G), 5)).astype(dtype)
    near = {"rtol": NEAR[dtype], "atol": NEAR[dtype] * np.abs(G).max()}
    np.testing.assert_allclose(product(V), G @ V, **near)
    np.testing.assert_allclose(product.g, np.diag(G), **near)
    assert product(V).dtype == product.dtype == dtype
    with pytest.raises(ValueError, match="expected 90 rows"):
        product(V[:-1])
