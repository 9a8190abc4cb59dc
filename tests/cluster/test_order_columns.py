"""Columns of a NextItem with neighbours are those of one machine, byte for byte."""

import pytest

import offdiag as od
from tests.fixtures.ordered_histories import SMALL, chains
from tests.fixtures.partitions import same_arrays

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


@pytest.mark.parametrize(
    "kind",
    [
        {"user_power": 0.5, "block_bytes": 4_000},
        {"dtype": "float64", "mix": 0.0, "repeats": True, "targets": "later", "window": 3},
        {"mix": 0.6, "decay": "auto", "half_life": 2.5, "neighbours": 1_000},
    ],
    ids=str,
)
def test_columns_of_neighbours_are_the_same_bytes(client, kind):
    inter, settings = chains(), SMALL | {"neighbours": 5} | kind
    here = od.NextItem(**settings).fit(inter)
    there = od.cluster.fit_next_item(od.NextItem(**settings), inter, client=client)
    same_arrays(there.weights_, here.weights_, "indptr indices data")
    same_arrays(there, here, "popularity_ item_ids_")
    assert (there.settings_, there.n_users_) == (here.settings_, here.n_users_)


def test_features_and_neighbours_do_not_go_together(client, mistake):
    inter = chains()
    features = od.read_features({"item": inter.item_ids, "kind": [f"k{i % 3}" for i in range(inter.n_items)]})
    model = od.NextItem(**SMALL | {"neighbours": 5})
    said = mistake(od.cluster.fit_next_item, model, inter, item_features=features, client=client)
    assert "item_features or neighbours" in said
