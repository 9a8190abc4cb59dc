import numpy as np
import pytest

import offdiag as od
from tests.fixtures.groceries import groceries


def test_similar_items_are_what_a_history_of_that_item_leads_to():
    _, model = groceries()
    found = model.similar(["apple", "cheese"], k=2)
    assert np.array_equal(found.items, model.recommend([["apple"], ["cheese"]], k=2).items)
    assert model.similar("apple", k=9).items.shape == (1, 3)
    with pytest.raises(od.OffdiagError, match="no item 'eel'"):
        model.similar("eel")
