"""What commands say about a fit: its settings, and how it ended."""

import polars as pl
import pytest

import offdiag as od
from offdiag import model_list
from offdiag.cli import outputs


@pytest.mark.parametrize("name", ["low-rank-edlae", "low-rank-dlae", "zero-diagonal", "weight-decay"])
def test_how_a_low_rank_fit_ended(text_of, json_of, name):
    found = json_of("fit", "train.csv", "-o", "ended.od", "--model", name, "--rank", 4)
    model = od.load("ended.od")
    assert found["model"] == type(model).__name__ == model_list.COMMANDS[name]
    assert found["objective"] == model.objective_ > 0
    assert found["stopped"] == model.stopped_
    assert found["iterations"] == len(model.objectives_) - 1
    assert found["settings"]["rank"] == 4
    assert found.get("kkt_residual") == getattr(model, "kkt_residual_", None)
    assert ("kkt_residual" in found) == (name == "zero-diagonal")
    out = text_of("fit", "train.csv", "-o", "ended.od", "--model", name.upper(), "--rank", 4)
    after = f"after {found['iterations']} iterations"
    words = {"closed form": "closed form", "converged": f"converged {after}", "iterations": f"stopped {after}"}
    line = f"objective     {model.objective_:.8g}, {words[model.stopped_]}\n"
    assert line in out
    assert line in text_of("info", "ended.od")
    assert ("KKT residual" in out) == (name == "zero-diagonal")


def test_a_fit_that_ran_out_of_iterations_and_one_of_full_rank(text_of):
    options = ["-o", "ended.od", "--model", "low-rank-edlae", "--dropout", 0.5, "--l2", 5]
    assert ", stopped after 1 iterations\n" in text_of("fit", "train.csv", *options, "--rank", 3, "--iterations", 1)
    assert ", full rank\n" in text_of("fit", "train.csv", *options, "--rank", 60)


@pytest.mark.parametrize("name", ["ease", "popularity"])
def test_fits_without_iterations_have_no_end(text_of, json_of, name):
    found = json_of("fit", "train.csv", "-o", "ended.od", "--model", name)
    assert not {"objective", "stopped", "iterations", "kkt_residual"} & set(found)
    assert "objective" not in text_of("info", "ended.od")


def test_how_slim_and_a_net_ended(text_of, json_of, folder):
    found = json_of("fit", "train.csv", "-o", "ended.od", "--model", "slim")
    model = od.load(folder / "ended.od")
    assert (found["objective"], found["gap"]) == (model.objective_, model.gap_)
    assert f"objective     {model.objective_:.8g}, within" in text_of("info", "ended.od")
    pytest.importorskip("torch")
    out = text_of("fit", "train.csv", "-o", "ended.od", "--model", "mult-dae", "--rank", 5, "--epochs", 2)
    best = od.load(folder / "ended.od").best_epoch_
    assert f"epochs        2, the weights are those after {best}\n" in out


def test_files_that_cannot_be_written_are_named(untouched, tmp_path):
    for out, words in ((tmp_path / "no" / "x.od", "does not exist"), (tmp_path, "folder"), ("train.csv", "itself")):
        assert words in untouched("fit", "train.csv", "--out", out)


def test_a_table_of_lists_names_reasons_by_title(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table = pl.DataFrame(
        {"rank": [1, 2], "item": [7, 8], "title": ["Alien", None], "price": [1234.5, None], "score": [0.5, 0.25],
         "reason": [9, 10], "reason_title": ["Brazil", None], "reason_share": [0.75, None]}
    )  # fmt: skip
    outputs.show_lists(table)
    head, _, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["rank", "item", "title", "price", "score", "reason", "share"]
    assert first == ["1", "7", "Alien", "1,234.50", "0.5000", "Brazil", "75%"]
    assert second == ["2", "8", "0.2500", "10"]
