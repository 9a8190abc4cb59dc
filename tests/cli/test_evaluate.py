"""`offdiag evaluate`: the numbers of the library, and how models differ."""

import json

import numpy as np
import polars as pl
import pytest

import offdiag as od
from offdiag.cli import outputs


def test_evaluate_gives_what_the_library_gives(run, json_of):
    assert "cannot be checked" in run("evaluate", "new.csv", "model.od")[2]
    (found,) = json_of("evaluate", "new.csv", "model.od", "--metric", "ndcg@10", notes=True)["models"]
    model, inter = od.load("model.od"), od.read("new.csv")
    part = od.split.weak(inter, held_out=0.2, seed=0).test
    place = np.searchsorted(model.item_ids_, inter.item_ids)
    wide = [np.zeros((inter.n_users, len(model.item_ids_)), np.float32) for _ in range(2)]
    wide[0][:, place], wide[1][:, place] = part.histories.toarray(), part.targets.toarray()
    held_out = od.split.HeldOut(wide[0], wide[1], part.user_ids)
    assert found["mean"]["ndcg@10"] == pytest.approx(od.evaluate(model, held_out, ["ndcg@10"]).mean["ndcg@10"])


def test_evaluate_compares_models_with_the_first(json_of):
    found = json_of("evaluate", "new.csv", "model.od", "ease.od", "low.od", "popular.od", notes=True)
    assert [c["file"] for c in found["comparisons"]] == ["ease.od", "low.od", "popular.od"]
    first, last = found["models"][0]["mean"], found["models"][-1]["mean"]
    gap = found["comparisons"][-1]["difference"]["ndcg@100"]
    assert gap == pytest.approx(last["ndcg@100"] - first["ndcg@100"])


def test_in_a_pipe_or_a_file_a_row_per_model_and_metric(run, text_of, json_of, folder):
    words = ["evaluate", "new.csv", "model.od", "ease.od", "--metric", "coverage@5", "--metric", "ndcg@10"]
    found = json_of(*words, notes=True)
    table = pl.read_csv(text_of(*words, notes=True).encode())
    assert table.columns == [
        "file", "model", "metric", "mean", "sem", "n_users", "difference", "difference_sem", "p_value",
    ]  # fmt: skip
    assert table["file"].to_list() == ["model.od"] * 2 + ["ease.od"] * 2
    assert table["mean"].to_list() == [mean for model in found["models"] for mean in model["mean"].values()]
    assert table["difference"].to_list() == [None, None, *found["comparisons"][0]["difference"].values()]
    assert table["p_value"].to_list() == [None, None, *found["comparisons"][0]["p_value"].values()]
    for name, read in (("t.parquet", pl.read_parquet), ("t.csv", pl.read_csv), ("t.jsonl", pl.read_ndjson)):
        code, out, err = run(*words, "--out", name)
        assert (code, out) == (0, "")
        assert f"wrote 4 rows to {name}" in err
        assert read(folder / name).equals(table)
    lines = text_of(*words, "--to", "jsonl", notes=True).splitlines()
    assert [json.loads(line)["metric"] for line in lines] == ["coverage@5", "ndcg@10"] * 2


def test_on_a_terminal_the_difference_from_the_first_is_shown(text_of, monkeypatch):
    monkeypatch.setattr(outputs, "destination", lambda *_, **__: None)  # as on a terminal
    out = text_of("evaluate", "new.csv", "model.od", "ease.od", "--metric", "coverage@5", notes=True)
    assert "Difference from model.od" in out


def test_evaluate_takes_targets_from_a_file(json_of, folder):
    lines = (folder / "new.csv").read_text().splitlines()
    (folder / "shown.csv").write_text("\n".join([lines[0], *lines[1::2]]))
    (folder / "hidden.csv").write_text("\n".join([lines[0], *lines[2::2]]))
    found = json_of("evaluate", "shown.csv", "model.od", "--targets", "hidden.csv", notes=True)
    assert found["models"][0]["n_users"] > 50


def test_recent_choices_can_count_for_more(json_of, run, folder):
    lines = (folder / "new.csv").read_text().splitlines()[1:]
    rows = [f"{line},{at}" for at, line in enumerate(sorted(lines, key=lambda line: line.split(",")[1]))]
    (folder / "timed.csv").write_text("\n".join(["user,item,rating,at", *rows]))
    inter = od.read(folder / "timed.csv", time="at", keep="events")
    split = od.split.last_out(inter, validation=False)
    for name, part in (("past", split.train.matrix), ("next", split.test.targets)):
        users = np.repeat(inter.user_ids, np.diff(part.indptr))
        wanted = pl.DataFrame({"user": users, "item": inter.item_ids[part.indices]})
        pl.read_csv(folder / "timed.csv").join(wanted, on=["user", "item"]).write_csv(folder / f"{name}.csv")
    words = ["evaluate", "past.csv", "ease.od", "--targets", "next.csv", "--time", "at", "--metric", "ndcg@10"]
    model = od.load("ease.od")
    histories = [inter.history(user)[:-1] for user in inter.user_ids]
    truth = [inter.history(user)[-1] for user in inter.user_ids]
    for more, recency in (([], {}), (["--history-decay", "0.4"], {"history_decay": 0.4})):
        found = json_of(*words, *more, notes=True)["models"][0]["mean"]["ndcg@10"]
        lists = model.recommend(histories, k=10, **recency).items
        hits = lists == np.array(truth)[:, None]
        assert found == pytest.approx(np.where(hits.any(axis=1), 1 / np.log2(2 + hits.argmax(axis=1)), 0.0).mean())
    code, _, err = run("evaluate", "timed.csv", "ease.od", "--time", "at", "--history-half-life", "100")
    assert code == 0
    assert "a history that continues after a target" in " ".join(err.split())


def test_evaluate_reports_the_items_it_leaves_out(run, folder):
    (folder / "odd.csv").write_text((folder / "new.csv").read_text() + "999,Nobody knows this,5\n")
    code, _, err = run("evaluate", "odd.csv", "model.od")
    assert code == 0
    assert "1 of" in err
    assert "unknown to the model" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["new.csv", "model.od", "--metric", "ndgc@10"], "ndcg@10"),
        (["new.csv", "model.od", "--fold-in", "1"], "--fold-in"),
        (["new.csv", "model.od", "numbers.od"], "same items"),
        (["numbers.csv", "model.od"], "none of the"),
        (["new.csv"], "MODEL"),
        (["new.csv", "model.od", "--out", "x.txt"], "expected a file ending in"),
        (["new.csv", "model.od", "--out", "new.csv"], "itself"),
        (["new.csv", "model.od", "--out", "x.csv", "--json"], "exclude each other"),
        (["new.csv", "new.csv"], "new.csv"),
        (["new.csv", "model.od", "--history-half-life", "3"], "needs the time of each choice"),
        (["new.csv", "model.od", "--history-decay", "3"], "history_decay must be"),
    ],
)
def test_a_wrong_call_is_one_line(fails, args, words):
    assert words in fails("evaluate", *args)


def test_bands_are_those_of_the_library(run, text_of, json_of, monkeypatch):
    words = ["evaluate", "new.csv", "model.od", "popular.od", "--metric", "ndcg@10", "--bands"]
    first, last = json_of(*words, notes=True)["models"]
    assert [row["band"] for row in first["bands"]] == ["head", "middle", "tail"]
    assert last["bands"][0]["exposure"]["exposure@10"] > first["bands"][0]["exposure"]["exposure@10"]
    table = pl.read_csv(text_of(*words, notes=True).encode())
    assert table["band"].unique(maintain_order=True).to_list() == ["all", "head", "middle", "tail"]
    for row in first["bands"]:
        own = table.filter((pl.col("file") == "model.od") & (pl.col("band") == row["band"]))
        found = dict(zip(own["metric"].to_list(), own["mean"].to_list(), strict=True))
        assert found == row["mean"] | row["exposure"] | {"targets": row["targets"]}
    monkeypatch.setattr(outputs, "destination", lambda *_, **__: None)  # as on a terminal
    out = text_of(*words, notes=True)
    assert "By popularity, model.od" in out
    assert "share of places" in " ".join(out.split())
