"""Full-rank models of a cluster are those of one machine up to rounding, with the same choice of settings."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from tests.fixtures.partitions import same_arrays

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


MODELS = [
    od.EDLAE(dropout=0.4, l2=30.0, user_power=0.5),
    od.DLAE(dropout=0.3, l2=5.0, user_power=0.0, item_power=0.3, propensity_power=0.2, dtype="float64"),
    od.RDLAE(dropout=0.2, l2=9.0, user_power=0.0, max_diagonal=0.2, storage="dense"),
    od.EASE(l2=20.0, user_power=0.37, dtype="float64"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_full_rank_models_are_those_of_one_machine(client, model):
    inter = od.synthetic.interactions(900, 160, 12_000, seed=2)
    here = type(model)(**model.get_params()).fit(inter)
    there = od.cluster.fit_full_rank(type(model)(**model.get_params()), inter, tile=23, client=client)
    assert type(there.weights_) is type(here.weights_)
    near = 1e-12 if model.dtype == "float64" else 3e-5
    np.testing.assert_allclose(there.weights_.toarray(), here.weights_.toarray(), rtol=0, atol=near)
    assert there.objective_ == pytest.approx(here.objective_, rel=near)
    assert (there.settings_, there.n_users_) == (here.settings_, here.n_users_)
    same_arrays(there, here, "popularity_ item_ids_")


EDLAE = {"dropout": 0.4, "l2": 30.0, "user_power": 0.5, "dtype": "float64"}


def test_only_the_strongest_entries_of_every_column_are_kept(client, tmp_path):
    inter = od.synthetic.interactions(900, 120, 12_000, seed=3)
    W = od.EDLAE(**EDLAE).fit(inter).weights_.toarray()
    model = od.cluster.fit_full_rank(od.EDLAE(**EDLAE), inter, keep=9, tile=25, client=client)
    ours = model.weights_.toarray()
    least = -np.sort(-np.abs(W), axis=0)[8]
    np.testing.assert_allclose(ours, np.where(np.abs(W) >= least, W, 0.0), rtol=0, atol=1e-12)
    model.save(tmp_path / "model.od")
    np.testing.assert_array_equal(od.load(tmp_path / "model.od").weights_.toarray(), ours)


def test_a_catalogue_of_one_item_and_cold_items_are_fitted(client):
    X = np.zeros((30, 5), dtype=np.float32)
    X[:20, 0] = X[10:, 3] = 1
    settings = {"dropout": 0.5, "l2": 0.0, "user_power": 0.0, "dtype": "float64"}
    for matrix in (X, X[:, :1]):
        inter = od.read(matrix)
        here = od.EDLAE(**settings).fit(inter).weights_.toarray()
        there = od.cluster.fit_full_rank(od.EDLAE(**settings), inter, tile=2, client=client).weights_.toarray()
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-12)


def test_duplicate_items_without_regularisation_are_an_error(client):
    inter = od.read(np.repeat(np.eye(12, 6, dtype=np.float32), 2, axis=1))
    with pytest.raises(od.OffdiagError, match="singular"):
        od.cluster.fit_full_rank(od.EASE(l2=0.0, user_power=0.0), inter, tile=5, client=client)


def test_a_worker_killed_during_the_inverse_changes_nothing(client, killing):
    inter = od.synthetic.interactions(900, 120, 12_000, seed=3)
    stages = ["counting pairs", "inverting", "choosing the strongest"]
    calm, disturbed = killing(
        stages, lambda: od.cluster.fit_full_rank(od.EDLAE(**EDLAE), inter, keep=9, tile=20, client=client)
    )
    for stage, model in zip(stages, disturbed, strict=True):
        np.testing.assert_array_equal(model.weights_.toarray(), calm.weights_.toarray(), err_msg=stage)


def test_work_too_large_for_the_workers_is_refused_at_the_start(small_client):
    wide = sparse.random_array((50, 30_000), density=0.001, format="csr", rng=np.random.default_rng(0))
    with pytest.raises(od.NotEnoughMemory, match=r"the smallest has 700 MB.*od.cluster.fit_full_rank"):
        od.cluster.gram(wide, client=small_client)
    model = od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0)
    with pytest.raises(od.NotEnoughMemory, match="30,000 items on 1 workers"):
        od.cluster.fit_full_rank(model, wide, keep=5, client=small_client)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0), {"keep": 0}, "keep must be"),
        (od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0), {"tile": 1.5}, "tile must be"),
        (od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0, propensity_power=1.0), {"keep": 3}, "propensity_power"),
        (od.Popularity(), {}, "fit_full_rank takes EASE"),
        (od.SparseEDLAE(), {}, "fit_full_rank takes EASE"),
        (od.EDLAE(dropout=2.0), {}, "dropout"),
    ],
)
def test_wrong_settings_and_models_are_refused(mistake, client, model, options, words):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    assert words in mistake(od.cluster.fit_full_rank, model, inter, client=client, **options)
    assert "takes SparseEDLAE" in mistake(od.cluster.fit_sparse, od.EASE(), inter, client=client)
