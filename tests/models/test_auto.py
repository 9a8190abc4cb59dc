"""What "auto" chooses, and how it compares with a search."""

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import offdiag as od
from offdiag.models import auto
from tests.laws.strategies import interactions


@given(interactions(values="counts"))
def test_auto_l2_is_positive_and_follows_the_scale_of_the_data(X):
    one = auto.unseen_user_l2(X, 0.5)
    assert np.isfinite(one)
    assert one > 0
    assert auto.unseen_user_l2(sparse.csr_array(X * np.float32(4)), 0.5) == pytest.approx(16 * one, rel=0.05)


def test_auto_finds_the_strength_that_works_best_on_users_it_has_not_seen():
    """Against a search on the held-out users themselves, auto loses less than two per cent."""
    inter = od.synthetic.interactions(1500, 200, 40_000, seed=3)
    split = od.split.strong(inter, held_out=0.3, seed=0)

    def score(**settings):
        return od.evaluate(od.EDLAE(**settings).fit(split.train), split.test, metrics=["ndcg@100"]).mean["ndcg@100"]

    searched = max(score(dropout=p, l2=l2) for p in (0.25, 0.5, 0.75) for l2 in (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0))
    assert score() > 0.98 * searched
    assert score(l2=0.1, dropout=0.0) < 0.95 * searched, "the data must be one where the setting matters"


def test_the_gram_alone_leads_to_similar_settings():
    X = od.synthetic.interactions(1500, 200, 40_000, seed=3)
    exact = od.EDLAE().fit(X).settings_
    guess = od.EDLAE().fit_gram(od.gram(X, exact["user_power"])).settings_
    assert guess["dropout"] == exact["dropout"]
    assert 1 / 4 < guess["l2"] / exact["l2"] < 4


def test_given_settings_are_kept_and_the_others_chosen():
    X = od.synthetic.interactions(400, 60, 6000, seed=0)
    assert od.EDLAE(l2=3.0, dropout=0.2, user_power=0.1).fit(X).settings_ == {
        "dropout": 0.2,
        "l2": 3.0,
        "kept_weight": 0.0,
        "user_power": 0.1,
        "item_power": 0.0,
        "propensity_power": 0.0,
        "dislike_weight": 0.0,
    }
    more, less = od.EDLAE(dropout=0.8).fit(X).settings_, od.EDLAE(dropout=0.1).fit(X).settings_
    assert more["l2"] < less["l2"]
    assert od.EASE().fit(X).settings_["l2"] == pytest.approx(
        1.3 / (1.3 - 0.55 * 0.65) * od.EDLAE().fit(X).settings_["l2"]
    )
