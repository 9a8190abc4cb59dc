"""The command line as a process: exit codes, one line for a mistake, pipes."""

import json
import os
import subprocess
import sys
import threading

import pytest

from offdiag.cli import runner


def start(folder, *args, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "offdiag", *args],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


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
    assert ran.returncode == runner.BROKEN_PIPE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_messages_that_cannot_be_written_do_not_change_the_exit_code(folder):
    with open("/dev/full", "w") as full:
        codes = [
            subprocess.run([sys.executable, "-m", "offdiag", *words], cwd=folder, stderr=full, timeout=120).returncode
            for words in (["fit", "nowhere.csv", "--out", "x.od"], ["fit", "train.csv", "--out", "x.od", "--l2", "9"])
        ]
    assert codes == [2, 0]


def test_a_thread_that_cannot_start_is_one_line(fails, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert "not enough memory" in fails("fit", "train.csv", "--out", "x.od", "--l2", "9")
