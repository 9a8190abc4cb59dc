"""`offdiag demo`: everything it writes, from synthetic data or from a table."""

import os
import sys

import numpy as np
import pytest

import offdiag as od


def test_the_demo_compares_explains_and_writes_everything(text_of, folder):
    out = text_of("demo", "--users", "400", "--items", "60", "--out", "shown")
    for words in ("Popularity", "EASE", "DLAE", "EDLAE", " ± ", "recommends", "% from", "report.html"):
        assert words in out
    assert set(os.listdir(folder / "shown")) == {"report.html", "model.od", "train.csv", "new-users.csv"}
    text_of("evaluate", "shown/new-users.csv", "shown/model.od", notes=True)


def test_the_demo_takes_a_file_and_is_reproducible(json_of, folder):
    studies = []
    for place in ("one", "two"):
        studies.append(json_of("demo", "train.csv", "--out", place, "--seed", "3"))
        assert set(os.listdir(folder / place)) == {"report.html", "model.od"}  # the user's data is not copied
    first, second = studies
    assert [m["mean"] for m in first["models"]] == [m["mean"] for m in second["models"]]
    assert first["samples"] == second["samples"]
    assert first["best"] in {"EASE", "DLAE", "EDLAE", "Popularity"}


@pytest.mark.parametrize("seed", range(4))
def test_the_model_that_is_served_is_the_one_named_best(json_of, folder, seed):
    """With so few users, any of the four may be the best, Popularity included."""
    rng, weights = np.random.default_rng(0), 1 / np.arange(1, 41)
    rows = [f"{u},i{i}" for u in range(60) for i in rng.choice(40, 6, replace=False, p=weights / weights.sum())]
    (folder / "few.csv").write_text("\n".join(["user,item", *rows]))
    study = json_of("demo", "few.csv", "--out", "few", "--seed", seed)
    assert type(od.load(folder / "few" / "model.od")).__name__ == study["best"]
    (best,) = [model for model in study["models"] if model["model"] == study["best"]]
    assert best["mean"]["ndcg@100"] == max(model["mean"]["ndcg@100"] for model in study["models"])
    assert json_of("info", "few/model.od")["metrics"]["mean"] == best["mean"]
    assert f"Recommendations of {study['best']} for" in (folder / "few" / "report.html").read_text()


def test_a_wrong_call_is_one_line(fails, folder):
    assert "20 users" in fails("demo", "--users", "3")
    assert "is a file" in fails("demo", "--out", "train.csv")
    assert "is a file" in fails("demo", "--out", "train.csv/below")
    assert (folder / "train.csv").read_text().startswith("user,item")


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes there")
def test_the_files_of_the_demo_replace_ordinary_files_only(fails, tmp_path):
    os.mkfifo(tmp_path / "report.html")
    assert "ordinary file" in fails("demo", "--out", tmp_path)


def test_the_report_shows_titles_in_place_of_ids(run, json_of, folder, tmp_path):
    model = od.load(folder / "numbers.od")
    rows = [f"{item},Film <{item}>" for item in model.item_ids_.tolist()[1:]]
    (tmp_path / "products.csv").write_text("\n".join(["id,name", *rows]))
    words = ["demo", folder / "numbers.csv", "--catalogue", tmp_path / "products.csv", "--out", tmp_path / "shown"]
    code, out, err = run(*words)
    assert code == 0, err
    sample = json_of(*words, notes=True)["samples"][0]
    html = (tmp_path / "shown" / "report.html").read_text()
    for item in (*sample["history"], sample["recommended"][0]["item"]):
        title = f"Film <{item}>" if item != model.item_ids_[0] else str(item)
        assert f"  {title}" in out
        assert f"<li>{title.replace('<', '&lt;').replace('>', '&gt;')}</li>" in html or item not in sample["history"]
    assert "% from Film <" in out
    assert "Why Film &lt;" in html
    assert od.load(tmp_path / "shown" / "model.od").catalogue_.columns == ("title",)
