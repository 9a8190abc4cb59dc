"""The command line: text and JSON output, and one clear line for every mistake."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

import offdiag as od
from offdiag import cli
from offdiag.cli import console, inputs
from tests.fixtures.tables import write_table

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [
    "demo",
    "fit",
    "tune",
    "compress",
    "update",
    "forget",
    "serve",
    "evaluate",
    "recommend",
    "similar",
    "explain",
    "info",
    "datasets",
    "reproduce",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with titles and one with whole numbers, a table of new users, and models of each."""
    place = tmp_path_factory.mktemp("cli")
    inter = od.synthetic.catalogue(360, 60, 5400, communities=5, seed=1).interactions
    write_table(inter.select_users(np.arange(300)), place / "train.csv", ratings=True)
    write_table(inter.select_users(np.arange(300, 360)), place / "new.csv", ratings=True)
    numbers = od.Interactions(inter.matrix, inter.user_ids, np.arange(100, 160))
    write_table(numbers, place / "numbers.csv", ratings=True)
    train = od.read(place / "train.csv")
    od.EDLAE(dropout=0.3, l2=20).fit(train).save(place / "model.od")
    od.EASE(l2=50).fit(train).save(place / "ease.od")
    od.Popularity().fit(train).save(place / "popular.od")
    od.EASE(l2=50).fit(od.read(place / "numbers.csv")).save(place / "numbers.od")
    return place


def start(folder, *args, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "offdiag", *map(str, args)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def command_options():
    for name, command in typer.main.get_command(cli.application()).commands.items():
        inner = [command]
        while inner:  # a command, or a group of commands such as reproduce
            command = inner.pop()
            inner += getattr(command, "commands", {}).values()
            for parameter in command.get_params(typer.Context(command)):
                yield name, parameter


# Help and documentation


def test_the_commands_are_those_of_the_architecture():
    assert sorted(typer.main.get_command(cli.application()).commands) == sorted(COMMANDS)


def test_without_a_command_the_help_is_printed(run):
    code, out, err = run()
    assert code == 0
    assert err == ""
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0
    assert "Example" in out
    assert f"offdiag {name}" in out


def test_every_option_has_a_help_text():
    for name, parameter in command_options():
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_every_command_and_option_is_documented():
    text = (ROOT / "docs" / "cli.md").read_text()
    sections = dict(re.findall(r"^## (\w[\w ]*)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    shared = set(inspect.signature(inputs.Columns).parameters)
    for name, parameter in command_options():
        if parameter.param_type_name == "argument" or "--help" in parameter.opts:
            continue
        where = sections["Reading data"] if parameter.name in shared else sections[name]
        for option in [*parameter.opts, *parameter.secondary_opts]:
            assert f"`{option}`" in where, f"{name} {option} is not in docs/cli.md"
    assert set(COMMANDS) <= set(sections)


def test_the_version_is_printed(run):
    assert run("--version") == (0, f"offdiag {od.__version__}\n", "")


# fit, info, evaluate


def test_fit_saves_a_model_with_its_metrics(run, folder):
    code, out, err = run("fit", "train.csv", "--out", "new.od", "--dropout", "0.3", "--validate", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["model"] == "EDLAE"
    assert said["settings"]["dropout"] == 0.3
    assert 0 < said["metrics"]["mean"]["ndcg@100"] < 1
    code, out, _ = run("info", "new.od", "--json")
    about = json.loads(out)
    assert about["metrics"]["mean"] == said["metrics"]["mean"]
    assert about["n_users"] == 300
    assert set(about["most_popular"][0]) == {"item", "total"}


def test_fit_on_everyone_equals_the_library(run, folder):
    assert run("fit", "train.csv", "-o", "same.od", "--dropout", "0.3", "--l2", "20")[0] == 0
    here, there = od.load(folder / "same.od"), od.load(folder / "model.od")
    np.testing.assert_array_equal(here.weights_.toarray(), there.weights_.toarray())


@pytest.mark.parametrize("model", ["edlae", "DLAE", "ease", "popularity"])
def test_fit_tells_a_person_what_it_did(run, model):
    code, out, _ = run("fit", "train.csv", "--out", f"{model}.tmp.od", "--model", model)
    assert code == 0
    assert f"model         {od.load(f'{model}.tmp.od').__class__.__name__}" in out
    assert "300 users" in out


@pytest.mark.parametrize(
    ("model", "texts", "expected"),
    [
        ("rdlae", ["max_diagonal=0.2", "item-power=0.5"], {"max_diagonal": 0.2, "item_power": 0.5}),
        ("edlae", ["propensity_power=-0.1", "l2=auto"], {"propensity_power": -0.1, "l2": "auto"}),
        ("slim", ["l1=2", "l2=20", "non-negative=false"], {"l1": 2, "l2": 20, "non_negative": False}),
        ("item-knn", ["neighbours=7", "shrink = 3.5"], {"neighbours": 7, "shrink": 3.5}),
        ("wmf", ["rank=4", "alpha=2"], {"rank": 4, "alpha": 2}),
        ("spectral", ["shrink=ridge:l2=30", "rank=5"], {"shrink": od.spectral.Ridge(l2=30), "rank": 5}),
    ],
)
def test_any_setting_can_be_given_by_its_name(run, folder, model, texts, expected):
    words = [word for text in texts for word in ("--set", text)]
    code, _, err = run("fit", "train.csv", "-o", "set.tmp.od", "--model", model, "--seed", 5, *words)
    assert (code, err) == (0, "")
    params = od.load(folder / "set.tmp.od").get_params()
    assert {name: params[name] for name in expected} == expected
    assert params.get("seed", 5) == 5


def test_fit_tells_how_slim_and_a_net_ended(run, folder):
    code, out, _ = run("fit", "train.csv", "-o", "ended.tmp.od", "--model", "slim", "--json")
    assert code == 0
    said, model = json.loads(out), od.load(folder / "ended.tmp.od")
    assert (said["objective"], said["gap"]) == (model.objective_, model.gap_)
    assert f"objective     {model.objective_:.8g}, within" in run("info", "ended.tmp.od")[1]
    pytest.importorskip("torch")
    options = ["--model", "mult-dae", "--rank", 5, "--epochs", 2]
    code, out, _ = run("fit", "train.csv", "-o", "ended.tmp.od", *options)
    assert code == 0
    best = od.load(folder / "ended.tmp.od").best_epoch_
    assert f"epochs        2, the weights are those after {best}\n" in out


def test_an_option_serves_every_model_that_has_the_setting(run, folder):
    code, _, err = run("fit", "train.csv", "-o", "knn.tmp.od", "--model", "item-knn", "--shrink", 4, "--user-power", 0)
    assert (code, err) == (0, "")
    assert od.load(folder / "knn.tmp.od").settings_["shrink"] == 4.0
    code, _, err = run("fit", "train.csv", "-o", "knn.tmp.od", "--item-power", 0.5)
    assert (code, err) == (0, "")
    assert od.load(folder / "knn.tmp.od").settings_["item_power"] == 0.5


def test_fit_reads_ratings_with_a_threshold_and_minimum_counts(run):
    options = ["--value", "rating", "--at-least", "4", "--min-users", "3", "--min-items", "2"]
    code, out, _ = run("fit", "train.csv", "--out", "rated.od", "--model", "ease", "--json", *options)
    assert code == 0
    expected = od.read("train.csv", value="rating")
    expected = od.prepare.min_counts(od.prepare.binarize(expected, at_least=4), users=3, items=2)
    said = json.loads(out)
    assert (said["users"], said["items"], said["interactions"]) == (
        expected.n_users, expected.n_items, expected.nnz
    )  # fmt: skip


def test_columns_can_be_given_by_position_and_the_separator_by_name(run, folder):
    lines = (folder / "train.csv").read_text().splitlines()[1:]
    (folder / "bare.tsv").write_text("\n".join("\t".join(reversed(line.split(",")[:2])) for line in lines))
    options = ["--user", "1", "--item", "0", "--separator", "tab", "--no-header", "--json"]
    code, out, _ = run("info", "bare.tsv", *options)
    assert code == 0
    assert json.loads(out)["users"] == 300


def test_info_describes_a_table(run):
    code, out, err = run("info", "train.csv", "--value", "rating")
    assert (code, err) == (0, "")
    assert "1 to 5" in out
    said = json.loads(run("info", "train.csv", "--json")[1])
    inter = od.read("train.csv")
    assert said["density"] == pytest.approx(inter.nnz / (inter.n_users * inter.n_items))
    assert said["most_popular"][0]["total"] == np.bincount(inter.matrix.indices).max()


def test_evaluate_gives_what_the_library_gives(run):
    code, out, err = run("evaluate", "new.csv", "model.od", "--metric", "ndcg@10", "--json")
    assert code == 0
    assert "cannot be checked" in err
    said = json.loads(out)["models"][0]
    model, inter = od.load("model.od"), od.read("new.csv")
    part = od.split.weak(inter, held_out=0.2, seed=0).test
    place = np.searchsorted(model.item_ids_, inter.item_ids)
    wide = [np.zeros((inter.n_users, len(model.item_ids_)), np.float32) for _ in range(2)]
    wide[0][:, place], wide[1][:, place] = part.histories.toarray(), part.targets.toarray()
    held_out = od.split.HeldOut(wide[0], wide[1], part.user_ids)
    assert said["mean"]["ndcg@10"] == pytest.approx(od.evaluate(model, held_out, ["ndcg@10"]).mean["ndcg@10"])


def test_evaluate_compares_models_with_the_first(run):
    code, out, _ = run("evaluate", "new.csv", "model.od", "ease.od", "popular.od", "--json")
    assert code == 0
    said = json.loads(out)
    assert [c["file"] for c in said["comparisons"]] == ["ease.od", "popular.od"]
    first, last = said["models"][0]["mean"], said["models"][2]["mean"]
    gap = said["comparisons"][1]["difference"]["ndcg@100"]
    assert gap == pytest.approx(last["ndcg@100"] - first["ndcg@100"])
    code, out, _ = run("evaluate", "new.csv", "model.od", "ease.od", "--metric", "coverage@5")
    assert code == 0
    assert "Difference from model.od" in out


def test_evaluate_takes_targets_from_a_file(run, folder):
    lines = (folder / "new.csv").read_text().splitlines()
    (folder / "shown.csv").write_text("\n".join([lines[0], *lines[1::2]]))
    (folder / "hidden.csv").write_text("\n".join([lines[0], *lines[2::2]]))
    code, out, _ = run("evaluate", "shown.csv", "model.od", "--targets", "hidden.csv", "--json")
    assert code == 0
    assert json.loads(out)["models"][0]["n_users"] > 50


def test_evaluate_says_which_items_it_leaves_out(run, folder):
    (folder / "odd.csv").write_text((folder / "new.csv").read_text() + "999,Nobody knows this,5\n")
    code, _, err = run("evaluate", "odd.csv", "model.od")
    assert code == 0
    assert "1 of" in err
    assert "unknown to the model" in err


# recommend, similar, explain


def test_recommend_gives_the_lists_of_the_library(run):
    model = od.load("model.od")
    a, b = model.item_ids_[[3, 7]].tolist()
    code, out, err = run("recommend", "model.od", "--history", f"{a},{b}", "--history", a, "-k", 4, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    for listed, expected in zip(said, model.recommend([[a, b], [a]], k=4), strict=True):
        assert [(x["item"], pytest.approx(x["score"])) for x in listed["items"]] == expected


def test_recommend_reads_histories_from_a_file(run):
    code, out, _ = run("recommend", "model.od", "--histories", "new.csv", "-k", 3, "--json")
    assert code == 0
    inter = od.read("new.csv")
    said = json.loads(out)
    assert [x["user"] for x in said] == inter.user_ids.tolist()
    expected = od.load("model.od").recommend(inter, k=3)
    assert [[i["item"] for i in x["items"]] for x in said] == expected.items.tolist()


def test_long_results_are_lines_divided_by_tabs(run, monkeypatch):
    monkeypatch.setattr(console, "MANY_ROWS", 10)
    code, out, _ = run("recommend", "model.od", "--histories", "new.csv", "-k", 3)
    assert code == 0
    assert out.splitlines()[0] == "user\trank\titem\tscore"


def test_unknown_ids_are_named_and_listed(run):
    code, out, err = run("recommend", "model.od", "--history", "Nope,Neither", "--json")
    assert code == 0
    assert "'Nope', 'Neither'" in err
    assert json.loads(out)[0]["unknown"] == ["Nope", "Neither"]
    assert len(json.loads(out)[0]["items"]) == 10  # as for an empty history: the popular items


def test_typed_ids_become_numbers_when_the_models_are(run):
    code, out, _ = run("recommend", "numbers.od", "--history", "101, 102,x,99999999999999999999", "--json")
    assert code == 0
    assert json.loads(out)[0]["unknown"] == ["x", "99999999999999999999"]
    assert not {101, 102} & {i["item"] for i in json.loads(out)[0]["items"]}
    assert run("similar", "numbers.od", "101", "-k", 2)[0] == 0


def test_an_id_with_a_comma_is_quoted(folder):
    model = od.EASE(l2=1.0).fit(od.Interactions(
        od.read(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])).matrix, np.arange(3), np.array(["Good, the Bad", "b", "c"])
    ))  # fmt: skip
    assert inputs.parse_history('"Good, the Bad", b', model) == ["Good, the Bad", "b"]
    assert inputs.parse_history("Good, the Bad", model) == ["Good, the Bad"]
    assert inputs.parse_history(" ", model) == []


def test_allow_and_block_lists_are_obeyed(run, folder):
    ids = od.load("model.od").item_ids_.tolist()
    (folder / "allow.txt").write_text("\n".join(ids[:6]) + "\n")
    (folder / "block.txt").write_text(ids[0] + "\n")
    options = ["--history", "", "-k", 50, "--allow", "allow.txt", "--block", "block.txt", "--json"]
    said = json.loads(run("recommend", "model.od", *options)[1])
    assert sorted(i["item"] for i in said[0]["items"]) == sorted(ids[1:6])


def test_ids_newer_than_the_model_are_ignored_and_reported(run, fails, folder):
    known = od.load("numbers.od").item_ids_.tolist()
    (folder / "stock.txt").write_text(f"{known[0]}\n{known[1]}\n9999\nnew\n")
    (folder / "gone.txt").write_text(f"{known[1]}\n8888\n")
    lists = ["--allow", "stock.txt", "--block", "gone.txt"]
    options = ["recommend", "numbers.od", "--history", f"{known[2]},7777", "--history", f"{known[3]}", *lists]
    code, out, err = run(*options, "--json")
    assert code == 0
    said = json.loads(out)
    assert [user["unknown"] for user in said] == [[7777, 9999, "new", 8888], [9999, "new", 8888]]
    assert [[item["item"] for item in user["items"]] for user in said] == [[known[0]]] * 2
    assert "left out: '7777'" in err
    assert "(--allow, --block): '9999', 'new', '8888'" in err
    assert run(*options)[1].count(str(known[0])) == 2
    for strict, words in ((lists, "allow holds .*9999, 'new'"), ([], "histories hold .*7777")):
        said = fails(
            "recommend", "numbers.od", "--history", f"{known[2]}{'' if strict else ',7777'}", *strict, "--strict"
        )
        assert re.search(words, said)


def test_a_short_list_ends_where_it_ends(run, folder):
    (folder / "zero.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(9) for i in range(u % 3 + 1)))
    run("fit", "zero.csv", "--out", "zero.od", "--model", "ease", "--l2", "1")
    for words, expected in ((["--history", "0,1"], [2]), (["--history", "0,1,2"], [])):
        said = json.loads(run("recommend", "zero.od", *words, "-k", "9", "--json")[1])
        assert [item["item"] for item in said[0]["items"]] == expected
        shown = run("recommend", "zero.od", *words, "-k", "9")[1]
        assert [line.split()[1] for line in shown.splitlines() if line.split()[:1] == ["1"]] == [
            str(i) for i in expected
        ]
    said = json.loads(run("similar", "zero.od", "0", "-k", "9", "--json")[1])
    assert sorted(item["item"] for item in said[0]["similar"]) == [1, 2]


def test_more_than_the_catalogue_gives_all_that_is_left(run):
    item = od.load("model.od").item_ids_[0]
    said = json.loads(run("recommend", "model.od", "--history", item, "-k", 10_000, "--json")[1])
    assert len(said[0]["items"]) == 59
    seen = json.loads(run("recommend", "model.od", "--history", item, "-k", 10_000, "--include-seen", "--json")[1])
    assert len(seen[0]["items"]) == 60


def test_similar_suggests_ids_that_look_alike(run, fails):
    item = od.load("model.od").item_ids_[5]
    assert repr(str(item)) in fails("similar", "model.od", item.upper()[:-3])
    assert repr(str(item)) in fails("explain", "model.od", "--history", item, "--item", item.replace("e", "a"))
    assert "whole numbers such as 100" in fails("similar", "numbers.od", "7")


def test_explain_sums_to_the_score(run):
    ids = od.load("model.od").item_ids_
    history = ",".join(ids[:4].tolist())
    code, out, err = run("explain", "model.od", "--history", f"{history},Nope", "--item", ids[9], "--json")
    assert code == 0
    assert "Nope" in err
    said = json.loads(out)
    assert sum(c["contribution"] for c in said["contributions"]) == said["score"]
    code, out, _ = run("explain", "model.od", "--history", history, "--item", ids[9])
    assert code == 0
    assert "█" in out
    assert f"score of {ids[9]}" in out


def test_ids_are_printed_as_they_are_and_never_steer_the_terminal(run, folder):
    matrix = od.read(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])).matrix
    ids = np.array(["[red]", "a\x1b[31mb", ":smile:"])
    od.EASE(l2=1.0).fit(od.Interactions(matrix, np.arange(4), ids)).save(folder / "odd.od")
    code, out, _ = run("similar", "odd.od", "[red]")
    assert code == 0
    assert "similar to [red]" in out
    assert ":smile:" in out
    assert "\x1b" not in out
    assert "a\\x1b[31mb" in out
    assert json.loads(run("similar", "odd.od", "[red]", "--json")[1])[0]["item"] == "[red]"


# datasets and demo


def test_datasets_are_listed_with_licence_and_address(run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, out, err = run("datasets")
    assert (code, err) == (0, "")
    assert all(name in out for name in od.datasets.names())
    said = json.loads(run("datasets", "ml-1m", "--json")[1])
    assert said["here"] == "no"
    assert said["licence"]
    assert said["addresses"][0].startswith("https://")
    assert "od.datasets.load('ml-1m')" in run("datasets", "ml-1m")[1]


def test_a_data_set_on_this_machine_is_read_by_its_name(run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "offdiag" / "ml-100k"
    place.mkdir(parents=True)
    rows = [f"{u}\t{i}\t{1 + (u + i) % 5}\t88125094{u}" for u in range(1, 9) for i in range(1, 12) if (u + 2 * i) % 3]
    (place / "u.data").write_text("\n".join(rows) + "\n")
    code, out, _ = run("fit", "ml-100k", "--out", tmp_path / "m.od", "--model", "ease", "--at-least", "3", "--json")
    assert code == 0
    assert json.loads(out)["users"] == 8


def test_the_demo_compares_explains_and_writes_everything(run, folder):
    code, out, err = run("demo", "--users", "400", "--items", "60", "--out", "shown")
    assert (code, err) == (0, "")
    for words in ("Popularity", "EASE", "DLAE", "EDLAE", " ± ", "recommends", "% from", "report.html"):
        assert words in out
    files = {"report.html", "model.od", "train.csv", "new-users.csv"}
    assert set(os.listdir(folder / "shown")) == files
    assert run("evaluate", "shown/new-users.csv", "shown/model.od")[0] == 0


def test_the_demo_takes_a_file_and_is_reproducible(run, folder):
    outs = []
    for place in ("one", "two"):
        code, out, _ = run("demo", "train.csv", "--out", place, "--seed", "3", "--json")
        assert code == 0
        outs.append(json.loads(out))
        assert set(os.listdir(folder / place)) == {"report.html", "model.od"}  # the user's data is not copied
    assert [m["mean"] for m in outs[0]["models"]] == [m["mean"] for m in outs[1]["models"]]
    assert outs[0]["samples"] == outs[1]["samples"]
    assert outs[0]["best"] in {"EASE", "DLAE", "EDLAE", "Popularity"}


# Mistakes


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", [], "empty file"),
        ("user,thing\n1,2\n", [], "item"),
        ("customer,product\n1,2\n", [], "try --user 'customer', --item 'product'"),
        ("a,b\n1,2\n", [], "name the columns to use, e.g. --user …, --item …,"),
        ("user,item\n1,2\n", ["--encoding", "utf-16"], "give --separator, or --format for lines of ids"),
        ("user;item\n1;2\n", ["--separator", ","], ";"),
        ("user,item,value\n1,2,nan\n", ["--value", "value"], "finite"),
        ("user,item,value\n1,2,inf\n", ["--value", "value"], "finite"),
        ("user,item,value\n1,2,-1\n", ["--value", "value"], "0 or more"),
        ("user,item,value\n1,2,x\n", ["--value", "value"], "numbers"),
        ("user,item\n1,\n", [], "item"),
        ("user,item,value\n1,2,3\n", ["--value", "value", "--at-least", "9"], "remain"),
        ("user,item\n1,2\n", ["--at-least", "4"], "--value"),
        ("user,item\n1,2\n", ["--format", "excel"], "format"),
        ("user,item\n1,2\n", ["--encoding", "klingon"], "encoding"),
        ("user,item\n1,2\n", ["--model", "magic"], "edlae"),
        ("user,item\n1,2\n", ["--dropout", "1"], "dropout"),
        ("user,item\n1,2\n", ["--dropout", "much"], "auto"),
        ("user,item\n1,2\n", ["--l2", "-3"], "l2"),
        ("user,item\n1,2\n", ["--kept-weight", "2"], "kept_weight"),
        ("user,item\n1,2\n", ["--dtype", "float16"], "float32"),
        ("user,item\n1,2\n", ["--storage", "sparse"], "packed"),
        ("user,item\n1,2\n", ["--model", "ease", "--dropout", "0.5"], "does not take --dropout"),
        ("user,item\n1,2\n", ["--model", "popularity", "--l2", "5"], "no settings"),
        ("user,item\n1,2\n", ["--set", "l2"], "NAME=VALUE"),
        ("user,item\n1,2\n", ["--set", "l2=5", "--set", "l2=6"], "twice"),
        ("user,item\n1,2\n", ["--set", "l2=5", "--l2", "6"], "give it once"),
        ("user,item\n1,2\n", ["--set", "magic=5"], "has no setting 'magic'; it has dropout, l2"),
        ("user,item\n1,2\n", ["--set", "seed=5"], "--seed"),
        ("user,item\n1,2\n", ["--set", "l2=low"], "l2 must be a number"),
        ("user,item\n1,2\n", ["--model", "item-knn", "--shrink", "hard"], "shrink must be a number"),
        ("user,item\n1,2\n2,2\n", ["--validate"], "held_out"),
        ("user,item\n1,2\n", ["--metric", "ndcg@10"], "--validate"),
        ("user,item\n1,2\n", ["--seed", "-1"], "--seed"),
        ("user,item\n1,2\n", ["--nonsense"], "--nonsense"),
        ("user,item\n1,1\n1,2\n2,1\n2,2\n", ["--dropout", "0", "--l2", "0"], "l2"),
    ],
)
def test_a_bad_table_or_setting_is_one_line_and_leaves_the_old_model(fails, folder, tmp_path, text, options, words):
    (tmp_path / "bad.csv").write_text(text)
    model = tmp_path / "old.od"
    model.write_bytes((folder / "model.od").read_bytes())
    assert words in fails("fit", tmp_path / "bad.csv", "--out", model, *options)
    assert model.read_bytes() == (folder / "model.od").read_bytes()


def test_files_that_are_missing_or_cannot_be_written_are_named(fails, folder, tmp_path):
    assert "nowhere.csv" in fails("fit", "nowhere.csv", "--out", "x.od")
    assert "does not exist" in fails("fit", "train.csv", "--out", tmp_path / "no" / "x.od")
    assert "folder" in fails("fit", "train.csv", "--out", tmp_path)
    assert "itself" in fails("fit", "train.csv", "--out", "train.csv")
    assert "nowhere.od" in fails("recommend", "nowhere.od", "--history", "a")
    assert "nowhere.txt" in fails("recommend", "model.od", "--history", "a", "--allow", "nowhere.txt")
    assert "is a file" in fails("demo", "--out", "train.csv")
    assert "is a file" in fails("demo", "--out", "train.csv/below")
    assert (folder / "train.csv").read_text().startswith("user,item")


def test_a_damaged_model_is_refused(fails, folder, tmp_path):
    whole = (folder / "model.od").read_bytes()
    (tmp_path / "half.od").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.od").write_text("not a model at all")
    for command in (["recommend", "--history", "a"], ["similar", "a"], ["info"]):
        name, *rest = command
        fails(name, tmp_path / "half.od", *rest)
    fails("recommend", tmp_path / "text.od", "--history", "a")
    fails("evaluate", "new.csv", tmp_path / "half.od")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fit", "train.csv"], "--out"),
        (["fit"], "DATA"),
        (["nonsense"], "nonsense"),
        (["recommend", "model.od"], "--history"),
        (["recommend", "model.od", "--history", "a", "--histories", "new.csv"], "one of the two"),
        (["recommend", "model.od", "--history", "a", "-k", "0"], "at least 1"),
        (["recommend", "model.od", "--history", "a", "-k", "many"], "'-k'"),
        (["recommend", "model.od", "--history", "", "--block", "new.csv", "--strict"], "block"),
        (["similar", "model.od"], "ITEM"),
        (["explain", "model.od", "--history", "a"], "--item"),
        (["evaluate", "new.csv", "model.od", "--metric", "ndgc@10"], "ndcg@10"),
        (["evaluate", "new.csv", "model.od", "--fold-in", "1"], "--fold-in"),
        (["evaluate", "new.csv", "model.od", "numbers.od"], "same items"),
        (["evaluate", "numbers.csv", "model.od"], "none of the"),
        (["evaluate", "new.csv"], "MODEL"),
        (["datasets", "ml-3m"], "ml-3m"),
        (["datasets", "--download"], "name it"),
        (["demo", "--users", "3"], "20 users"),
        (["info", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_call_is_one_line(fails, args, words):
    assert words in fails(*args)


def test_popularity_says_that_it_has_no_reasons(fails):
    item = od.load("popular.od").item_ids_[0]
    assert "same list" in fails("explain", "popular.od", "--history", item, "--item", item)


# As a process


def test_a_mistake_in_a_process_is_one_line_without_a_traceback(folder):
    ran = start(folder, "fit", "nowhere.csv", "--out", "x.od")
    out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_pipe_gets_pure_json_and_no_colours(folder):
    ran = start(folder, "recommend", "model.od", "--history", "", "--json", env=os.environ | {"COLUMNS": "20"})
    out, err = ran.communicate(timeout=60)
    assert (ran.returncode, err) == (0, "")
    longest = max((i["item"] for i in json.loads(out)[0]["items"]), key=len)
    ran = start(folder, "recommend", "model.od", "--history", "", env=os.environ | {"TERM": "xterm-256color"})
    out, _ = ran.communicate(timeout=60)
    assert longest in out
    assert "\x1b" not in out


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_leaves_early_is_no_error(folder, form):
    with start(folder, "recommend", "model.od", "--histories", "new.csv", "-k", "50", *form) as ran:
        ran.stdout.close()
        assert ran.stderr.read() == ""
    assert ran.returncode == console.BROKEN_PIPE


WATCHED = """
import signal, sys, time
from pathlib import Path
from offdiag import cli
from offdiag.cli import console

tell = console.Work.__call__


def watched(self, stage, fraction):
    if fraction > 0 and not Path("started").exists():
        Path("started").touch()
        for _ in range(600):  # a fast machine must not be done before the signal arrives
            time.sleep(0.1)
    tell(self, stage, fraction)


console.Work.__call__ = watched
signal.signal(signal.SIGINT, signal.default_int_handler)  # a program started in the background ignores it
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_ctrl_c_during_a_fit_leaves_the_old_model(folder, tmp_path):
    big = od.synthetic.interactions(400, 600, 10_000, names=False, seed=0)
    write_table(big, tmp_path / "big.csv", ratings=True)
    model = tmp_path / "model.od"
    model.write_bytes((folder / "model.od").read_bytes())
    settings = ["--dropout", "0.5", "--l2", "10", "--user-power", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED, "fit", "big.csv", "--out", str(model), *settings],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as ran:  # fmt: skip
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():  # the fit is under way
            assert ran.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (130, "")
    assert err == "offdiag: interrupted; what was there before is kept\n"
    assert model.read_bytes() == (folder / "model.od").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.csv", "model.od", "started"]
