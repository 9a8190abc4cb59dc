"""The console: what is printed where, progress, and the command line as a process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.progress import Progress

import offdiag as od
from offdiag.cli import console, outputs


def start(folder, *args, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "offdiag", *args],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def test_long_tables_are_lines_separated_by_tabs(capsys, monkeypatch):
    monkeypatch.setattr(console, "MANY_ROWS", 10)
    console.show_table(["user", ">rank"], [[n, 1] for n in range(11)])
    assert capsys.readouterr().out.splitlines()[:2] == ["user\trank", "0\t1"]


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
