"""The reference and other text generated from the code: up to date, complete, and its examples run."""

import doctest
import inspect
from operator import attrgetter
from types import FunctionType, ModuleType

import numpy as np
import pytest

import offdiag as od
from docs import api_pages, make_api

NEED_TORCH = {"lab.layers", "lab.resnet", "lab.sampled"}
OWNERS = [*od._HOMES, *(name for name in od._MODULES if name not in ("cluster", "lab"))]
OWNERS += [f"lab.{name}" for name in od.lab.__all__]


def test_what_is_made_from_the_code_is_up_to_date():
    for path, text in make_api.files().items():
        assert path.read_text() == text, f"{path.name}: run python -m docs.make_api"


def test_every_public_name_has_a_section_and_a_line_in_the_index():
    sections = "".join(path.read_text() for path in (make_api.ROOT / "docs" / "api").glob("*.md"))
    index = (make_api.ROOT / "docs" / "api.md").read_text()
    for name in set(od.__all__) - {"__version__"}:
        title = name if name in od._MODULES or inspect.isclass(getattr(od, name)) else f"{name}()"
        assert f"# od.{title}\n" in sections, name
        assert f"[`od.{name}`](" in index or f"[od.{name}](" in index, name


def test_no_page_of_the_reference_is_left_over():
    kept = set((make_api.ROOT / "docs" / "api").iterdir())
    assert kept == {path for path in make_api.files() if path.parent.name == "api"}


def test_every_method_on_the_pages_has_an_example():
    """Of its own, or in its class; the tests below run them."""
    for page in api_pages.pages():
        for shown, method, cls in (found for name, value in page.names for found in methods_below(name, value)):
            assert ">>> " in api_pages.doc(method) or f".{method.__name__}(" in api_pages.doc(cls), shown


def methods_below(name, value):
    for inner, one in api_pages.inside(name, value):
        if isinstance(one, FunctionType) and inspect.isclass(value):
            yield inner, one, value
        yield from methods_below(inner, one)


def public_names(owner, seen):
    """The name itself or those in its module, and the methods of classes, each once."""
    value = attrgetter(owner)(od)
    if isinstance(value, ModuleType):
        listed = getattr(value, "__all__", dir(value))
        for title, _ in api_pages.members(owner, value):
            if (name := title.removeprefix("od.")).rpartition(".")[2] in listed:
                yield from public_names(name, seen)
        return
    if owner not in od.MODELS:  # their examples run in tests/models/test_fields.py
        yield owner
    for name in dir(value) if inspect.isclass(value) else ():
        static = inspect.getattr_static(value, name)
        method = getattr(static, "__func__", static)
        ours = isinstance(method, FunctionType) and method.__module__.startswith("offdiag.")
        if not ours or method in seen or name.startswith("_"):
            continue
        seen.add(method)
        documented_elsewhere = not method.__doc__ and inspect.getdoc(method)  # in the base that it overrides
        used_by_its_class = ">>> " not in (method.__doc__ or "") and f".{name}(" in value.__doc__
        if not documented_elsewhere and not used_by_its_class:
            yield f"{owner}.{name}"


def run_examples(name):
    """The number of examples in a docstring, none of which fails; ``np`` and ``od`` are given."""
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    found = doctest.DocTestFinder(recurse=False).find(attrgetter(name)(od), name, globs={"np": np, "od": od})
    for test in found:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, name
    return sum(len(test.examples) for test in found)


SEEN = set()
NAMES = {owner: list(public_names(owner, SEEN)) for owner in OWNERS}


@pytest.mark.parametrize("owner", [owner for owner, names in NAMES.items() if names])
def test_every_public_name_has_an_example_that_runs(owner, tmp_path, monkeypatch):
    if owner in NEED_TORCH:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert [name for name in NAMES[owner] if not run_examples(name)] == []


@pytest.mark.slow
def test_every_name_of_the_cluster_has_an_example_that_runs(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    monkeypatch.chdir(tmp_path)
    assert run_examples("cluster")
    with od.cluster.connect("local:1"):
        assert [name for name in public_names("cluster", set()) if not run_examples(name)] == []
