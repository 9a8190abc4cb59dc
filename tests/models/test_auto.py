import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.models import auto
from offdiag.solvers import leave_one_out
from tests.laws.strategies import interactions


def refit_loss(X, weight, l2):
    """The definition: for each user, EASE weights without that user predict each of their items from the others."""
    m = X.shape[1]
    total = []
    for u, x in enumerate(X):
        others = np.arange(len(X)) != u
        G = (X[others].T * weight[others]) @ X[others]
        error = 0.0
        for i in range(m):
            rest = np.arange(m) != i
            b = np.linalg.solve(G[np.ix_(rest, rest)] + l2 * np.eye(m - 1), G[rest, i])
            error += (x[i] - x[rest] @ b) ** 2
        total.append(error / (x @ x))
    return float(np.mean(total))


@pytest.mark.parametrize("l2", [0.5, 4.0, 60.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_equals_refitting_without_each_user(l2, weighted):
    rng = np.random.default_rng(0)
    X = (rng.random((25, 6)) < 0.5).astype(np.float64)
    X[:, 0] = 1  # no empty row
    weight = rng.random(25) + 0.5 if weighted else np.ones(25)
    G = (X.T * weight) @ X
    assert leave_one_out.user_loss(G, X.astype(np.float32), weight)(l2) == pytest.approx(
        refit_loss(X, weight, l2), rel=1e-4
    )


@given(st.floats(-3.4, 11.4))  # half a step from either end two grid points tie, and the end itself is the answer
def test_the_minimum_of_a_parabola_in_log_l2_is_found(where):
    found = leave_one_out.minimum(lambda l2: (np.log2(l2 / 7.0) - where) ** 2, 7.0)
    assert found == pytest.approx(7.0 * 2.0**where, rel=1e-6)


def test_a_loss_that_only_falls_ends_at_the_edge():
    assert leave_one_out.minimum(lambda l2: -l2, 1.0) == 2.0**12
    assert leave_one_out.minimum(lambda l2: l2, 1.0) == 2.0**-4


@given(interactions(values="counts"))
def test_auto_settings_are_finite_positive_and_follow_the_scale_of_the_data(X):
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


def test_what_the_user_sets_is_kept_and_the_rest_follows():
    X = od.synthetic.interactions(400, 60, 6000, seed=0)
    assert od.EDLAE(l2=3.0, dropout=0.2, user_power=0.1).fit(X).settings_ == {
        "dropout": 0.2,
        "l2": 3.0,
        "kept_weight": 0.0,
        "user_power": 0.1,
        "item_power": 0.0,
        "propensity_power": 0.0,
    }
    more, less = od.EDLAE(dropout=0.8).fit(X).settings_, od.EDLAE(dropout=0.1).fit(X).settings_
    assert more["l2"] < less["l2"]
    assert od.EASE().fit(X).settings_["l2"] == pytest.approx(
        1.3 / (1.3 - 0.55 * 0.65) * od.EDLAE().fit(X).settings_["l2"]
    )
