"""What trials share, which changes no answer, and the splits that can be tuned on."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.tuning import trial_runner
from offdiag.tuning.trial_runner import Bench, part_of
from tests.laws import oracles


def test_part_of_a_gram_is_the_gram_of_some_items(split):
    G = od.gram(split.train, 0.5)
    items = np.array([3, 5, 50, 51, 119])
    part = part_of(G, items)
    np.testing.assert_array_equal(part.toarray(), G.toarray()[np.ix_(items, items)])
    assert part.n_users == G.n_users
    np.testing.assert_array_equal(part.item_sums, G.item_sums[items])


def test_the_gram_is_counted_once_per_user_power(split, monkeypatch):
    counted = []
    original = trial_runner.gram
    monkeypatch.setattr(trial_runner, "gram", lambda X, power, **kw: counted.append(power) or original(X, power, **kw))
    od.tune(od.EDLAE, split, trials=15)
    assert len(counted) == len(set(counted)) <= 5


def test_the_left_out_error_is_that_of_fitting_without_the_user(split, monkeypatch):
    monkeypatch.setattr(trial_runner, "LEFT_OUT", 12)
    bench = Bench(split.train, split.validation, "ndcg@10")
    model = od.EDLAE(dropout=0.4, l2=20.0, user_power=0.5, dtype="float64").fit(split.train)
    found = bench.left_out_error(model)
    X = split.train.matrix.toarray().astype(np.float64)
    n_u = (X > 0).sum(axis=1)
    weight = oracles.user_weights(n_u, 0.5)
    G = (X * weight[:, None]).T @ X
    H = G + np.diag(oracles.penalty(G, 0.4, 20.0))
    users = np.flatnonzero(n_u >= 2)
    users = users[np.linspace(0, len(users) - 1, 12).astype(int)]
    assert found == pytest.approx(np.mean(oracles.left_out_errors(H, X[users], weight[users])), rel=1e-4)
    worse = od.EDLAE(dropout=0.0, l2=0.01, user_power=0.5).fit(split.train)
    assert bench.left_out_error(worse) > found
    assert bench.left_out_error(od.EDLAE(kept_weight=0.5).fit(split.train)) is None
    assert bench.left_out_error(od.Popularity().fit(split.train)) is None


def test_a_split_without_validation_or_targets_is_refused(split):
    nothing = replace(split.validation, targets=sparse.csr_array(split.validation.targets.shape))
    for wrong, message in [
        (od.split.weak(od.synthetic.interactions(100, 30, 900, seed=0)), "no validation users to tune on"),
        (split.train, "expected a split"),
        (SimpleNamespace(train=split.train, validation=nothing), "none of the validation users has a target"),
    ]:
        with pytest.raises(od.OffdiagError, match=message):
            od.tune(od.EDLAE, wrong)
