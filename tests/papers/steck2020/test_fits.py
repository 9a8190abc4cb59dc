"""One line of Table 1: how its settings are chosen, and what happens when time, users or libraries are missing."""

import json
from pathlib import Path

import pytest

import offdiag as od
from offdiag.papers.steck2020 import fits

pytestmark = pytest.mark.slow


def test_tuned_lines_are_the_best_of_their_trials_without_test_users(table1_lines, monkeypatch):
    asked = []
    real = od.tune

    def watched(model, split, *args, **words):
        asked.append((model.__name__, words["fixed"], args))
        return real(model, _Blind(split), *args, **words)

    monkeypatch.setattr(od, "tune", watched)
    found = table1_lines("--rows", "dlae,ease-full", "--trials", "4", "--rank", "6")
    assert asked == [
        ("LowRankDLAE", {"user_power": 0.0, "rank": 6, "seed": 0}, ("ndcg@100", 4)),
        ("EASE", {"user_power": 0.0, "propensity_power": 0.0}, ("ndcg@100", 4)),
    ]
    for key, line in found.items():
        assert key[1] == fits.TUNED
        assert line["trials"] == 4
        (record,) = Path("steck2020/rows").glob(f"invented-{key[0]}-*[0-9a-f].json")
        tuning = json.loads(record.read_text())["tuning"]
        assert line["validation"] == pytest.approx(tuning["value"], abs=1e-4)
        top = max((trial for trial in tuning["trials"] if trial["value"] is not None), key=lambda t: t["value"])
        assert top["value"] - 0.25 * top["sem"] <= tuning["value"] <= top["value"]


class _Blind:
    """A split whose test part must not be touched."""

    def __init__(self, split):
        self.train, self.validation = split.train, split.validation

    @property
    def test(self):
        raise AssertionError("tuning looked at the test users")


def test_sampled_dropout_takes_the_settings_of_row_3_and_ends_near_it(table1_lines, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(fits, "EPOCHS", 40)
    found = table1_lines("--rows", "sampled", "--trials", "0", "--rank", "4")
    assert list(found) == [("dlae", fits.AUTOMATIC), ("sampled", fits.SAMPLED)]  # row 3 comes with it
    closed, drawn = found.values()
    assert {k: drawn["settings"][k] for k in ("dropout", "l2", "user_power", "rank")} == {
        k: closed["settings"][k] for k in ("dropout", "l2", "user_power", "rank")
    }
    assert drawn["settings"]["epochs"] == fits.EPOCHS
    assert abs(drawn["mean"]["ndcg@100"] - closed["mean"]["ndcg@100"]) < 0.1


def test_little_time_means_fewer_epochs_of_sampling_and_no_verdict(table1_json, monkeypatch):
    monkeypatch.setattr(fits, "LEAST_EPOCHS", 3)
    pytest.importorskip("torch")
    args = ("--rows", "sampled", "--trials", "0", "--rank", "4", "--seconds-per-row", "0.001")
    (part,) = table1_json(*args)["data"]
    assert part["rows"][1]["settings"]["epochs"] == 3
    claim = next(c for c in part["claims"] if c["name"] == "sampled_is_closed_form")
    assert claim["verdict"] == "not run"
    assert "3 epochs" in claim["evidence"]


def test_smaller_ranks_choose_among_the_settings_of_the_table(table1_json, invented):
    (part,) = table1_json("--rows", "dlae,edlae", "--trials", "0", "--rank", "8")["data"]
    assert [(r["rank"], r["row"]) for r in part["by_rank"]] == [
        (rank, row) for rank in (1, 2, 4) for row in ("dlae", "edlae")
    ]
    settings = next(r["settings"] for r in part["rows"] if r["row"] == "edlae")
    split = invented().split
    models = [
        od.LowRankEDLAE(rank=4, dropout=dropout, l2=settings["l2"], user_power=0.0).fit(split.train)
        for dropout in (settings["dropout"], fits.LITTLE_DROPOUT)  # automatic settings are the same for both rows
    ]
    best = max(models, key=lambda model: od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"])
    there = next(r for r in part["by_rank"] if (r["rank"], r["row"]) == (4, "edlae"))
    assert there["mean"] == pytest.approx(od.evaluate(best, split.test).mean)


def test_an_interrupted_fit_is_not_a_result(table1, monkeypatch):
    def stopped(self, X, **words):
        type(self).unstopped(self, X, **words)
        self.stopped_ = "interrupted"
        return self

    monkeypatch.setattr(od.LowRankDLAE, "unstopped", od.LowRankDLAE.fit, raising=False)
    monkeypatch.setattr(od.LowRankDLAE, "fit", stopped)
    assert table1("--rows", "dlae", "--trials", "0")[0] == 130
    assert not list(Path().rglob("*.json"))


def test_an_interrupted_study_is_resumed(table1, table1_lines, monkeypatch):
    real, seen = od.tune, []

    def tune(model, split, *args, **words):
        def stop(stage, fraction):
            if fraction >= 0.5 and not seen:
                seen.append(stage)
                raise KeyboardInterrupt

        return real(model, split, *args, **(words | {"progress": stop}))

    monkeypatch.setattr(od, "tune", tune)
    args = ("--rows", "edlae-full", "--trials", "6")
    assert table1(*args)[0] == 130
    assert seen
    (study,) = Path("steck2020/rows").glob("*.study.jsonl")
    before = study.read_text()
    assert before.count("\n") >= 2
    assert table1_lines(*args)["edlae-full", fits.TUNED]["trials"] == 6
    assert study.read_text().startswith(before)


def test_without_optuna_there_are_automatic_settings_only(table1, monkeypatch):
    monkeypatch.setattr(fits, "find_spec", lambda name: None)
    code, _, err = table1("--rows", "ease-full", "--trials", "2")
    assert code == 2
    assert "offdiag[tune]" in err
    assert table1("--rows", "ease-full", "--trials", "0")[0] == 0
    assert table1("--rows", "popularity", "--trials", "2", "--out", "other")[0] == 0  # nothing to tune
