"""The map of the small problem, point by point: the metric of a fit, and the error of users left out."""

import numpy as np
import pytest

import offdiag as od
from offdiag.tuning import screening
from offdiag.tuning.trial_runner import Bench
from tests.laws import oracles


@pytest.fixture
def bench(split, little):
    return Bench(split.train, split.validation, "ndcg@10")


@pytest.mark.parametrize("model", [od.EASE, od.DLAE, od.EDLAE, od.RDLAE])
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_the_map_shows_what_fitting_the_small_problem_would(model, power, bench):
    """Every point of the map, against a model fitted to the same part of the Gram with the same settings."""
    points = list(screening._map(model, bench, {}, power, 40.0))
    assert len(points) >= 7
    for settings, value, _ in points:
        direct = bench.glance(model(**settings))
        assert value == pytest.approx(direct.mean["ndcg@10"], abs=2e-3)
    values = [value for _, value, _ in points]
    assert max(values) > min(values) + 0.01, "settings must matter here"


def test_the_error_of_the_map_is_that_of_fits_without_each_user(split, bench):
    points = list(screening._map(od.EDLAE, bench, {}, 0.5, 40.0))
    X = split.train.matrix.toarray().astype(np.float64)
    weight = oracles.user_weights((X > 0).sum(axis=1), 0.5)
    items = bench.small.items
    G = ((X * weight[:, None]).T @ X)[np.ix_(items, items)]
    users = [u for u in bench.small.rows if X[u, items].any()]
    for settings, _, error in points[::5]:
        H = G + np.diag(oracles.penalty(G, settings["dropout"], settings["l2"]))
        errors = oracles.left_out_errors(H, X[np.ix_(users, items)], weight[users])
        assert error == pytest.approx(np.mean(errors), rel=1e-3)
