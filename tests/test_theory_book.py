"""docs/theory is a book: every page is in its contents and leads to the next, and its lists are true."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from docs import make_claims

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs" / "theory"
CONTENTS = (BOOK / "README.md").read_text()
CHAPTERS = re.findall(r"^\| (\d+) \| \[[^]]+\]\(([\w-]+\.md)\)", CONTENTS, re.M)
NAMES = [name for _, name in CHAPTERS]
LISTS = {"emphasis.md", "rivals.md", "errata.md", "claims.md"}  # measurements and lists, not results


def test_every_page_is_in_the_contents_once():
    assert sorted(NAMES) == sorted(path.name for path in BOOK.glob("*.md") if path.name != "README.md")
    assert [int(number) for number, _ in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))


@pytest.mark.parametrize(("number", "name"), CHAPTERS, ids=NAMES)
def test_every_page_has_its_number_and_leads_to_the_next(number, name):
    text = (BOOK / name).read_text()
    assert text.startswith(f"# {number}. ")
    following = NAMES[int(number)] if int(number) < len(NAMES) else "README.md"
    assert re.search(rf"^(Next|Back).*\]\({re.escape(following)}\)$", text.strip().splitlines()[-1]), following


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LISTS])
def test_every_result_has_a_question_an_answer_and_an_example(name):
    text = (BOOK / name).read_text()
    assert "**The question.**" in text
    assert "**The result" in text
    assert "```python" in text


def test_the_list_of_claims_is_what_the_committed_runs_say():
    assert make_claims.PAGE.read_text() == make_claims.page(), "run python -m docs.make_claims"


def test_every_paper_with_a_run_is_in_the_list_of_claims():
    assert {path.name for path in (ROOT / "docs" / "papers").iterdir() if path.is_dir()} == set(make_claims.PAPERS)


def test_a_cell_of_the_list_cannot_break_its_table():
    assert make_claims.table(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |\n"


@cache
def functions(file):
    return {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", sorted(BOOK.glob("*.md")), ids=lambda path: path.name)
def test_every_test_that_a_page_names_exists(page):
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text()):
        assert (ROOT / file).exists(), file
        assert not name or name in functions(file), f"{file}::{name}"


def test_every_known_erratum_is_on_the_page_with_its_evidence():
    text = (BOOK / "errata.md").read_text()
    rows = [line for line in text.splitlines() if re.match(r"\| \**[EJ]\d*", line)]
    marks = {re.match(r"\| \**([EJ]\d*)", row)[1] for row in rows}
    assert marks >= {f"E{n}" for n in range(1, 18)} | {"J", "J3", "J4", "J5"}
    assert all("`tests/" in row or "`offdiag reproduce" in row for row in rows)
