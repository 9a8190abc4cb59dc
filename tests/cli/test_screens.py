"""What a terminal of 80 columns shows, captured from tmux: nothing is wrapped by the terminal, no word is broken."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.tables import write_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
SECONDS = 600  # for all commands on a busy machine
DRAWN = "─█"  # rules and bars are not words

COMMANDS = {
    "fit": "fit train.csv --out edlae.od --validate",
    "tune": "tune train.csv --trials 4 --seed 1",
    "evaluate": "evaluate new.csv model.od ease.od",
    "evaluate many": "evaluate new.csv model.od " + " ".join(f"--metric ndcg@{k}" for k in (5, 10, 20, 50, 100)),
    "recommend": "recommend model.od --histories few.csv -k 3 --reasons",
    "similar": "similar model.od '{item}' -k 5",
    "explain": "explain model.od --history '{item},{other}' --item '{third}'",
    "info": "info model.od",
    "info data": "info train.csv",
    "error": "fit train.csv --out edlae.od --model edlea",
    "help": "recommend --help",
}


MARK = "====="
RUN_ALL = """
import json, sys
from offdiag import cli
from offdiag.cli import runner
runner._note_compiling = lambda: None  # which program compiles a loop, and when, is chance
for name, words in json.load(open("commands.json")).items():
    print(sys.argv[1], name, flush=True)
    cli.main(words)
"""


def tmux(folder, *words):
    command = ["tmux", "-L", f"offdiag-tests-{os.getpid()}", "-f", os.devnull, *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True)
    return ran.stdout


def captured(folder, session, *how):
    """What each command has printed, from the screen and the lines above it."""
    text = tmux(folder, "capture-pane", "-p", *how, "-S", "-", "-t", session)
    parts = re.findall(rf"^{MARK} (.*?)\n(.*?)(?=^{MARK} |\Z)", re.sub(r" +$", "", text, flags=re.M), re.M | re.S)
    return {name: shown.rstrip().splitlines() for name, shown in parts}


@pytest.fixture(scope="module")
def screens(tmp_path_factory):
    """Each command in 80 and in 200 columns, and in 80 with the lines joined that the terminal has wrapped."""
    place = tmp_path_factory.mktemp("screens")
    inter = od.synthetic.catalogue(260, 60, 4000, communities=5, seed=1).interactions
    write_table(inter.select_users(np.arange(200)), place / "train.csv", ratings=True)
    write_table(inter.select_users(np.arange(200, 260)), place / "new.csv", ratings=True)
    write_table(inter.select_users(np.arange(200, 203)), place / "few.csv", ratings=True)
    train = od.read(place / "train.csv")
    od.EDLAE(dropout=0.3, l2=20).fit(train).save(place / "model.od")
    od.EASE(l2=50).fit(train).save(place / "ease.od")
    ids = dict(zip(("item", "other", "third"), train.item_ids.tolist(), strict=False))
    commands = {name: shlex.split(text.format(**ids)) for name, text in COMMANDS.items()}
    (place / "commands.json").write_text(json.dumps(commands))
    (place / "all.py").write_text(RUN_ALL)
    server = f"offdiag-tests-{os.getpid()}"
    try:
        for width in ("80", "200"):
            inner = f"{shlex.quote(sys.executable)} all.py {MARK}; tmux -L {server} wait-for -S done{width}; exec cat"
            options = ["set", "-g", "history-limit", "5000", ";"] if width == "80" else []
            tmux(
                place,
                "start-server",
                ";",
                *options,
                "new-session",
                "-d",
                "-x",
                width,
                "-y",
                "50",
                "-s",
                f"w{width}",
                inner,
            )
        for width in ("80", "200"):
            tmux(place, "wait-for", f"done{width}")
        found = [captured(place, "w80"), captured(place, "w200"), captured(place, "w80", "-J")]
    finally:
        subprocess.run(["tmux", "-L", server, "kill-server"], capture_output=True, check=False)
    narrow, wide, joined = found
    assert list(narrow) == list(COMMANDS)
    return {name: {80: narrow[name], 200: wide[name], "joined": joined[name]} for name in COMMANDS}


def words_of(lines):
    """Without punctuation, what is drawn, and times, which differ from run to run."""
    text = re.sub(r"\d[\d.]* s\b", "", " ".join(lines))
    return {word.strip(",;:") for word in text.split() if not set(word) <= set(DRAWN)}


def test_every_screen_fits_and_the_terminal_wraps_nothing(screens):
    for name, shown in screens.items():
        lines = shown[80]
        assert lines == shown["joined"], f"{name}: the terminal had to wrap a line"
        assert max(map(len, lines)) <= 80, name
        assert not any("Traceback" in line for line in lines), name


def test_every_word_in_80_columns_is_a_word_in_200(screens):
    for name, shown in screens.items():
        narrow, wide = (words_of(shown[width]) for width in (80, 200))
        assert narrow == wide, name


def test_continued_lines_hang_below_their_values(screens):
    lines = screens["fit"][80]
    at = next(n for n, line in enumerate(lines) if line.startswith("settings "))
    column = lines[at].index("dropout")
    assert lines[at + 1].startswith(" " * column)
    assert lines[at + 1][column] != " "
    error, *rest = screens["error"][80]
    assert error.startswith("offdiag: --model takes ")
    assert rest
    assert all(re.match(" {9}[^ ]", line) for line in rest)
    assert " ".join(" ".join(rest).split()).endswith("did you mean 'edlae'?")


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("fit", ["metric", "mean", "± standard error"]),
        ("tune", ["setting", "best", "within 1 % of the best", "explains"]),
        ("evaluate", ["model", "recall@20", "±", "recall@50", "±", "ndcg@100", "±"]),
        ("evaluate many", ["model", "metric", "mean", "±"]),
        ("recommend", ["rank", "item", "score"]),
        ("similar", ["rank", "similar to", "score"]),
        ("explain", ["because of", "adds"]),
    ],
)
def test_mean_and_error_have_columns_of_their_own_that_align(screens, name, head):
    lines = screens[name][80]
    at = next(n for n, line in enumerate(lines) if set(line) == {"─"} and all(part in lines[n - 1] for part in head))
    first = lines[at + 1]
    assert len(lines[at]) >= len(lines[at - 1])
    for column in re.finditer(r"±(?! )|[a-z]+@\d+", lines[at - 1]):  # right-aligned: header and number end together
        if "metric" not in lines[at - 1]:
            assert re.fullmatch(r".*(\d|-)", first[: column.end()]), (name, column[0])
            assert first[column.end() : column.end() + 1] in ("", " ")


def test_tune_says_whether_tuning_helped_and_why_a_trial_was_chosen(screens):
    text = " ".join(" ".join(screens["tune"][80]).split())
    assert re.search(r"gain .*(over automatic|worse than automatic|automatic settings were chosen)", text)
    assert re.search(r"chosen trial \d+: ", text)
