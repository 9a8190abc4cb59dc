"""Generated tables and docs/results.md are the generators' output for the committed JSON."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from offdiag import measured as measured_values
from offdiag.papers.steck2020 import sources, table1, table1_claims, table1_page

ROOT = Path(__file__).resolve().parents[1]
MACHINE = {"cores": 2, "processor": "some processor", "memory_bytes": 8e9}


@pytest.fixture(scope="module")
def results_page():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("results_page")


def test_the_committed_page_is_made_from_the_committed_results(results_page):
    assert (ROOT / "docs" / "results.md").read_text() == results_page.page(), "run python benchmarks/results_page.py"


@pytest.fixture(scope="module")
def documents(results_page):
    return importlib.import_module("documents")


def generated_tables():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {name for page in pages for name in re.findall(r"<!-- end (\S+) -->", page.read_text())} - {"settings"}


@pytest.mark.parametrize("name", sorted(generated_tables()))
def test_a_table_of_a_document_is_made_from_the_committed_results(documents, name):
    page = (ROOT / documents.TABLES[name][0]).read_text()
    made = documents.table(name)
    assert documents.place(page, name, made) == page, "run python benchmarks/documents.py"
    for table in re.findall(r"(?:^\|.*(?:\n|$))+", made, re.M):
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1, table


def test_every_table_has_a_place_and_a_page_without_one_is_an_error(documents, monkeypatch, tmp_path):
    assert set(documents.TABLES) == generated_tables()
    with pytest.raises(SystemExit, match="no place for the table 'speed'"):
        documents.place("nothing here", "speed", "| a |")
    monkeypatch.setattr(documents, "RESULTS", tmp_path)
    assert documents.table("speed") is None


def test_no_committed_result_names_a_path_of_a_machine():
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        assert not re.search(r"/(home|work|tmp|root)/", path.read_text()), path.name


def test_rows_of_order_are_compared_user_by_user_with_the_first(documents):
    sequences = importlib.import_module("sequences")
    assert sequences.ndcg_of("-13b").tolist() == [0.0, 1.0, 0.5, 0.0]  # b is rank 11
    rows = {"EASE": {"ranks": "-31-"}, "NextItem": {"ranks": "113-"}, "SASRec": {"ranks": "---k"}}
    seen = "NextItem, tuned, on train and validation"
    rows[seen] = {"ranks": "1111"}  # not compared: it learned from more
    sequences.compare(rows)
    assert rows["NextItem"]["minus first"] == {"first": "NextItem", "ndcg@10": 0.0, "sem": 0.0}
    assert rows["EASE"]["minus first"]["ndcg@10"] == (-1 - 0.5 + 0.5) / 4
    assert "minus first" not in rows[seen]


@pytest.mark.parametrize("decay", [None, 0.5])
def test_every_search_of_order_uses_all_its_trials_and_finds_the_peak(documents, decay):
    search = importlib.import_module("sequence_trials")
    steps = {"mix": search.plus(-0.1, 0.1), "l2": search.times(0.5, 2.0)}

    def value(settings, decay):
        far = abs(settings["mix"] - 0.6) + abs(np.log2(settings["l2"] / 4)) + abs((decay or 0.8) - 0.8)
        return np.array([-far, -far])

    fitted = []
    trials = search.Trials(25, decay)
    found = trials.search({"mix": 0.3, "l2": 1.0}, steps, lambda settings: fitted.append(settings) or settings, value)
    assert found == ({"mix": 0.6, "l2": 4.0}, None if decay is None else 0.8, 0.0)
    assert len(fitted) == len(trials.found) == 25
    one = search.Trials(9, None)
    one.search(
        {"smoothing": 1.0}, {"smoothing": steps["l2"]}, dict, lambda settings, _: np.full(2, -settings["smoothing"])
    )
    assert len(one.found) == 9


@pytest.mark.parametrize(("gains", "chosen"), [([2.0, 1.0], 2.0), ([3.0, -1.0], 1.0)])
def test_the_defaults_of_a_search_stay_unless_surely_beaten(documents, gains, chosen):
    """The second gain, 1 on average, is within its standard error, 2."""
    search = importlib.import_module("sequence_trials")
    trials = search.Trials(2, None)
    values = {1.0: np.zeros(2), 2.0: np.array(gains)}
    found = trials.search({"l2": 1.0}, {"l2": (search.times(2.0)[0],)}, dict, lambda given, _: values[given["l2"]])
    assert found[0] == {"l2": chosen}
    assert trials.gain == (np.mean(gains), np.std(gains, ddof=1) / 2**0.5)


@pytest.fixture
def measured(tmp_path):
    source = sources.Source(sources.INVENTED, users=120, items=50)
    found = table1.run([source], folder=tmp_path / "kept", trials=0, rows=["edlae-full", "dlae", "popularity"])
    document = table1_page.as_json(found)
    for name in ("lastfm", "ml-1m"):
        document["data"][0] |= {"name": name, "title": f"The set {name}"}
        (tmp_path / f"table1-{name}.json").write_text(json.dumps({"machine": MACHINE, **document}))
    return tmp_path, document


@pytest.mark.slow
def test_the_page_holds_each_set_and_a_command_for_each_number(results_page, measured):
    folder, document = measured
    text = results_page.page(folder)
    assert text.index("## The set ml-1m") < text.index("## The set lastfm")
    for row in document["data"][0]["rows"]:
        assert text.count(f"{row['mean']['ndcg@100']:.4f} ± {row['sem']['ndcg@100']:.4f}") >= 2
        command = f"`offdiag reproduce steck2020 table1 --data lastfm=PATH --trials 0 --seed 0 --rows {row['row']}`"
        assert command in text
    assert "`python benchmarks/table1.py ml-1m`" in text
    assert "2 cores of some processor, 8 GB of memory" in text
    assert "$ " not in text  # nothing that the documentation test would run


def line(row, values, validation, **more):
    facts = {"row": row, "kind": "tuned", "emphasis": row.startswith("edlae"), "validation": validation, "n_users": 3}
    facts |= {
        "per_user": {"ndcg@100": values},
        "n_without_targets": 0,
        "tune_seconds": 2.0,
        "trials": 4,
        "settings": {},
    }
    facts |= {"mean": {"ndcg@100": float(np.mean(values))}, "fit_seconds": 1.0, "evaluate_seconds": 1.0}
    return facts | {"extra_peak_bytes": None, "n_bytes": 8} | more


def test_a_line_of_several_seeds_has_errors_over_users_and_over_seeds(results_page):
    seeds = importlib.import_module("seeds")
    lines = [line("edlae", [0.1, 0.2, 0.3], 0.2), line("edlae", [0.4, 0.5, 0.9], 0.4, fit_seconds=3.0)]
    found = seeds.merged(lines, [0, 7])
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9])
    assert found["mean"]["ndcg@100"] == pytest.approx(values.mean())
    assert found["sem"]["ndcg@100"] == pytest.approx(values.std(ddof=1) / np.sqrt(6))
    assert found["sem_seeds"]["ndcg@100"] == pytest.approx(0.2)  # of the means 0.2 and 0.6
    assert found["validation"] == pytest.approx(0.3)
    assert found["fit_seconds"] == 2.0
    assert [one["seed"] for one in found["by_seed"]] == [0, 7]


def test_the_larger_of_the_errors_over_users_and_seeds_decides(results_page):
    """A gain that every user of one seed has and no user of the other: sure over users, not over seeds."""
    seeds = importlib.import_module("seeds")
    base = np.linspace(0.1, 0.3, 3)
    part = [[line("dlae", [*base], 0.1), line("edlae", [*(base + gain)], 0.2)] for gain in (0.1, 0.0)]
    found = seeds.merged([part[0][1], part[1][1]], [0, 1]), seeds.merged([part[0][0], part[1][0]], [0, 1])
    told = table1.difference(*found)
    assert told["difference"] == pytest.approx(0.05)
    assert told["difference_sem"] == pytest.approx(0.1 * np.sqrt(1.5 / 5) / np.sqrt(6))
    assert told["difference_sem_seeds"] == pytest.approx(0.05)
    assert table1_claims.gap(*found).sem == told["difference_sem_seeds"]
    assert measured_values.with_verdict(0.05, told["difference_sem"]).endswith("better")
    assert measured_values.with_verdict(0.05, told["difference_sem"], 0.05) == "+0.0500 ± 0.0224 ± 0.0500"


def test_other_results_join_when_they_are_there(results_page, tmp_path):
    assert "Nothing has been measured yet" in results_page.page(tmp_path)
    cost = {"seconds": 2.0, "extra_peak_bytes": 3_000_000}
    evaluation = {
        "machine": MACHINE, "settings": {"dropout": 0.33, "l2": 300.0}, "batch_users": 1000, "goal": 0.1,
        "data": {"users": 10, "items": 20, "interactions": 30, "held_out": 3}, "split_seconds": 0.5, "fit": cost,
        "ours": cost, "dense": cost | {"seconds": 40.0}, "ratio": 0.05, "users_evaluated": 3,
        "mean": {"ndcg@100": 0.4}, "sem": {"ndcg@100": 0.01},
    }  # fmt: skip
    (tmp_path / "evaluation.json").write_text(json.dumps(evaluation))
    test = {"mean": {"ndcg@100": 0.4, "recall@20": 0.3}, "sem": {"ndcg@100": 0.01, "recall@20": None}}
    run = {"seconds": 3.0, "settings": {"dropout": 0.5, "l2": 123.456}, "test": test}
    carved = {"mean": {"recall_all@20": 0.2841, "ndcg@20": 0.2735}, "sem": {"recall_all@20": 0.002, "ndcg@20": 0.002}}
    tune = {
        "machine": MACHINE,
        "irspack": {
            "trials": 40, "ratio": 0.25, "runs": {"offdiag": [run], "irspack": [run]},
            "ours_minus_theirs": [{"difference": {"ndcg@100": 0.001}, "sem": {"ndcg@100": 0.002}}],
        },
        "ultragcn": {"settings": {"l2": 300.0}, "seconds": 20.0, "trials": 40, "test": carved},
    }  # fmt: skip
    (tmp_path / "tune.json").write_text(json.dumps(tune))
    one = {"seconds": 2.0, "excess": 1e-6, "certified": 2e-6, "weights": 1234.0, "ndcg@100": 0.45, "sem": 0.01}
    near = {"settings": "a|b", "ours": one, "irspack": one, "ratio": 1.0}
    slim = {
        "machine": MACHINE, "data": "ml-1m", "neighbours": [near],
        "slim": [{"l1": 2.0, "l2": 200.0, "time_ratio": 0.87, "ours": one, "irspack": one}],
    }  # fmt: skip
    (tmp_path / "slim.json").write_text(json.dumps(slim))
    ours = {"ndcg@100": 0.45, "sem": 0.01, "seconds": 5.0, "settings": {"l1": 2.0}}
    models = {"SLIM": {"ours": ours, "reference": ours | {"name": "irspack"}, "ratio": 0.9912, "ratio_sem": 0.001}}
    baselines = {"machine": MACHINE, "data": "ml-1m", "metric": "ndcg@100", "models": models}
    (tmp_path / "baselines.json").write_text(json.dumps(baselines))
    text = results_page.page(tmp_path)
    for words in (
        "ratio 0.050 (goal ≤ 0.1)", "0.250 (goal ≤ 0.3)", "+0.0010 ± 0.0020", "dropout 0.5, l2 123.5",
        "recall@20 is 0.2841 ± 0.0020 (goal ≥ 0.283)", "| 0.87 |", "| 1,234 |", "| a\\|b |", "| 0.9912 ± 0.0010 |",
        "`python benchmarks/tune.py`", "`python benchmarks/slim.py knn`",
    ):  # fmt: skip
        assert words in text, words
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1, table
