"""The chain against counts in plain Python."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from tests.fixtures.ordered_logs import HISTORIES, events


def probability(histories, last, item, smoothing):
    follows = defaultdict(Counter)
    for one in histories:
        for j, i in pairwise(one):
            follows[j][i] += 1
    everything = [item for one in histories for item in one]
    total = follows[last].total() + smoothing
    expected = follows[last][item] + smoothing * everything.count(item) / len(everything)
    return expected / total if total else 0.0


@given(HISTORIES, st.sampled_from([0.0, 0.5, 3.0]))
def test_scores_are_the_smoothed_shares_of_what_followed(histories, smoothing):
    chain = od.MarkovChain(smoothing=smoothing, dtype="float64").fit(events(histories))
    items = chain.item_ids_.tolist()
    asked = [one for one in histories if one]
    expected = [[probability(histories, one[-1], item, smoothing) for item in items] for one in asked]
    np.testing.assert_allclose(chain.predict(asked), expected, atol=1e-14)


def test_only_the_last_item_counts_but_all_are_excluded():
    chain = od.MarkovChain().fit(events([[0, 1, 2, 3], [3, 1, 4], [0, 1, 2]]))
    long, short = chain.predict([[0, 3, 1]]), chain.predict([[1]])
    np.testing.assert_array_equal(long, short)
    assert chain.recommend([[0, 3, 1]], k=9).to_dicts()[0]["item"] == 2
    assert set(chain.recommend([[0, 3, 1]], k=9).items.compressed().tolist()) == {2, 4}


def test_a_saved_chain_gives_the_same_lists(tmp_path):
    X = od.synthetic.interactions(100, 20, 900, times=True, seed=0)
    chain = od.MarkovChain().fit(X)
    chain.save(tmp_path / "chain.od")
    again = od.load(tmp_path / "chain.od")
    assert again.recommend(X, k=5).indices.tobytes() == chain.recommend(X, k=5).indices.tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones((3, 3)), "MarkovChain learns from the order of events, but received ndarray"),
        (od.read({"user": [0, 0], "item": [1, 2]}), "received Interactions without times"),
        (events([[0], [1]]), "two events or more"),
    ],
)
def test_data_without_an_order_is_refused(data, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.MarkovChain().fit(data)


def test_a_negative_smoothing_is_refused():
    with pytest.raises(od.OffdiagError, match="smoothing"):
        od.MarkovChain(smoothing=-1.0).fit(events([[0, 1]]))
