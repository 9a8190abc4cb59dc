"""`offdiag fit --cluster`: the settings of one machine, and one line for each mistake."""

import numpy as np
import polars as pl
import pytest

import offdiag as od
from offdiag import cli
from offdiag.cli import cluster_fit, console
from offdiag.cli.inputs import FilteredColumns
from offdiag.models.sparse import SparseEDLAE
from tests.fixtures.partitions import cut, table, write_parts

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


@pytest.mark.parametrize("name", ["edlae", "sparse"])
def test_the_command_chooses_the_settings_of_one_machine(tmp_path, name):
    files = write_parts(tmp_path / "parts", cut(table(), 3))
    model = od.EDLAE() if name == "edlae" else SparseEDLAE(block_bytes=1 << 24)
    here = type(model)(**model.get_params()).fit(od.prepare.min_counts(od.read(files), users=2, items=3))
    with console.working() as work:
        columns = FilteredColumns(min_users=2, min_items=3)
        parts, reports = cluster_fit.learn(model, str(tmp_path / "parts"), columns, "local:1", work)
    assert (parts.n_users, parts.n_items) == (here.n_users_, len(here.item_ids_))
    assert model.get_params() == type(model)(**(model.get_params() | {"l2": "auto", "dropout": "auto"})).get_params()
    for setting, value in here.settings_.items():
        assert model.settings_[setting] == (value if value is None else pytest.approx(value, rel=1e-6))
    np.testing.assert_allclose(model.weights_.toarray(), here.weights_.toarray(), atol=1e-5)
    assert cluster_fit.pairs(reports)["cluster"].startswith("1 workers, at most")
    assert {fact["stage"] for fact in cluster_fit.facts(reports)} >= {"reading"}


def test_a_model_of_order_is_that_of_one_machine(tmp_path, capsys):
    files = write_parts(tmp_path / "parts", cut(table(), 3))
    inter = od.prepare.min_counts(od.read(files, time="time", keep="events"), items=3)
    settings = {"mix": 0.3, "l2": 5.0, "dropout": 0.3, "decay": 0.8, "history_decay": 0.8, "user_power": 0.0}
    settings["feature_weight"] = 0.5
    known = {"item": inter.item_ids, "kind": [f"kind {at % 3}" for at in range(inter.n_items)]}
    pl.DataFrame(known).write_csv(tmp_path / "items.csv")
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    out = str(tmp_path / "next.od")
    words = ["--model", "next-item", "--time", "time", "--min-items", "3", "--cluster", "local:1", *options]
    words += ["--features", str(tmp_path / "items.csv"), "--feature-columns", "item=item,categories=kind"]
    assert cli.main(["fit", str(tmp_path / "parts"), "--out", out, *words]) == 0, capsys.readouterr().err
    here = od.NextItem(**settings).fit(inter, item_features=od.read_features(known, categories="kind"))
    np.testing.assert_allclose(od.load(out).weights_.toarray(), here.weights_.toarray(), atol=1e-5)


@pytest.fixture
def folder(tmp_path):
    pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]}).write_parquet(tmp_path / "table.parquet")
    return tmp_path


def test_the_command_reports_each_mistake_in_one_line(fails):
    fit = ("fit", "table.parquet", "--out", "model.od", "--cluster")
    assert "no Dask scheduler answered" in fails(*fit, "tcp://127.0.0.1:9")
    assert "add --value COLUMN" in fails(*fit, "local:1", "--at-least", "3")
    assert "--cluster fits edlae" in fails(*fit, "local:1", "--model", "popularity")
    assert "add --time COLUMN" in fails(*fit, "local:1", "--model", "next-item")
    assert "--keep is for full-rank models" in fails(*fit, "local:1", "--model", "sparse", "--keep", "3")
    assert "is for text files" in fails(*fit, "local:1", "--separator", ";")
