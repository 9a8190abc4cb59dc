"""docs/api.md and other text generated from the code: up to date, complete, and its examples run."""

import doctest
import inspect

import pytest

import offdiag as od
from docs import make_api

PLAIN = [name for name in od._HOMES if name not in od.MODELS]


def test_what_is_made_from_the_code_is_up_to_date():
    for path, text in make_api.files().items():
        assert path.read_text() == text, f"{path.name}: run python -m docs.make_api"


def test_every_public_name_is_on_the_page():
    page = (make_api.ROOT / "docs" / "api.md").read_text()
    for name in set(od.__all__) - {"__version__"}:
        assert f"# od.{name}\n" in page, name


@pytest.mark.parametrize("name", PLAIN)
def test_the_examples_of_other_names_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(getattr(od, name), name, globs={}):
        assert test.examples or not inspect.isfunction(getattr(od, name)), f"od.{name} has no example"
        ran.run(test)
    assert ran.summarize(verbose=False).failed == 0
