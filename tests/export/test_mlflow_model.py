"""A model in MLflow: saved, logged in a run, loaded and asked, and measured by MLflow's own ranking metrics."""

import sys

import pytest

import offdiag as od
from offdiag.export.mlflow_model import Served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of MLflow and what it imports
]
pd = pytest.importorskip("pandas")


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    found = pytest.importorskip("mlflow.pyfunc")
    monkeypatch.chdir(tmp_path)  # artifacts of a run go there
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return found


def test_a_saved_model_is_loaded_and_ranks_as_before(mlflow, fitted, histories, tmp_path):
    model = fitted["EASE"]
    od.export.save_mlflow(model, tmp_path / "m")
    loaded = mlflow.load_model(str(tmp_path / "m"))
    answer = loaded.predict(pd.DataFrame({"history": histories[:5]}), params={"k": 7})
    assert answer["items"].tolist() == model.recommend(histories[:5], k=7).items.tolist()
    with pytest.raises(od.OffdiagError, match="which exists"):
        od.export.save_mlflow(model, tmp_path / "m")


def test_ranking_metrics_of_mlflow_agree_with_ours(mlflow):
    import mlflow as whole

    inter = od.synthetic.interactions(200, 40, 2_000, seed=3)
    split = od.split.strong(inter, held_out=0.2, seed=0)
    model = od.EASE(l2=10.0).fit(split.train)
    ours = od.evaluate(model, split.test, ["recall_all@10", "precision@10"])
    ids = split.train.item_ids
    pairs = zip(split.test.histories, split.test.targets, strict=True)
    rows = [(ids[h.indices].tolist(), ids[t.indices].tolist()) for h, t in pairs]
    table = pd.DataFrame([row for row in rows if row[1]], columns=["history", "targets"])
    table["items"] = Served(model).predict(table)["items"]
    metrics = [whole.metrics.recall_at_k(10), whole.metrics.precision_at_k(10)]
    with whole.start_run():
        found = whole.models.evaluate(
            data=table, predictions="items", targets="targets", extra_metrics=metrics, evaluator_config={"default": {}}
        ).metrics
    assert found["recall_at_10/mean"] == pytest.approx(ours.mean["recall_all@10"])
    assert found["precision_at_10/mean"] == pytest.approx(ours.mean["precision@10"])


def test_a_table_without_histories_is_refused(fitted):
    with pytest.raises(od.OffdiagError, match="expected a column history, received items"):
        Served(fitted["EASE"]).predict(pd.DataFrame({"items": [[]]}))


def test_a_failed_save_leaves_no_folder(mlflow, fitted, tmp_path):
    with pytest.raises(Exception, match="conda_env"):
        od.export.save_mlflow(fitted["EASE"], tmp_path / "m", conda_env={}, nonsense=3)
    assert not (tmp_path / "m").exists()


def test_a_missing_package_is_named(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(od.OffdiagError, match=r"pip install 'offdiag\[mlflow\]'"):
        od.export.save_mlflow(fitted["EASE"], tmp_path / "m")
