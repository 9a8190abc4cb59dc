"""A real cluster of separate worker processes gives the result of one machine, even if a worker is killed midway."""

import os
import signal

import numpy as np
import polars as pl
import pytest

import offdiag as od
from offdiag.cli import cluster_fit, console
from offdiag.cli.inputs import Columns
from offdiag.cluster.stages import Stage
from offdiag.models import auto
from offdiag.models.sparse import SparseEDLAE

pytestmark = pytest.mark.slow

dask = pytest.importorskip("dask", reason="needs the extra 'cluster'")
distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")

LIMIT = "2GB"


@pytest.fixture(scope="module")
def client():
    with od.cluster.connect("local:2", memory_limit=LIMIT, timeout=60) as client:
        yield client


@pytest.fixture
def killing(client, monkeypatch):
    """Runs work twice: undisturbed, then with a worker killed when half the tasks of a stage have been handed out."""

    def run(stage, work):
        submit, count, fatal, killed = Stage.submit, [0], [np.inf], []

        def counted(self, *args, **options):
            future = submit(self, *args, **options)
            count[0] += self.name == stage
            if count[0] >= fatal[0] and not killed:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)
            return future

        monkeypatch.setattr(Stage, "submit", counted)
        calm = work()
        fatal[0], count[0] = max(count[0] // 2, 1), 0
        disturbed = work()
        assert killed
        assert killed[0] not in client.run(os.getpid).values()
        return calm, disturbed

    return run


def table(n=6000, users=400, items=90, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "user": rng.integers(0, users, n) * 7 - 100,
            "item": (rng.zipf(1.4, n) % items) + 1000,
            "value": rng.integers(0, 9, n) / 2,
            "time": rng.integers(0, 50, n),
            "song": [f"né{i}" for i in rng.integers(0, items, n)],
        }
    )


def written(folder, frames):
    folder.mkdir(exist_ok=True)
    for at, frame in enumerate(frames):
        frame.write_parquet(folder / f"part-{at}.parquet")
    return sorted(map(str, folder.glob("*.parquet")))


def cut(frame, pieces):
    return [frame[len(frame) * at // pieces : len(frame) * (at + 1) // pieces] for at in range(pieces)]


def same(ours, theirs):
    for name in ("user_ids", "item_ids"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    for name in ("indptr", "indices", "data"):
        a, b = getattr(ours.matrix, name), getattr(theirs.matrix, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def same_gram(ours, theirs):
    for name in ("values", "activity", "item_counts", "item_sums"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


READINGS = [
    {},
    {"duplicates": "sum"},
    {"value": "value"},
    {"value": "value", "duplicates": "once"},
    {"value": "value", "duplicates": "once", "time": "time"},
    {"item": "song", "text_ids": True},
]


@pytest.mark.parametrize("how", READINGS, ids=str)
def test_partitions_that_share_users_read_as_one_table(client, tmp_path, how):
    frame = table().with_columns(value=pl.col("value").cast(pl.Float32))
    files = written(tmp_path / "parts", [*cut(frame, 3), frame[:0]])
    same(od.cluster.read(tmp_path / "parts", client=client, **how).gather(), od.read(files, **how))


def test_partitions_of_their_own_users_are_not_shuffled(client, tmp_path):
    frame = table()
    ranges = [frame.filter(pl.col("user") < 800), frame.filter(pl.col("user") >= 800)]
    files = written(tmp_path / "ranges", ranges)
    by_range = od.cluster.read(files[::-1], client=client)
    same(by_range.gather(), od.read(files))
    assert by_range.users.tolist() == [part["user"].n_unique() for part in ranges]
    hashed = [frame.filter(pl.col("user") % 3 == r) for r in range(3)]  # ranges overlap, users do not
    files = written(tmp_path / "hashed", hashed)
    by_hash = od.cluster.read(str(tmp_path / "hashed" / "*.parquet"), client=client)
    same(by_hash.gather(), od.read(files))
    assert sorted(by_hash.users.tolist()) == sorted(part["user"].n_unique() for part in hashed)


def test_a_dask_data_frame_reads_as_its_pandas_table(client):
    dd = pytest.importorskip("dask.dataframe")
    frame = table(1500).to_pandas()
    ours = od.cluster.read(dd.from_pandas(frame, npartitions=3), item="song", value="value", client=client)
    same(ours.gather(), od.read(frame, item="song", value="value"))


def test_filters_are_those_of_one_machine(client, tmp_path):
    files = written(tmp_path / "parts", cut(table(), 3))
    here = od.read(files, value="value", duplicates="once")
    there = od.cluster.read(files, value="value", duplicates="once", client=client)
    same(
        od.cluster.prepare(there, at_least=2.5, min_users=3, min_items=20).gather(),
        od.prepare.min_counts(od.prepare.binarize(here, at_least=2.5), users=3, items=20),
    )
    with pytest.raises(od.OffdiagError, match="lower the minimum counts"):
        od.cluster.prepare(there, min_items=10_000)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gram_of_counts_is_the_same_bits(client, dtype):
    inter = od.synthetic.interactions(700, 101, 9000, seed=1)
    reports = []
    ours = od.cluster.gram(od.cluster.read(inter, client=client), dtype=dtype, client=client, reports=reports)
    same_gram(ours, od.gram(inter, dtype=dtype))
    (report,) = reports
    assert len(report.peak_bytes) == 2
    assert all(1e7 < peak < 2e9 for peak in report.peak_bytes.values())
    assert "counting pairs" in str(report)


def test_the_gram_of_values_and_weighted_users_is_the_same_to_rounding(client, tmp_path):
    files = written(tmp_path / "parts", cut(table(), 3))
    here = od.gram(od.read(files, value="value"), user_power=0.5, dtype="float64")
    there = od.cluster.gram(od.cluster.read(files, value="value", client=client), 0.5, dtype="float64", client=client)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-13)
    np.testing.assert_array_equal(there.activity, here.activity)
    assert there.user_power == here.user_power


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
    assert there.settings_ == here.settings_
    assert there.n_users_ == here.n_users_
    np.testing.assert_array_equal(there.popularity_, here.popularity_)
    np.testing.assert_array_equal(there.item_ids_, here.item_ids_)


def test_the_strongest_entries_of_every_column_come_back_sparse(client, tmp_path):
    inter = od.synthetic.interactions(900, 120, 12_000, seed=3)
    settings = {"dropout": 0.4, "l2": 30.0, "user_power": 0.5, "dtype": "float64"}
    W = od.EDLAE(**settings).fit(inter).weights_.toarray()
    model = od.cluster.fit_full_rank(od.EDLAE(**settings), inter, keep=9, tile=25, client=client)
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


def test_duplicate_items_without_regularisation_are_a_mistake_not_a_crash(client):
    inter = od.read(np.repeat(np.eye(12, 6, dtype=np.float32), 2, axis=1))
    with pytest.raises(od.OffdiagError, match="singular"):
        od.cluster.fit_full_rank(od.EASE(l2=0.0, user_power=0.0), inter, tile=5, client=client)


@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_l2_is_chosen_as_on_one_machine(client, user_power):
    inter = od.synthetic.interactions(1500, 200, 20_000, seed=4)
    parts = od.cluster.read(inter, client=client)
    here = auto.unseen_user_l2(inter.matrix, user_power)
    assert od.cluster.unseen_user_l2(parts, user_power) == pytest.approx(here, rel=1e-6)


SPARSE = [
    {},
    {"block_bytes": 60_000},
    {"max_bytes": 30_000, "user_power": 0.0},
    {"item_power": 0.3, "propensity_power": 0.2, "dtype": "float64"},
    {"neighbours": 10_000, "block_bytes": "auto", "weight_power": 1.2},
]


def same_sparse(ours, theirs):
    for name in ("indptr", "indices", "data"):
        a, b = getattr(ours.weights_, name), getattr(theirs.weights_, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert ours.objective_ == theirs.objective_
    assert ours.settings_ == theirs.settings_
    assert ours.n_users_ == theirs.n_users_
    np.testing.assert_array_equal(ours.popularity_, theirs.popularity_)
    np.testing.assert_array_equal(ours.item_ids_, theirs.item_ids_)


def sparse_model(**settings):
    return SparseEDLAE(
        **({"neighbours": 20, "dropout": 0.4, "l2": 9.0, "user_power": 0.5, "block_bytes": 1 << 24} | settings)
    )


@pytest.mark.parametrize("settings", SPARSE, ids=str)
def test_sparse_columns_are_the_same_bytes(client, settings):
    inter = od.synthetic.interactions(900, 300, 12_000, seed=5)
    here = sparse_model(**settings).fit(inter)
    same_sparse(od.cluster.fit_sparse(sparse_model(**settings), inter, client=client), here)


def test_sparse_columns_of_ratings_are_the_same_bytes_however_users_are_divided(client, tmp_path):
    frame = table()
    files = written(tmp_path / "hashed", [frame.filter(pl.col("user") % 3 == r) for r in range(3)])
    here = sparse_model().fit(od.read(files, value="value"))
    there = od.cluster.read(files, value="value", client=client)
    same_sparse(od.cluster.fit_sparse(sparse_model(), there, client=client), here)


@pytest.mark.parametrize("name", ["edlae", "sparse"])
def test_the_command_chooses_the_settings_of_one_machine(tmp_path, name):
    files = written(tmp_path / "parts", cut(table(), 3))
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


def test_sparse_columns_of_items_without_neighbours_are_empty(client):
    X = np.zeros((30, 6), dtype=np.float32)
    X[:20, 0] = X[10:, 3] = X[25, 4] = 1  # items 1, 2 and 5 have no users
    for matrix in (X, X[:, :1]):
        inter = od.read(matrix)
        settings = {"neighbours": 3, "user_power": 0.0, "block_bytes": 1 << 20}
        here = sparse_model(**settings).fit(inter)
        same_sparse(od.cluster.fit_sparse(sparse_model(**settings), inter, client=client), here)


def test_auto_is_the_rule_of_the_model(client):
    class Asked(od.EDLAE):
        def _settled(self, settings, scale):
            return settings | {"dropout": 0.5, "user_power": 0.0, "l2": 2 * scale(0.0, items=50, users=70)}

    inter = od.synthetic.interactions(400, 80, 6000, seed=6)
    parts = od.cluster.read(inter, client=client)
    model = od.cluster.fit_full_rank(Asked(), parts, client=client)
    assert model.settings_["l2"] == 2 * od.cluster.unseen_user_l2(parts, 0.0, items=50, users=70)


# A worker is killed midway through each stage.


def test_a_worker_killed_while_reading_changes_nothing(client, killing, tmp_path):
    files = written(tmp_path / "parts", cut(table(), 6))
    _, disturbed = killing("reading", lambda: od.cluster.read(files, client=client))
    same(disturbed.gather(), od.read(files))


def test_a_worker_killed_while_counting_changes_no_bit(client, killing, tmp_path):
    files = written(tmp_path / "parts", cut(table(), 4))
    parts = od.cluster.read(files, client=client)
    _, disturbed = killing("counting pairs", lambda: od.cluster.gram(parts, client=client))
    same_gram(disturbed, od.gram(od.read(files)))


@pytest.mark.parametrize("stage", ["counting pairs", "inverting", "choosing the strongest"])
def test_a_worker_killed_during_the_inverse_changes_nothing(client, killing, stage):
    inter = od.synthetic.interactions(900, 120, 12_000, seed=3)
    settings = {"dropout": 0.4, "l2": 30.0, "user_power": 0.5, "dtype": "float64"}
    calm, disturbed = killing(
        stage, lambda: od.cluster.fit_full_rank(od.EDLAE(**settings), inter, keep=9, tile=20, client=client)
    )
    np.testing.assert_array_equal(disturbed.weights_.toarray(), calm.weights_.toarray())


@pytest.mark.parametrize("stage", ["finding neighbours", "solving columns"])
def test_a_worker_killed_during_the_support_solves_changes_no_byte(client, killing, stage):
    inter = od.synthetic.interactions(900, 300, 12_000, seed=5)
    calm, disturbed = killing(
        stage, lambda: od.cluster.fit_sparse(sparse_model(block_bytes=60_000), inter, client=client)
    )
    same_sparse(disturbed, calm)


def test_both_workers_killed_at_once_are_waited_for(client, tmp_path):
    files = written(tmp_path / "parts", cut(table(), 3))
    parts = od.cluster.read(files, client=client)
    for pid in client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    same_gram(od.cluster.gram(parts, client=client), od.gram(od.read(files)))


def test_a_worker_that_is_lost_twice_in_a_short_time_comes_back(tmp_path):
    # A while after a loss Dask checks whether the worker is back and removes it for good if not, even if it is only
    # down for the second time. A timeout shorter than any restart reproduces that moment.
    files = written(tmp_path / "parts", cut(table(), 2))
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "50ms"}),
        od.cluster.connect("local:1", memory_limit=LIMIT, timeout=60) as client,
    ):
        for _ in range(2):
            (pid,) = client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
            same(od.cluster.read(files, client=client).gather(), od.read(files))
            assert pid not in client.run(os.getpid).values()
