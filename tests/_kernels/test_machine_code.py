"""Machine code is compiled once, announced, and found again by later runs, also where the package is read-only."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import offdiag
from offdiag._kernels import machine_code

SCRIPT = """
import json
import numpy as np
from offdiag._kernels import machine_code, topk
told = []
machine_code.announce(lambda: told.append("compiling"))
for dtype in (np.float32, np.float64):
    topk.sort_heaps(0, 1, np.zeros((1, 3), dtype), np.zeros((1, 3), np.int32))
facts = {"told": told, "compiled": [name.partition("(")[0] for name in machine_code.compilations]}
print(json.dumps(facts | {"folder": machine_code.folder(), "kept": machine_code.is_kept()}))
"""
BOTH = ["_kernels.topk.sort_heaps", "_kernels.topk.sift_down", "_kernels.topk.worse"] * 2
pytestmark = pytest.mark.slow


@pytest.fixture
def package(tmp_path):
    """The kernels without machine code, and a temporary folder next to them."""
    place = tmp_path
    source = Path(offdiag.__file__).parent
    (place / "offdiag").mkdir()
    (place / "offdiag" / "__init__.py").touch()
    shutil.copytree(source / "_kernels", place / "offdiag" / "_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "temporary").mkdir()
    return place


def run(package, bound=()):
    """In a process without a home."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    env |= {"PYTHONPATH": str(package), "HOME": os.devnull, "TMPDIR": str(package / "temporary")}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [*bound, sys.executable, "-c", SCRIPT]
    ran = subprocess.run(command, env=env, cwd=package, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def no_cache_in(package):
    """Nothing can be written to a folder whose name belongs to a file."""
    (package / "offdiag" / "_kernels" / "__pycache__").write_text("")


def test_a_loop_is_compiled_once_and_announced(package):
    first, second = run(package), run(package)
    assert sorted(first["compiled"]) == sorted(BOTH)
    assert first["told"] == ["compiling"], "once, however many loops there are"
    assert first["folder"] == str(package / "offdiag" / "_kernels" / "__pycache__")
    assert (second["compiled"], second["told"]) == ([], [])


@pytest.mark.parametrize(("changed", "again"), [("topk.py", BOTH), ("embeddings.py", BOTH), ("als.py", [])])
def test_a_loop_is_compiled_again_when_a_file_it_needs_changed(package, changed, again):
    """topk imports a loop of embeddings, and nothing of als."""
    run(package)
    with (package / "offdiag" / "_kernels" / changed).open("a") as file:
        file.write("# changed\n")
    assert sorted(run(package)["compiled"]) == sorted(again)


def test_a_filled_read_only_package_is_read(package):
    """As in a container that one user builds and another one runs."""
    run(package)
    (package / "offdiag" / "_kernels" / "__pycache__").chmod(0o555)
    bound = []
    if os.getuid() == 0:  # permissions do not bind root, unless it gives up that right
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        bound = ["setpriv", "--bounding-set", "-dac_override"]
    found = run(package, bound)
    assert (found["compiled"], found["told"]) == ([], [])
    assert found["folder"].startswith(str(package / "temporary")), "new machine code would go elsewhere"


def test_without_a_home_the_temporary_folder_keeps_it(package):
    no_cache_in(package)
    first, second = run(package), run(package)
    assert sorted(first["compiled"]) == sorted(BOTH)
    assert first["kept"]
    assert first["folder"].startswith(str(package / "temporary"))
    assert second["compiled"] == []


def test_a_folder_that_others_can_write_to_is_not_trusted(package):
    no_cache_in(package)
    place = package / "temporary" / f"offdiag-machine-code-{os.getuid()}"
    place.mkdir()
    place.chmod(0o777)
    found = run(package)
    assert not found["kept"]
    assert list(place.iterdir()) == []


def test_types_are_listed_for_each_loop():
    from offdiag._kernels import topk

    assert topk.sort_heaps in machine_code.loops
    assert "_kernels.topk.sort_heaps" in machine_code.signatures()
