"""Full-rank models of a cluster are those of one machine up to rounding, with the same choice of settings."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.cli import cluster_fit, console
from offdiag.cli.inputs import Columns
from offdiag.models import auto
from offdiag.models.sparse import SparseEDLAE
from tests.fixtures.partitions import cut, same_arrays, table, write_parts

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


@pytest.mark.parametrize("stage", ["counting pairs", "inverting", "choosing the strongest"])
def test_a_worker_killed_during_the_inverse_changes_nothing(client, killing, stage):
    inter = od.synthetic.interactions(900, 120, 12_000, seed=3)
    calm, disturbed = killing(
        stage, lambda: od.cluster.fit_full_rank(od.EDLAE(**EDLAE), inter, keep=9, tile=20, client=client)
    )
    np.testing.assert_array_equal(disturbed.weights_.toarray(), calm.weights_.toarray())


@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_l2_is_chosen_as_on_one_machine(client, user_power):
    inter = od.synthetic.interactions(1500, 200, 20_000, seed=4)
    parts = od.cluster.read(inter, client=client)
    here = auto.unseen_user_l2(inter.matrix, user_power)
    assert od.cluster.unseen_user_l2(parts, user_power) == pytest.approx(here, rel=1e-6)


def test_auto_is_the_rule_of_the_model(client):
    class Asked(od.EDLAE):
        def _resolve_on_cluster(self, settings, scale):
            return settings | {"dropout": 0.5, "user_power": 0.0, "l2": 2 * scale(0.0, items=50, users=70)}

    inter = od.synthetic.interactions(400, 80, 6000, seed=6)
    parts = od.cluster.read(inter, client=client)
    model = od.cluster.fit_full_rank(Asked(), parts, client=client)
    assert model.settings_["l2"] == 2 * od.cluster.unseen_user_l2(parts, 0.0, items=50, users=70)


@pytest.mark.parametrize("name", ["edlae", "sparse"])
def test_the_command_chooses_the_settings_of_one_machine(tmp_path, name):
    files = write_parts(tmp_path / "parts", cut(table(), 3))
    model = od.EDLAE() if name == "edlae" else SparseEDLAE(block_bytes=1 << 24)
    here = type(model)(**model.get_params()).fit(od.prepare.min_counts(od.read(files), users=2, items=3))
    with console.working() as work:
        parts, reports = cluster_fit.learn(
            model, str(tmp_path / "parts"), Columns(), "local:1", work, min_users=2, min_items=3
        )
    assert (parts.n_users, parts.n_items) == (here.n_users_, len(here.item_ids_))
    assert model.get_params() == type(model)(**(model.get_params() | {"l2": "auto", "dropout": "auto"})).get_params()
    for setting, value in here.settings_.items():
        assert model.settings_[setting] == (value if value is None else pytest.approx(value, rel=1e-6))
    np.testing.assert_allclose(model.weights_.toarray(), here.weights_.toarray(), atol=1e-5)
    assert cluster_fit.pairs(reports)["cluster"].startswith("1 workers, at most")
    assert {fact["stage"] for fact in cluster_fit.facts(reports)} >= {"reading"}


def test_auto_without_a_rule_is_refused(mistake, client):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    parts = od.cluster.read(inter, client=client)
    said = mistake(od.cluster.auto.resolve, object(), {"l2": "auto", "dropout": 0.5}, parts)
    assert "received auto for l2" in said


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
