"""docs/api.md and other text generated from the code: up to date, complete, and its examples run."""

import doctest
import inspect
from operator import attrgetter

import numpy as np
import pytest

import offdiag as od
from docs import make_api

PLAIN = [name for name in od._HOMES if name not in od.MODELS]
WITHOUT_EXAMPLE = {"Gram", "Interactions", "Tuned"}  # made by od.gram, od.read and od.tune, which have one
# Modules of which every public name has an example.
MODULES = ["datasets", "prepare", "split", "synthetic", *(f"lab.{name}" for name in od.lab.__all__)]
NEED_TORCH = {"lab.layers", "lab.resnet", "lab.sampled"}


def test_what_is_made_from_the_code_is_up_to_date():
    for path, text in make_api.files().items():
        assert path.read_text() == text, f"{path.name}: run python -m docs.make_api"


def test_every_public_name_is_on_the_page():
    page = (make_api.ROOT / "docs" / "api.md").read_text()
    for name in set(od.__all__) - {"__version__"}:
        assert f"# od.{name}\n" in page, name


def run_examples(name):
    """The number of examples in a docstring, none of which fails; ``np`` and ``od`` are given."""
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    found = doctest.DocTestFinder(recurse=False).find(attrgetter(name)(od), name, globs={"np": np, "od": od})
    for test in found:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, name
    return sum(len(test.examples) for test in found)


@pytest.mark.parametrize("name", [*PLAIN, "Result.compare", "Result.to_dict"])
def test_every_other_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(name) or name in WITHOUT_EXAMPLE, f"od.{name} has no example"


def public_names(path):
    """The functions of a module (in the lab, the classes too) or the methods of a class."""
    owner = attrgetter(path)(od)
    for name in getattr(owner, "__all__", dir(owner)):
        value = getattr(owner, name)
        listed = (
            hasattr(owner, "__all__") or inspect.isclass(owner) or getattr(value, "__module__", "") == owner.__name__
        )
        described = inspect.isfunction(value) or (inspect.isclass(value) and path.startswith("lab."))
        if listed and described and not name.startswith("_"):
            yield f"{path}.{name}"


@pytest.mark.parametrize("owner", [*MODULES, "Interactions"])
def test_every_name_of_it_has_an_example_that_runs(owner, tmp_path, monkeypatch):
    if owner in NEED_TORCH:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names = list(public_names(owner))
    assert names
    assert [name for name in names if not run_examples(name)] == []


@pytest.mark.slow
def test_the_example_of_the_cluster_runs(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    monkeypatch.chdir(tmp_path)
    assert run_examples("cluster")
