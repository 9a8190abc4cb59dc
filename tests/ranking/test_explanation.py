import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from tests.fixtures.groceries import fitted, groceries
from tests.laws.strategies import interactions


@given(interactions(min_items=2), st.integers(0, 100))
def test_contributions_sum_to_the_score_exactly_in_any_order(X, seed):
    model = fitted(X)
    user = int(np.argmax(np.diff(X.indptr)))
    item = seed % X.shape[1]
    reasons = model.explain(X[[user]], item)
    parts = reasons.contributions
    assert parts.sum() == reasons.score == sum(parts.tolist()) == sum(sorted(parts.tolist()))
    assert reasons.score == pytest.approx(float(model.predict(X[[user]])[0, item]), abs=1e-5)
    dense = model.weights_.toarray()
    np.testing.assert_allclose(parts, dense[reasons.items, item], atol=1e-7)
    assert (np.diff(np.abs(parts)) <= 0).all()


def test_contributions_of_long_histories_sum_exactly_in_float64():
    """Without the common grid, sums of 150 doubles depend on their order."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 160)) < 0.3).astype(np.float64) * rng.random((400, 160))
    model = fitted(X, dtype="float64")
    for item in range(150, 160):
        reasons = model.explain((rng.random((1, 160)) + 0.1) * (np.arange(160) < 150), item)
        parts = reasons.contributions
        assert parts.sum() == reasons.score == sum(parts.tolist()) == sum(parts[::-1].tolist()) == math.fsum(parts)


def test_one_history_with_times_may_be_given_as_it_is():
    _, model = groceries()
    dated = [("apple", 1), ("bread", 4)]
    one, other = (model.explain(given, "date", history_half_life=3) for given in (dated, [dated]))
    assert one.score == other.score
    assert dict(zip(one.items, one.age_weights, strict=True)) == {"apple": 0.5, "bread": 1.0}


def test_an_explanation_has_the_titles_of_the_catalogue():
    _, model = groceries()
    assert "title" not in model.explain(["apple"], "date").to_polars().columns
    titled = model.with_catalogue({"item": ["apple", "date"], "title": ["Apples", "Dates"]})
    reasons = titled.explain(["apple", "bread"], "date")
    assert {row["item"]: row["title"] for row in reasons.to_dicts()} == {"apple": "Apples", "bread": None}
    assert "Why Dates (date)" in reasons._repr_html_()


def test_explain_asks_for_one_history_and_a_known_item():
    _, model = groceries()
    with pytest.raises(od.OffdiagError, match="one history, received 2"):
        model.explain([["apple"], ["bread"]], "date")
    with pytest.raises(od.OffdiagError, match="no item 'eel'"):
        model.explain(["apple"], "eel")
    assert model.explain(["apple", "eel"], "date").unknown == ["eel"]
