import numpy as np
import pytest
from hypothesis import given

import offdiag as od
from tests.fixtures.groceries import fitted, groceries
from tests.laws.strategies import interactions


@given(interactions(max_users=20, max_items=12))
def test_a_batch_gives_the_same_lists_as_one_by_one(X):
    model = fitted(X)
    together = model.recommend(X, k=5)
    for u in range(X.shape[0]):
        alone = model.recommend(X[[u]], k=5)
        assert np.array_equal(alone.indices[0], together.indices[u])
        assert np.array_equal(alone.scores[0], together.scores[u])


def test_an_empty_history_gets_the_popular_items():
    inter, model = groceries()
    found = model.recommend([[]], k=4)
    assert found.items[0].tolist() == ["bread", "apple", "cheese", "date"]
    assert found.scores[0, 0] == pytest.approx(3 / inter.matrix.sum())
    assert model.recommend([[]], k=4, block=["bread"]).items[0].tolist() == ["apple", "cheese", "date", None]
    with pytest.warns(od.UnknownItemsWarning):
        assert model.recommend([["nothing known"]], k=1).items.tolist() == [["bread"]]


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True])
def test_k_must_be_a_positive_whole_number(k):
    _, model = groceries()
    with pytest.raises(od.OffdiagError, match="k must be"):
        model.recommend([["apple"]], k=k)


def test_k_beyond_the_catalogue_gives_every_item_once():
    _, model = groceries()
    found = model.recommend([["apple"]], k=1000)
    assert found.items.shape == (1, 4)
    assert sorted(found.items[0, :3].tolist()) == ["bread", "cheese", "date"]
    assert found.items[0, 3] is np.ma.masked
    assert [len(pairs) for pairs in found] == [3]
