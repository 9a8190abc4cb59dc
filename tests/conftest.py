"""Shared fixtures: real data where available, a clear skip where not."""

import fcntl
import os
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from tempfile import gettempdir

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


def compile_once(compile_kernel):
    """One worker compiles a kernel; the others wait, or compile another, and load it from the cache."""
    from numba.core.compiler_lock import global_compiler_lock  # taken first, as numba does: threads cannot deadlock

    locks = Path(gettempdir(), f"offdiag-tests-{os.environ['PYTEST_XDIST_TESTRUNUID']}")
    locks.mkdir(exist_ok=True)

    @wraps(compile_kernel)
    def compile_or_wait(dispatcher, signature):
        name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__name__}"
        if not name.startswith("offdiag."):  # of numba itself, part of compiling a kernel
            return compile_kernel(dispatcher, signature)
        with global_compiler_lock, (locks / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return compile_kernel(dispatcher, signature)

    return compile_or_wait


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        from numba.core.dispatcher import Dispatcher

        Dispatcher.compile = compile_once(Dispatcher.compile)


TOGETHER = ("tests/cluster/", "tests/server/page/")  # a cluster and a browser are started once for all files of these


def unit(nodeid):
    """What one worker runs as a whole: a file, or a folder whose files share what is slow to start."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def pytest_collection_modifyitems(items):
    """Files with slow tests first: a long one at the end would leave the other worker without work."""
    slow = {unit(item.nodeid) for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: unit(item.nodeid) not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Units in the order of their collection. By itself, `--dist loadfile` begins with the file of most tests."""
    from xdist.scheduler import LoadFileScheduling

    class LoadUnits(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return unit(nodeid)

    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return LoadUnits(config, log)


@pytest.fixture(autouse=True, scope="session")
def key_file(tmp_path_factory):
    """Keys of living states created by tests stay with their files, and commands run by tests find them there."""
    os.environ["OFFDIAG_KEY_FILE"] = str(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture
def ctrl_c():
    """Enables SIGINT, which a program started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """The folder of a real data set next to the repository, or a skip that names what is missing."""

    def find(name: str) -> Path:
        folder = SHARED / name
        if not folder.exists():
            pytest.skip(f"real data set {name!r} is not next to the repository (shared/data/{name})")
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
