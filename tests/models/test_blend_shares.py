"""The choice of shares: candidates hold every list, and the accuracy is the one od.evaluate measures."""

import numpy as np

import offdiag as od
from offdiag.data.hiding import hide
from offdiag.models import blend_shares


def setting(n=300, m=150):
    X = od.synthetic.interactions(n, m, 20 * n, seed=4).matrix
    held = hide(X, 0.2, 1)
    parts = [od.EASE(l2=20.0).fit(held.histories), od.Popularity().fit(held.histories)]
    return held, parts


def test_the_accuracy_of_a_trial_is_that_of_the_blend():
    held, parts = setting()
    found = blend_shares.candidates(od.Blend.of(parts).weights_, held.histories, held.targets)
    for shares in ([1.0, 0.0], [1.0, 0.35], [0.2, 1.0]):
        expected = od.evaluate(od.Blend.of(parts, shares), held, "ndcg@20").mean["ndcg@20"]
        np.testing.assert_allclose(blend_shares.accuracy(found, np.array(shares)), expected, rtol=1e-6)


def test_the_best_shares_are_at_least_as_good_as_any_tried():
    held, parts = setting()
    found = blend_shares.candidates(od.Blend.of(parts).weights_, held.histories, held.targets)
    best = blend_shares.accuracy(found, blend_shares.best_shares(found))
    for value in blend_shares.VALUES:
        assert best >= blend_shares.accuracy(found, np.array([1.0, value]))
    assert best >= blend_shares.accuracy(found, np.array([0.0, 1.0]))


def test_users_who_are_not_asked_keep_all_their_items(monkeypatch):
    monkeypatch.setattr(blend_shares, "USERS", 40)
    X = od.synthetic.interactions(100, 30, 900, seed=5).matrix
    users = blend_shares._sample(X, 0)
    train, histories, targets = blend_shares._hide_some(X, users, 0)
    assert len(users) == histories.shape[0] == 40
    assert train.shape == X.shape
    assert train.nnz + targets.nnz == X.nnz
    assert (histories + targets != X[users]).nnz == 0
