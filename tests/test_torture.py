"""The torture campaign in a short form: every part runs, finds nothing, and would notice what it looks for."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import offdiag as od
from tests.torture import forks, mutate
from tests.torture.found import Campaign

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_a_short_campaign_finds_nothing(tmp_path):
    path = os.pathsep.join([str(Path(od.__file__).parents[1]), str(ROOT)])
    env = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    parts = [word for name in ("kills", "damage", "requests", "growth") for word in ("--only", name)]
    command = [sys.executable, "-m", "tests.torture", "--minutes", "0.05", *parts, "--out", tmp_path / "found.json"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "found.json").read_text())["campaigns"]
    assert [one["findings"] for one in found] == [[]] * 4
    assert all(one["trials"] for one in found)


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        (forks.Ran(70, "", "Traceback (most recent call last)", 0.1), "exit code 70"),
        (forks.Ran(2, "", "Traceback (most recent call last)\nKeyError: 3\n", 0.1), "a traceback"),
        (forks.Ran(2, "", "something\n", 0.1), "not one line"),
        (forks.Ran(-11, "", "", 0.1), "exit code -11"),
    ],
)
def test_an_end_that_is_not_clean_is_a_finding(ran, words):
    assert words in ran.broken


@pytest.mark.parametrize("ran", [forks.Ran(0, "", "", 0.1), forks.Ran(2, "", "offdiag: no such file\n", 0.1)])
def test_success_and_an_error_of_one_line_are_no_findings(ran):
    assert ran.broken is None


def test_a_forged_model_has_right_checksums(tmp_path):
    from offdiag.files import container

    od.EASE(l2=5.0).fit(od.synthetic.interactions(40, 12, 200, seed=0)).save(tmp_path / "model.od")
    sound, changed = (tmp_path / "model.od").read_bytes(), 0
    complaints = []
    for n in range(40):
        data = mutate.forged(sound, random.Random(n))
        (tmp_path / "forged.od").write_bytes(data)
        changed += data != sound
        try:
            with container.opened(tmp_path / "forged.od") as file:
                header = container.read_header("forged.od", file)
                mapped = container.mapped(file, header)
            container.verify("forged.od", mapped, header, everything=True)
        except od.OffdiagError as error:
            complaints.append(str(error))
    assert changed > 30
    assert not [words for words in complaints if "checksum" in words]


def test_the_same_seed_makes_the_same_damage():
    made = [[mutate.bytes_of(b"user,item\n1,2\n" * 9, random.Random(n)) for n in range(50)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 40


def test_trials_are_counted_once_and_findings_kept(capsys):
    found = Campaign("name", "about")
    found.count("a: done", 3)
    found.count("b: done", 2)
    found.count("looked at again", trial=False)
    found.wrong("x" * 5_000)
    about = found.to_dict()
    assert (about["trials"], about["summary"]) == (5, {"done": 5, "looked at again": 1})
    assert len(about["findings"][0]) == 2_000
    assert capsys.readouterr().err.startswith("name: x")
