"""Documentation that cannot rot: every Python block and every `$ command` runs, in order, in an empty folder.

A command that ends in `&` runs until the end of its page; what follows waits for its first line.
"""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.M | re.S)
NOT_RUN = ("make ", "pip install", "git clone", "cd ", "python -m venv")  # set-up commands, run by CI itself


def steps(text):
    for language, body in FENCE.findall(text):
        if language == "python":
            yield "python", body
        elif language == "output":
            yield "output", body  # of the block before it
        elif language == "console":
            for line in body.splitlines():
                if line.startswith("$ ") and not line[2:].startswith(NOT_RUN):
                    yield "console", line[2:]


@pytest.fixture
def background():
    """Starts a command, waits for its first line, and stops it at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(words):
            running = stack.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
            stack.callback(running.terminate)
            assert "serving" in running.stderr.readline()

        yield start


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_example_of_the_page_runs(page, tmp_path, monkeypatch, capsys, background):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for kind, text in steps(page.read_text()):
        if kind == "python":
            capsys.readouterr()
            exec(compile(text, f"{page.name} python block", "exec"), names)
        elif kind == "output":
            assert capsys.readouterr().out == text
        else:
            words = shlex.split(text.removesuffix("&"))
            if words[0] == "offdiag":
                words = [sys.executable, "-m", "offdiag", *words[1:]]
            if text.endswith("&"):
                background(words)
                continue
            ran = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
            assert ran.returncode == 0, f"$ {text}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
