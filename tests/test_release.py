"""What a package index and a reader of the repository see: the README, versions, bounds."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import offdiag as od
from tests import release
from tests.release import __main__ as check

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def standalone():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.standalone


def test_the_readme_of_the_package_has_no_link_into_the_repository(standalone):
    text = standalone((ROOT / "README.md").read_text())
    assert "pip install offdiag" in text
    assert "![" not in text
    assert all(target.startswith(("http", "#")) for target in re.findall(r"\]\(([^)]*)\)", text))
    assert "<!--" not in text


def test_addresses_and_anchors_stay_links_in_the_readme_of_the_package(standalone):
    assert standalone("[a](https://a.example) [b](#b) [c](c.md)").startswith("[a](https://a.example) [b](#b) c\n")


def test_every_file_has_the_version_of_the_package():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == od.__version__
    assert str(yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]) == od.__version__


def test_every_dependency_has_a_lower_bound_that_a_release_is_tested_with():
    found = check.oldest(check.project()["dependencies"])
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", one) for one in found), found
    assert "numpy==" in " ".join(found)


def test_every_python_that_is_promised_is_one_that_a_release_looks_for():
    words = check.project()["classifiers"]
    promised = {one.rpartition(" ")[2] for one in words if re.search(r":: 3\.\d+$", one)}
    assert promised <= set(check.PYTHONS)
    assert release.__doc__
