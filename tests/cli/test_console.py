"""The console: what is printed where, progress, and the command line as a process."""

import csv
import io
import json
import sys

import numpy as np
from rich.progress import Progress

import offdiag as od
from offdiag.cli import console, outputs


def test_ids_are_printed_verbatim_but_cannot_control_the_terminal(text_of, json_of, folder, monkeypatch):
    matrix = od.read(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])).matrix
    ids = np.array(["[red]", "a\x1b[31mb", ":smile:"])
    od.EASE(l2=1.0).fit(od.Interactions(matrix, np.arange(4), ids)).save(folder / "odd.od")
    lines = text_of("similar", "odd.od", "[red]")  # for a program: the ids as they are
    assert "a\x1b[31mb" in lines
    monkeypatch.setattr(outputs, "destination", lambda *_, **__: None)  # as on a terminal
    out = text_of("similar", "odd.od", "[red]")
    for shown in ("similar to [red]", ":smile:", "a\\x1b[31mb"):
        assert shown in out
    assert "\x1b" not in out
    assert json_of("similar", "odd.od", "[red]")[0]["item"] == "[red]"


def test_a_password_is_never_shown(fit, fails):
    fit("train.csv", "living.od")
    url = "postgresql://ann:hunter2@127.0.0.1:1/db"
    for args in (
        ["update", "living.od", url, "--table", "log"],
        ["update", "living.od", url],
        ["forget", "living.od", "--users", url, "--table", "log"],
        ["fit", url, "--table", "log", "--out", "x.od"],
        ["info", url, "--table", "log"],
        ["evaluate", url, "living.od", "--table", "log"],
        ["update", "living.od", "log.csv", "--nonsense", url],
        ["similar", url, "x"],
    ):
        assert "hunter2" not in fails(*args)


def test_a_detail_is_shown_and_the_bar_continues():
    bars = Progress(disable=True)
    work = console.Work(bars)
    work.begin("fitting · all")
    shown = []
    for stage, done in [("minimising · objective 9.5", 0.25), ("minimising · objective 9.1", 0.5), ("save", 0.1)]:
        work(stage, done)
        (task,) = bars.tasks
        shown.append((task.id, task.description, task.completed))
    first, second, last = shown
    assert first[1:] == ("fitting · all: minimising · objective 9.5", 0.25)
    assert second == (first[0], "fitting · all: minimising · objective 9.1", 0.5)
    assert last[0] != first[0]
    assert last[1:] == ("fitting · all: save", 0.1)
    work.begin("fitting again")
    work("save", 0.2)
    (task,) = bars.tasks
    assert (task.description, task.total) == ("fitting again: save", 1.0), (
        "the same stage of other work has its own bar"
    )


def test_lines_for_programs_hold_any_id_exactly(text_of, folder):
    ids = np.array(["a,b", 'say "hi"', "two\nlines", "carriage\rreturn", "\x1b[31mred", " space ", "ünï"])
    matrix = od.read(1 - np.eye(7)).matrix
    od.EASE(l2=1.0).fit(od.Interactions(matrix, np.arange(7), ids)).save(folder / "quoted.od")
    rows = list(csv.DictReader(io.StringIO(text_of("similar", "quoted.od", "--all", "-k", 6), newline="")))
    assert {row["item"] for row in rows} == {row["similar"] for row in rows} == set(ids.tolist())
    lines = text_of("similar", "quoted.od", "--all", "-k", 6, "--to", "jsonl")
    assert "\x1b" not in lines
    assert {json.loads(line)["similar"] for line in lines.splitlines()} == set(ids.tolist())


def test_text_is_wrapped_on_a_terminal_only(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    console.show_pairs({"name": "one two three four"})
    assert capsys.readouterr().out == "name  one two three four\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    console.show_pairs({"name": "one two three four"})
    console.message("one two three four")
    out, err = capsys.readouterr()
    assert out == "name  one two three\n      four\n"
    assert err == "offdiag: one two\n         three four\n"


def test_a_wide_table_is_replaced_by_a_narrow_one_where_it_has_no_room(capsys, monkeypatch):
    wide, narrow = (["a", ">b"], [["x", 1]]), (["a and b"], [["x 1"]])
    console.show_table(*wide, narrow=narrow)
    assert capsys.readouterr().out.splitlines() == ["a  b", "────", "x  1"]
    monkeypatch.setattr(console, "width_of", lambda stream: 3)
    console.show_table(*wide, narrow=narrow)
    assert capsys.readouterr().out.splitlines() == ["a", "and", "b", "───", "x 1"]
