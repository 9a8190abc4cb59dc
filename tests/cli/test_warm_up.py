"""`offdiag warm-up`: afterwards, the usual commands compile nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import offdiag as od
from tests.fixtures.tables import write_table

pytestmark = pytest.mark.slow
WARM = """
import sys, warnings
from offdiag._kernels import machine_code
from offdiag.cli import warm_up
warnings.simplefilter("ignore")
for _ in warm_up.run(*([sys.argv[1].split(",")] if len(sys.argv) > 1 else [])):
    pass
"""
PRACTICE = """
import json, sys
from offdiag import cli
from offdiag._kernels import machine_code
for words in json.loads(sys.argv[1]):
    assert cli.main(words) == 0, words
"""
FACTS = """
import json
facts = {"compiled": machine_code.compilations, "types": machine_code.signatures()}
print(json.dumps(facts), file=sys.stderr)  # stdout is for the results of commands
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("warm")
    write_table(
        od.synthetic.catalogue(200, 40, 2500, communities=4, seed=2).interactions, place / "t.csv", ratings=True
    )
    return place


def facts(folder, code, *args, package=None):
    env = os.environ | ({} if package is None else {"PYTHONPATH": str(package)})
    command = [sys.executable, "-W", "ignore", "-c", code + FACTS, *args]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stderr.splitlines()[-1])


def commands(*models):
    """What people do with a model."""
    items = [line.split(",")[1] for line in Path("t.csv").read_text().splitlines()[1:9]]
    out = []
    for model in models:
        name, *options = model.split()
        file = f"{name}.od"
        out += [
            ["fit", "t.csv", "--model", name, "--out", file, "--validate", *options],
            ["recommend", file, "--histories", "t.csv", "--to", "csv"],
            ["recommend", file, "--history", items[0], "--reasons"],
            ["similar", file, items[0]],
            ["evaluate", "t.csv", file],
            ["explain", file, "--history", f"{items[0]},{items[1]}", "--item", items[2]],
            ["compress", file, "small.od", "--keep", "5"],
            ["recommend", "small.od", "--history", items[0]],
        ]
    return out


def test_the_usual_commands_need_no_types_that_warm_up_left_out(folder, monkeypatch):
    monkeypatch.chdir(folder)
    models = [
        "edlae", "edlae --value rating", "ease --dtype float64", "rdlae --dtype float64 --value rating", "sparse",
        "low-rank-edlae --rank 5 --iterations 3", "spectral --rank 5", "slim", "item-knn",
    ]  # fmt: skip
    warm = facts(folder, WARM)["types"]
    used = facts(folder, PRACTICE, json.dumps(commands(*models)))["types"]
    missing = {name: set(types) - set(warm.get(name, [])) for name, types in used.items()}
    assert {name: types for name, types in missing.items() if types} == {}
    assert sum(map(len, used.values())) > 20


def test_after_a_warm_up_a_new_process_compiles_nothing(folder, tmp_path, monkeypatch):
    """Really: with a copy of the package that holds no machine code; one model, because compiling takes its time."""
    monkeypatch.chdir(folder)
    source = Path(od.__file__).parent
    shutil.copytree(source, tmp_path / "offdiag", ignore=shutil.ignore_patterns("__pycache__"))
    fit, recommend = commands("ease")[:2]
    assert facts(folder, WARM, "EASE", package=tmp_path)["compiled"]
    assert facts(folder, PRACTICE, json.dumps([fit, recommend]), package=tmp_path)["compiled"] == []


def test_the_command_reports_what_it_did(run, json_of, monkeypatch):
    monkeypatch.setattr("offdiag.cli.warm_up.run", lambda: iter(["EASE"]))  # the work itself is tested above
    said = json_of("warm-up")
    assert said["kept"] in (True, False)
    code, out, err = run("warm-up")
    assert (code, err) == (0, "")
    assert "kept in" in out
