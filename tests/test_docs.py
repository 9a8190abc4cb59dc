"""Documentation that cannot rot: every Python block and every `$ command` runs, in order, in an empty folder.

A command that ends in `&` runs until the end of its page; what follows waits for its first line. A block whose title
is another package runs where that package is installed.
"""

import contextlib
import functools
import importlib.util
import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

import offdiag as od
from docs.api_pages import anchor
from offdiag import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEXT_TO_DOCS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]  # prose, without blocks to run
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.M | re.S)
PEERS = ("implicit", "irspack", "RecTools", "LensKit", "RecBole")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
NOT_RUN = ("make ", "pip install", "git clone", "cd ", "python -m venv")  # set-up commands, run by CI itself


def steps(text):
    for language, title, body in FENCE.findall(text):
        if title.strip() in {f'title="{peer}"' for peer in PEERS}:
            if importlib.util.find_spec(title.split('"')[1].lower()):
                yield "python", body
        elif language == "python":
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
@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "api"], ids=lambda p: p.name)
def test_every_example_of_the_page_runs(page, tmp_path, monkeypatch, capsys, background):
    """Those of the reference are docstrings, which tests/test_api_page.py runs."""
    monkeypatch.chdir(tmp_path)
    log = od.synthetic.interactions(300, 40, 3_000, seed=0)
    log.to_polars().select("user", "item").write_csv("orders.csv")  # a table of the reader's
    names = {"__name__": page.stem}
    for kind, text in steps(page.read_text()):
        if kind == "python":
            capsys.readouterr()
            exec(compile(text, f"{page.name} python block", "exec"), names)
        elif kind == "output":
            assert capsys.readouterr().out == text
        else:
            words = shlex.split(text.removesuffix("&"))
            ours = words[0].removeprefix(".venv/bin/") == "offdiag"
            if text.endswith("&"):
                background([sys.executable, "-m", "offdiag", *words[1:]] if ours else words)
            elif ours:  # in this process, which has loaded the libraries: tests/cli/test_console.py starts the program
                capsys.readouterr()
                code = cli.main(words[1:])
                out, err = capsys.readouterr()
                assert code == 0, f"$ {text}\n{out}\n{err}"
            else:
                ran = subprocess.run(words, capture_output=True, text=True)
                assert ran.returncode == 0, f"$ {text}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("page", [*PAGES, *NEXT_TO_DOCS], ids=lambda p: p.name)
def test_every_command_of_the_page_exists_with_its_options(page):
    """Those that are not run, too: in the text, and in blocks for a place that the tests do not have."""
    for line in commands_on(page.read_text()):
        group, words = typer.main.get_command(cli.application()), shlex.split(line, comments=True)[1:]
        while words and hasattr(group, "commands") and (found := group.commands.get(words[0])):
            group, words = found, words[1:]
        parameters = group.get_params(typer.Context(group))
        known = {name for one in parameters for name in [*one.opts, *one.secondary_opts]} | {"--help"}
        used = {word.partition("=")[0].rstrip(",") for word in words if re.match(r"--?[a-z]", word)}
        assert used <= known, f"{page.name}: offdiag has no {sorted(used - known)} in: {line}"
        assert not hasattr(group, "commands") or not words or words[0][0] in "-C…", f"{page.name}: {line}"


def commands_on(text):
    blocks = "".join(
        body for _, _, body in re.findall(r"^```(sh|bash|text|console)([^\n]*)\n(.*?)^```", text, re.M | re.S)
    )
    lines = re.findall(r"^(?:\$ )?(offdiag [a-z-]+ .*)$", blocks.replace("\\\n", " "), re.M)
    return [*lines, *re.findall(r"`(offdiag [a-z-]+ [^`]*)`", re.sub(r"\s*\n\s*", " ", without_blocks(text)))]


@pytest.mark.parametrize("page", [*PAGES, *NEXT_TO_DOCS], ids=lambda p: p.name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for target, heading in LINK.findall(without_blocks(page.read_text())):
        place = page.parent / target if target else page
        assert place.exists(), f"{page.name} links to {target}"
        if heading and place.suffix == ".md":
            assert heading in headings(place), f"{page.name} links to {target}#{heading}"


def without_blocks(text):
    return re.sub(r"^(```+).*?^\1", "", text, flags=re.M | re.S)


@functools.cache
def headings(page):
    """The anchors that a forge and the site give the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", without_blocks(page.read_text()), re.M)
    return {anchor(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)) for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *NEXT_TO_DOCS], ids=lambda p: p.name)
def test_a_list_begins_after_an_empty_line(page):
    """A forge does without it; the site would run the list into the paragraph before."""
    lines = without_blocks(page.read_text()).splitlines()
    for before, line in itertools.pairwise(lines):
        inside = re.match(r"\s*([-*]|\d+\.) |\s|#|$", before)
        assert inside or not re.match(r"[-*] |\d+\. ", line), f"{page.name}: {line}"


def test_the_site_leads_to_every_page():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    made = {"changelog.md", "contributing.md"}  # by docs/site/hooks.py
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES[1:]}
    assert sorted(leaves(nav)) == sorted(pages | made | notebooks)


def leaves(nav):
    for entry in nav:
        found = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from [found] if isinstance(found, str) else leaves(found)
