"""A study file: the search continues from it as if never stopped, and nothing else is taken for one."""

import json

import pytest

import offdiag as od


@pytest.fixture
def words(tmp_path):
    return {"trials": 8, "space": {"at": (0.0, 0.95)}, "study": tmp_path / "study.jsonl", "seed": 1}


def test_a_study_continues_where_it_was_stopped(knob, split, words):
    knob.interrupt = 5
    with pytest.warns(od.InterruptedFitWarning):
        first = od.tune(knob, split, **words)
    knob.interrupt = -1
    second = od.tune(knob, split, **words)
    assert len(second.trials) == 8
    assert second.trials[:4] == first.trials
    assert [trial.origin for trial in second.trials].count("automatic") == 1
    fits = knob.calls
    third = od.tune(knob, split, **words)
    assert third.trials == second.trials
    assert knob.calls == fits, "nothing is fitted again"
    more = od.tune(knob, split, **words | {"trials": 10})
    assert more.trials[:8] == third.trials
    assert len(more.trials) == 10


def test_a_resumed_study_makes_the_trials_of_one_never_stopped(split, tmp_path):
    whole = od.tune(od.EASE, split, trials=9, seed=2)
    for trials in (3, 6, 9):
        parts = od.tune(od.EASE, split, trials=trials, seed=2, study=tmp_path / "s.jsonl")
    assert [trial.settings for trial in parts.trials] == [trial.settings for trial in whole.trials]


def test_a_study_with_results_survives_a_budget_that_is_too_small(split, tmp_path):
    first = od.tune(od.EASE, split, trials=3, study=tmp_path / "s.jsonl")
    again = od.tune(od.EASE, split, trials=9, study=tmp_path / "s.jsonl", seconds=1e-6)
    assert again.stopped == "seconds"
    assert again.trials == first.trials


def test_a_line_cut_off_by_a_kill_loses_one_trial_only(knob, split, words):
    path = words["study"]
    od.tune(knob, split, **words)
    path.write_bytes(path.read_bytes()[:-25])
    again = od.tune(knob, split, **words)
    assert len(again.trials) == 8
    for line in path.read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "recall@5"}, "metric ndcg@100 there and recall@5 here"),
        ({"space": {"at": (0.0, 0.9)}}, "space"),
        ({"seed": 9}, "seed 1 there and 9 here"),
        ({"split": 5}, "is of something else: data"),
    ],
)
def test_a_study_of_something_else_is_refused(knob, split, words, change, message):
    od.tune(knob, split, **words)
    before = words["study"].read_bytes()
    if change.pop("split", None):
        split = od.split.strong(od.synthetic.interactions(900, 120, 18_000, seed=5), held_out=0.2, seed=0)
    with pytest.raises(od.OffdiagError, match=message):
        od.tune(knob, split, **words | change)
    assert words["study"].read_bytes() == before


@pytest.mark.parametrize(
    "content", ["user,item\n1,2\n", "{}\n", "[1]\n", '{"format": "offdiag study 1"}\n[]\n', "\x00\xff\n"]
)
def test_a_file_that_is_no_study_is_refused_and_kept(knob, split, words, content):
    words["study"].write_text(content)
    with pytest.raises(od.OffdiagError, match="study"):
        od.tune(knob, split, **words)
    assert words["study"].read_text() == content


def test_a_trial_with_an_unknown_setting_is_refused_with_its_name(knob, split, words):
    od.tune(knob, split, **words)
    header, *lines = map(json.loads, words["study"].read_text().splitlines())
    lines[1]["settings"]["nonsense"] = 1
    words["study"].write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    with pytest.raises(od.OffdiagError, match="unknown setting 'nonsense'"):
        od.tune(knob, split, **words)
