import pytest

import offdiag as od
from tests.fixtures.groceries import groceries


def test_allow_and_block_lists_hold():
    _, model = groceries()
    found = model.recommend([["apple"]], k=3, allow=["date", "cheese"])
    assert set(found.items[0].tolist()) == {"date", "cheese", None}
    assert found.indices[0].tolist().count(-1) == 1
    assert "date" not in model.recommend([["apple"]], k=4, block=["date"]).items[0]
    assert model.recommend([["apple"]], k=4, allow=[]).indices.tolist() == [[-1] * 4]


@pytest.mark.parametrize("ids", [[["date"]], "date", 3, iter(["date"])])
def test_a_block_list_of_another_form_is_refused_rather_than_half_obeyed(ids):
    _, model = groceries()
    with pytest.raises(od.OffdiagError, match="block takes"):
        model.recommend([["apple"]], block=ids)
