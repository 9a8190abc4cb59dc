"""Low-rank models and smooth parts of a cluster are those of one machine, as far as their problem determines them."""

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.partitions import same_arrays, sparse_model

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")

EXACT = {"dropout": 0.4, "l2": 30.0, "user_power": 0.5, "dtype": "float64"}
MODELS = [
    od.LowRankDLAE(rank=6, **EXACT),
    od.LowRankEDLAE(rank=6, iterations=15, **EXACT),
    od.LowRankEDLAE(rank=200, dropout=0.5, l2="auto"),  # as many dimensions as items
    od.WeightDecayLAE(rank=6, dtype="float64"),
    od.Spectral(rank=6, item_power=0.5, dtype="float64"),
]


@pytest.fixture(scope="module")
def inter():
    return od.synthetic.interactions(600, 80, 9_000, seed=2)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_low_rank_models_are_those_of_one_machine(client, inter, model):
    here = type(model)(**model.get_params() | {"products": "data"}).fit(inter)
    reports = []
    there = od.cluster.fit_low_rank(type(model)(**model.get_params()), inter, client=client, reports=reports)
    rounded = pytest.approx  # l2 left at "auto" is summed in another order
    assert there.settings_.keys() == here.settings_.keys()
    assert all(there.settings_[name] == (rounded(value, rel=1e-5) if name == "l2" else value)
               for name, value in here.settings_.items())  # fmt: skip
    assert (there.stopped_, there.n_users_, there.counts_users_) == (here.stopped_, 600, True)
    assert there.objective_ == rounded(here.objective_, rel=1e-6 if model.dtype == "float64" else 1e-4)
    np.testing.assert_allclose(there.weights_.toarray(), here.weights_.toarray(), rtol=0, atol=1e-4)
    same_arrays(there, here, "popularity_ item_ids_")
    (report,) = (report for report in reports if report.stage == "multiplying")
    assert report.expected_bytes / 1.25 < report.moved_bytes < 1.25 * report.expected_bytes + 100_000 * report.seconds


def test_a_worker_killed_between_products_changes_nothing(client, killing, inter):
    calm, disturbed = killing(
        "multiplying", lambda: od.cluster.fit_low_rank(od.LowRankDLAE(rank=6, **EXACT), inter, client=client)
    )
    np.testing.assert_allclose(disturbed.weights_.toarray(), calm.weights_.toarray(), rtol=0, atol=1e-9)


def test_a_sparse_model_gets_its_smooth_part(client, inter):
    settings = {"rank": 5, "smooth": 0.3, "max_bytes": 30_000, "propensity_power": 0.2}
    here = sparse_model(**settings).fit(inter)
    there = od.cluster.fit_sparse(sparse_model(**settings), inter, client=client)
    same_arrays(there.weights_.B, here.weights_.B, "indptr indices data")
    np.testing.assert_allclose(there.weights_.toarray(), here.weights_.toarray(), rtol=0, atol=1e-4)
    assert there.settings_ == here.settings_


def test_mistakes_of_a_low_rank_fit_are_one_line(client, inter, mistake):
    fit = od.cluster.fit_low_rank
    for model, words in (
        (od.EASE(), "fit_low_rank takes Spectral and the low-rank models, received EASE"),
        (od.Spectral(products="gram"), "received products='gram'; leave it out"),
        (od.Spectral(rank=0), "rank"),
    ):
        assert words in mistake(fit, model, inter, client=client)
