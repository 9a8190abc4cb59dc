"""The commits of the pages for contributors apply to this tree, and the tests they add pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / "contributing" / f"add-a-{kind}.md" for kind in ("metric", "format", "solver", "model")]


def commit(page):
    return re.search(r"^```diff\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)[1]


def added_tests(diff):
    return re.findall(r"^\+\+\+ b/(tests/\S*test_\w+\.py)$", diff, re.M)


@pytest.mark.slow
def test_the_commit_of_every_page_applies_and_its_tests_pass(tmp_path):
    for name in ("src", "tests"):  # with the times of the files, so compiled loops are not compiled again
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("golden", ".pytest_cache"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    new = []
    for page in PAGES:
        diff = commit(page)
        ran = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, capture_output=True)
        assert ran.returncode == 0, f"{page.name}: {ran.stderr}"
        new += added_tests(diff)
    assert len(new) == len(PAGES)
    env = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *new]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_page_names_files_that_exist_or_that_its_commit_makes(page):
    text = page.read_text(encoding="utf-8")
    made = set(re.findall(r"^\+\+\+ b/(\S+)$", commit(page), re.M))
    for name in re.findall(r"`([\w/]+\.(?:py|toml|md))`", text):
        places = [ROOT / name, ROOT / "src" / "offdiag" / name]
        assert any(place.exists() for place in places) or any(path.endswith(name) for path in made), name
