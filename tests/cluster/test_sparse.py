"""Sparse models of a cluster are those of one machine, byte for byte."""

import numpy as np
import polars as pl
import pytest

import offdiag as od
from tests.fixtures.partitions import same_sparse, sparse_model, table, write_parts

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


SPARSE = [
    {},
    {"block_bytes": 60_000},
    {"max_bytes": 30_000, "user_power": 0.0},
    {"item_power": 0.3, "propensity_power": 0.2, "dtype": "float64"},
    {"neighbours": 10_000, "block_bytes": "auto", "weight_power": 1.2},
]


@pytest.mark.parametrize("settings", SPARSE, ids=str)
def test_sparse_columns_are_the_same_bytes(client, settings):
    inter = od.synthetic.interactions(900, 300, 12_000, seed=5)
    here = sparse_model(**settings).fit(inter)
    same_sparse(od.cluster.fit_sparse(sparse_model(**settings), inter, client=client), here)


def test_sparse_columns_of_ratings_do_not_depend_on_the_partitions(client, tmp_path):
    frame = table()
    files = write_parts(tmp_path / "hashed", [frame.filter(pl.col("user") % 3 == r) for r in range(3)])
    here = sparse_model().fit(od.read(files, value="value"))
    there = od.cluster.read(files, value="value", client=client)
    same_sparse(od.cluster.fit_sparse(sparse_model(), there, client=client), here)


def test_sparse_columns_of_items_without_neighbours_are_empty(client):
    X = np.zeros((30, 6), dtype=np.float32)
    X[:20, 0] = X[10:, 3] = X[25, 4] = 1  # items 1, 2 and 5 have no users
    for matrix in (X, X[:, :1]):
        inter = od.read(matrix)
        settings = {"neighbours": 3, "user_power": 0.0, "block_bytes": 1 << 20}
        here = sparse_model(**settings).fit(inter)
        same_sparse(od.cluster.fit_sparse(sparse_model(**settings), inter, client=client), here)


STAGES = ["ordering items", "estimating sizes", "counting pairs", "copying popular items", "solving columns"]


def test_a_worker_killed_in_any_stage_changes_no_byte(client, killing):
    inter = od.synthetic.interactions(900, 300, 12_000, seed=5)
    calm, disturbed = killing(
        STAGES, lambda: od.cluster.fit_sparse(sparse_model(block_bytes=60_000), inter, client=client)
    )
    assert len(disturbed) == len(STAGES)
    for model in disturbed:
        same_sparse(model, calm)
