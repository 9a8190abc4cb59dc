"""Shared fixtures: real data where available, a clear skip where not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker per core: threads of BLAS and torch would only wait for those of the other worker. Set before import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call of a kernel compiles it, so times per example mean nothing; runs must be repeatable.
settings.register_profile("offdiag", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("quick", settings.get_profile("offdiag"), max_examples=10)
settings.load_profile("offdiag")


@pytest.fixture(autouse=True, scope="session")
def key_file(tmp_path_factory):
    """Keys of living states created by tests stay with their files, and commands run by tests find them there."""
    os.environ["OFFDIAG_KEY_FILE"] = str(tmp_path_factory.mktemp("keys") / "keys")


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """The folder of a real data set next to the repository, or a skip that names what is missing."""

    def find(name: str) -> Path:
        folder = SHARED / name
        if not folder.exists():
            pytest.skip(f"real data set {name!r} is not beside the repository (shared/data/{name})")
        return folder

    return find


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run a command in the test module's folder: exit code, stdout, stderr."""
    from offdiag import cli

    monkeypatch.chdir(folder)

    def call(*args):
        capsys.readouterr()
        code = cli.main([str(a) for a in args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def fails(run):
    """Run a command that must fail with code 2, nothing on stdout and one line; return the line."""

    def call(*args):
        code, out, err = run(*args)
        assert (code, out) == (2, ""), err
        assert err.startswith("offdiag: ")
        assert err.count("\n") == 1, err
        return err

    return call
