"""Features by item: rows in any order, weights, coverage, and a form for files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.data.features import check_features
from tests.fixtures.mistakes import refused

SHOP = {
    "item": ["a", "b", "c"], "brand": ["Nokia", "Sony", None], "colour": ["red", "blue", "red"],
    "price": [1.0, 2.0, 3.0], "about": ["small and red", "blue", "large"], "e": [[1.0, 2.0], [3.0, 1.0], [0.0, 0.0]],
}  # fmt: skip
COLUMNS = {"categories": ["brand", "colour"], "numbers": "price", "text": "about", "vectors": "e"}


@pytest.fixture
def features():
    return od.read_features(SHOP, **COLUMNS)


@given(st.lists(st.sampled_from(["a", "b", "c", "z"]), max_size=8))
def test_rows_follow_the_items_asked_for(items):
    features = od.read_features(SHOP, **COLUMNS)
    rows = features.rows(items).toarray()
    for item, row in zip(items, rows, strict=True):
        own = features.select([item]).matrix.toarray()
        assert (row == own[0]).all() if len(own) else not row.any()


def test_weights_change_the_share_of_a_column_and_not_the_length(features):
    heavy = features.with_weights({"brand": 3.0, "e": 0.0})
    assert heavy.weights == {"brand": 3.0, "colour": 1.0, "about": 1.0, "price": 1.0, "e": 0.0}
    again = od.read_features(SHOP, **COLUMNS, weights={"brand": 3.0, "e": 0.0})
    np.testing.assert_allclose(heavy.matrix.toarray(), again.matrix.toarray(), atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(heavy.matrix.toarray(), axis=1)[:2], 1.0)
    back = heavy.with_weights({"brand": 1.0})
    assert back.weights["brand"] == 1.0
    with refused("weight 0 cannot be weighted again"):
        heavy.with_weights({"e": 1.0})
    with refused("the weight of brand must be a number"):
        features.with_weights({"brand": -1.0})
    with refused("a weight above 0"):
        features.with_weights(dict.fromkeys(features.weights, 0.0))
    with refused("expected weights by column"):
        features.with_weights(2.0)


@pytest.mark.parametrize("source", [SHOP, SHOP | {"item": [7, 8, 9]}])
def test_plain_arrays_hold_everything(source):
    for rank in (None, 1):
        features = od.read_features(source, **COLUMNS, text_rank=rank, weights={"brand": 2.0})
        arrays = {name: array.copy() for name, array in features.arrays().items()}
        back = od.Features.from_arrays(arrays, features.about())
        assert (back.matrix != features.matrix).nnz == 0
        assert (back.items == features.items).all()
        assert (back.names, back.weights) == (features.names, features.weights)
        again = od.read_features(source, like=back)
        np.testing.assert_allclose(again.matrix.toarray(), features.matrix.toarray(), atol=1e-15)


def test_arrays_that_do_not_fit_are_rejected(features):
    arrays, about = features.arrays(), features.about()
    wrong = {
        "data": arrays["data"] * np.nan,
        "indices": arrays["indices"] + 1_000,
        "items.offsets": arrays["items.offsets"][::-1].copy(),
        "0.idf": arrays["0.idf"][:1],
        "2.buckets": arrays["2.buckets"][::-1].copy(),
        "3.knots": arrays["3.knots"][::-1].copy(),
        "4.places": arrays["4.places"] + 100,
    }
    for name, array in wrong.items():
        with pytest.raises(ValueError, match=r"."):
            od.Features.from_arrays(arrays | {name: array}, about)


def test_coverage_names_items_without_features(features):
    assert features.coverage(np.array(["b", "x"])).notes == (
        "1 of 2 items has no row in the features: 'x'",
        "2 rows are of items that the model does not know",
    )
    assert check_features(features, np.array(["b", "x"])).n_covered == 1
    with refused("received none of them but 'a', 'b', 'c'"):
        check_features(features, np.array(["x"]))
    with refused("make them with od.read_features"):
        check_features(sparse.csr_array((3, 2)), np.array(["x"]))


def test_a_table_lists_what_each_item_has(features):
    table = features.select(["a"]).to_dicts()
    assert {row["feature"] for row in table} >= {"brand=Nokia", "colour=red", "price=1"}
    assert len(features) == 3
    assert repr(features.select(["a"])).startswith("Features(1 item: brand (2 features)")


def test_a_notebook_shows_kinds_and_notes(features):
    page = features._repr_html_()
    assert "brand (category)" in page
    assert "brand: 1 of 3 items has none" in page
    bold = od.read_features({"item": [1, 2], "t": ["<b>x</b>", "y"]}, categories=["t"])
    assert "<b>x" not in bold._repr_html_()
