"""`offdiag tune`: the library's result, one look at the test users, and files that are complete or untouched."""

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag import model_list
from offdiag.cli import console, tune
from offdiag.tuning import ranges
from tests.fixtures.tables import write_table

FAST = ["--trials", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tune")
    write_table(od.synthetic.catalogue(300, 50, 4500, communities=4, seed=1).interactions, place / "train.csv")
    write_table(od.synthetic.catalogue(200, 40, 2500, communities=4, seed=2).interactions, place / "other.csv")
    return place


def split_of(file="train.csv", held_out=0.1, seed=0):
    return od.split.strong(od.read(file), held_out=held_out, seed=seed)


# Results


def test_tune_finds_what_the_library_finds(json_of):
    said, split = json_of("tune", "train.csv", "--metric", "ndcg@20", *FAST, "--seed", 3), split_of(seed=3)
    tuned = od.tune(od.EDLAE, split, "ndcg@20", trials=4, seed=3)
    assert said["settings"] == tuned.settings
    assert said["validation"]["value"] == tuned.value
    assert said["validation"]["automatic"] == tuned.trials[0].value
    assert [t["settings"] for t in said["trials"]] == [t.settings for t in tuned.trials]
    result = od.evaluate(tuned.model.fit(split.train), split.test, ["ndcg@20"])
    assert said["test"]["mean"] == pytest.approx(result.mean)
    assert said["test"]["sem"] == pytest.approx(result.sem)
    assert said["test"]["n_users"] == result.n_users
    automatic = od.evaluate(od.EDLAE().fit(split.train), split.test, ["ndcg@20"])
    assert said["gain"]["p_value"] == pytest.approx(result.compare(automatic).p_value)
    assert said["gain"]["automatic"]["mean"] == pytest.approx(automatic.mean)
    assert (said["chosen"], said["reason"]) == (tuned.best.number, tuned.reason)
    assert said["stopped"] == "trials"
    assert {part["setting"] for part in said["influence"]} == {"dropout", "l2", "user_power"}


def test_the_test_users_are_used_once_and_only_after_the_search(text_of, monkeypatch):
    asked, inner = [], od.evaluate

    def watched(model, held_out, *args, **words):
        asked.append(held_out.user_ids.tolist())
        return inner(model, held_out, *args, **words)

    for place in ("trial_runner", "gain"):
        monkeypatch.setattr(f"offdiag.tuning.{place}.evaluate", watched)
    text_of("tune", "train.csv", *FAST)
    split = split_of()
    validation, test = split.validation.user_ids.tolist(), split.test.user_ids.tolist()
    assert asked == [validation] * 4 + [test] * 2, "once for the chosen and once for the automatic settings"


def test_best_settings_test_trials_and_influence_are_printed(text_of):
    out = text_of("tune", "train.csv", "--trials", 12)
    tuned = od.tune(od.EDLAE, split_of(), trials=12)
    best = ", ".join(f"{name} {value:.4g}" for name, value in tuned.settings.items())
    assert re.search(rf"^settings +{best}$", out, re.M)
    users = [np.count_nonzero(np.diff(part.targets.indptr)) for part in (split_of().validation, split_of().test)]
    assert (
        f"ndcg@100 {tuned.value:.4f} ± {tuned.sem:.4f}, {users[0]} users; automatic {tuned.trials[0].value:.4f}" in out
    )
    assert f"{users[1]} other users, asked once; automatic " in out
    assert f"gain        {tuned.gain(split_of())}" in out
    assert f"chosen      {tuned.reason}\n" in out
    assert "12 complete" in out
    assert "origin" in out
    assert out.count("sampler") <= 10  # only the best ten
    assert "within 1 % of the best" in out


def test_the_saved_model_has_the_best_settings_and_saw_all_users(json_of, folder):
    said = json_of("tune", "train.csv", *FAST, "--out", "best.od", "--plot", "trials.svg")
    saved = od.load(folder / "best.od")
    expected = od.EDLAE(**said["settings"]).fit(od.read(folder / "train.csv"))
    np.testing.assert_array_equal(saved.weights_.toarray(), expected.weights_.toarray())
    assert saved.n_users_ == 300
    assert said["bytes"] == (folder / "best.od").stat().st_size
    assert json_of("info", "best.od")["metrics"]["mean"] == said["test"]["mean"]
    assert ET.parse(folder / "trials.svg").getroot().get("aria-label")


def test_settings_can_be_held_and_bounds_given(json_of):
    options = ["--fixed", "kept-weight=0.25", "--fixed", "user_power=0", "--range", "l2=5:50:log"]
    options += ["--range", "dropout=0.2,0.4"]
    said = json_of("tune", "train.csv", "--trials", 6, *options)
    assert said["settings"]["kept_weight"] == 0.25
    assert said["settings"]["user_power"] == 0
    sampled = [t["settings"] for t in said["trials"] if t["origin"] == "sampler"]
    assert sampled
    assert all(5 <= s["l2"] <= 50 and s["dropout"] in (0.2, 0.4) for s in sampled)


def test_other_models_are_tuned_too(json_of):
    for model, options in (
        ("rdlae", []),
        ("low-rank-edlae", ["--fixed", "rank=4", "--fixed", "iterations=2"]),
        ("item-knn", []),
        ("popularity", []),
    ):
        said = json_of("tune", "train.csv", "--model", model, "--trials", 2, *options)
        assert said["model"] == model_list.COMMANDS[model]
        assert 0 < said["test"]["mean"]["ndcg@100"] < 1
    assert said["influence"] == []  # popularity has nothing to search
    assert len(said["trials"]) == 1


def test_a_net_stops_by_the_validation_users(json_of, monkeypatch):
    pytest.importorskip("torch")
    seen, inner = [], od.MultDAE.fit

    def watched(self, X, **words):
        seen.append(words.get("validation"))
        return inner(self, X, **words)

    monkeypatch.setattr(od.MultDAE, "fit", watched)
    options = ["--model", "mult-dae", "--trials", 1, "--fixed", "epochs=2", "--fixed", "rank=5"]
    assert json_of("tune", "train.csv", *options)["settings"]["rank"] == 5
    assert len(seen[-1].user_ids) == 30


# A study


def test_a_study_resumes(text_of, json_of):
    words = ["tune", "train.csv", "--study", "a.study", "--trials"]
    first, then = json_of(*words, 3), json_of(*words, 6)
    assert then["trials"][:3] == first["trials"]
    assert len(then["trials"]) == 6
    assert then["study"] == "a.study"
    assert "the same command with more --trials continues from there" in text_of(*words, 6)


def test_a_study_with_propensities_resumes_up_to_its_trials(json_of):
    """Propensities are tried again for a new best trial, and never twice for the old one."""
    for trials in (20, 26, 40):
        said = json_of("tune", "train.csv", "--trials", trials, "--study", "p.study")
        assert len(said["trials"]) == trials
    tried = [str(t["settings"]) for t in said["trials"] if t["origin"] == "propensity"]
    assert len(tried) == len(set(tried)) >= 5
    best = said["settings"] | {"propensity_power": 0.0}
    assert any(t["settings"] == best | {"propensity_power": 0.1} for t in said["trials"])


def test_a_study_of_something_else_is_refused_and_kept(text_of, untouched, folder):
    study = ["--trials", 2, "--study", "b.study"]
    text_of("tune", "train.csv", *study)
    assert "data" in untouched("tune", "other.csv", *study)
    assert "model EDLAE there and EASE here" in untouched("tune", "train.csv", *study, "--model", "ease")
    assert "metric" in untouched("tune", "train.csv", *study, "--metric", "ndcg@5")
    (folder / "notes.txt").write_text("shopping list\n")
    assert "something else" in untouched("tune", "train.csv", "--trials", 2, "--study", "notes.txt")


# Ctrl-C


def stopped_at(number, monkeypatch):
    """Ctrl-C when this trial begins."""

    def call(self, stage, fraction):
        if f"trial {number} of" in stage:
            raise KeyboardInterrupt

    monkeypatch.setattr(console.Work, "__call__", call)


def test_ctrl_c_ends_the_search_with_the_best_trial_so_far(run, folder, monkeypatch):
    stopped_at(3, monkeypatch)
    code, out, err = run("tune", "train.csv", "--trials", 9, "--study", "c.study", "--out", "c.od", "--json")
    assert code == 0
    assert err == "offdiag: note: interrupted after 2 trials; continuing with the best of them\n"
    said = json.loads(out)
    assert (said["stopped"], len(said["trials"])) == ("interrupted", 2)
    assert od.load(folder / "c.od").settings_["l2"] == said["settings"]["l2"]
    assert len((folder / "c.study").read_text().splitlines()) == 3


def test_ctrl_c_before_the_first_result_changes_nothing(run, folder, monkeypatch):
    stopped_at(1, monkeypatch)
    code, out, err = run("tune", "train.csv", *FAST, "--out", "d.od")
    assert (code, out) == (130, "")
    assert err == "offdiag: interrupted; what was there before is kept\n"
    assert not (folder / "d.od").exists()


def test_ctrl_c_after_the_search_still_prints_the_settings(run, folder, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("offdiag.tuning.trials.measure_gain", interrupted)
    code, out, err = run("tune", "train.csv", *FAST, "--out", "e.od")
    assert (code, out) == (130, "")
    assert "the settings chosen: dropout" in err
    assert not (folder / "e.od").exists()


def test_progress_never_goes_back_and_is_one_stage():
    reported = []
    report = tune._steady(lambda stage, fraction: reported.append((stage, fraction)))
    for stage, fraction in (("trial 1 of 4", 0.1), ("trial 1 of 4", 0.0), ("trial 2 of 4 · best 0.3", 0.3)):
        report(stage, fraction)
    assert [fraction for _, fraction in reported] == [0.1, 0.1, 0.3]
    assert {stage.partition(" · ")[0] for stage, _ in reported} == {"search"}


# The page


def test_the_page_on_tuning_names_what_is_searched():
    text = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    names = [(re.findall(r"`(\w+)`", row[0]), row[1:]) for row in rows]
    listed = {
        model: tuple(re.findall(r"`(\w+)`", rest[0]))
        for models, rest in names
        for model in models
        if model[0].isupper()
    }
    assert listed == {name: ranges.searched(model_list.model_class(name)) for name in model_list.MODELS}
    bounds = {name for settings, _ in names for name in settings if name[0].islower()}
    assert bounds == {name for model in model_list.MODELS for name in ranges.searched(model_list.model_class(model))}


# Mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "magic"], "edlae"),
        (["--metric", "ndgc@10"], "ndcg@10"),
        (["--metric", "ndcg"], "ndcg"),
        (["--trials", "0"], "--trials"),
        (["--trials", "many"], "--trials"),
        (["--seconds", "0"], "above 0"),
        (["--seconds", "1e-9"], "ended before a first trial"),
        (["--fixed", "l2"], "NAME=VALUE"),
        (["--fixed", "=3"], "NAME=VALUE"),
        (["--fixed", "l2="], "NAME=VALUE"),
        (["--fixed", "rank=3"], "edlae has no setting 'rank'; it has dropout, l2"),
        (["--fixed", "dropout=2"], "dropout must be a number in"),
        (["--fixed", "dropout=much"], "dropout must be a number in"),
        (["--fixed", "l2=3", "--fixed", "l2=4"], "twice"),
        (["--fixed", "seed=3"], "--seed"),
        (["--range", "l2=3"], "LOW:HIGH"),
        (["--range", "l2=3:x"], "LOW:HIGH"),
        (["--range", "l2=3:4:ln"], "LOW:HIGH"),
        (["--range", "l2=3:4:log:5"], "LOW:HIGH"),
        (["--range", "l2=a,,b"], "LOW:HIGH"),
        (["--range", "l2=1:inf"], "LOW:HIGH"),
        (["--range", "l2=4:3"], "low < high"),
        (["--range", "l2=0:3:log"], "above 0"),
        (["--range", "magic=1:2"], "has no setting 'magic'"),
        (["--range", "l2=1:2", "--fixed", "l2=1"], "one of the two"),
        (["--held-out", "0.7"], "held_out"),
        (["--out", "nowhere/best.od"], "does not exist"),
        (["--plot", "nowhere/best.svg"], "does not exist"),
        (["--plot", "."], "--plot takes a file name"),
        (["--study", "nowhere/a.study"], "does not exist"),
        (["--out", "train.csv"], "itself"),
        (["--plot", "train.csv"], "itself"),
        (["--study", "train.csv"], "itself"),
        (["--out", "x.od", "--plot", "x.od"], "same file"),
        (["--value", "rating"], "rating"),
        (["--event", "item", "--out", "x.od"], "add --updatable"),
        (["--updatable"], "add --out"),
        (["--updatable", "--out", "x.od", "--model", "slim"], "SLIM cannot be updated"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_the_files(untouched, options, words):
    assert words in untouched("tune", "train.csv", *FAST, *options)


def test_a_missing_file_or_too_few_users_are_one_line(fails, folder):
    assert "nowhere.csv" in fails("tune", "nowhere.csv")
    (folder / "few.csv").write_text("user,item\n1,2\n2,2\n")
    assert "held_out" in fails("tune", "few.csv")


def test_without_optuna_the_error_says_what_to_install(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'offdiag[tune]'" in fails("tune", "train.csv", *FAST)
