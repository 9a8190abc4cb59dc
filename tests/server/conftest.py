"""Models and services that the tests of the service share."""

import asyncio
import inspect
import shutil

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.serving import Service, answer_of, make_models


def pytest_pyfunc_call(pyfuncitem):
    """Run tests that are coroutines."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


@pytest.fixture(scope="session")
def model_files(tmp_path_factory):
    """Two models of the same items that rank differently, and a third with fewer items."""
    place = tmp_path_factory.mktemp("models")
    inter = od.synthetic.interactions(500, 90, 9_000, seed=4)
    numbered = od.Interactions(inter.matrix, inter.user_ids, np.arange(500, 500 + inter.n_items))
    od.EASE(l2=20.0, storage="dense").fit(numbered).save(place / "old.od")
    od.EASE(l2=2000.0, storage="dense").fit(numbered).save(place / "new.od")
    od.SparseEDLAE(neighbours=5).fit(numbered.select_users(np.arange(250))).save(place / "sparse.od")
    return place


@pytest.fixture(scope="session")
def lists(model_files):
    """What each of them recommends."""
    return {name: answer_of(model_files / f"{name}.od") for name in ("old", "new", "sparse")}


@pytest.fixture
def model(model_files, tmp_path):
    """A copy of the first of them, to be changed."""
    return shutil.copy(model_files / "old.od", tmp_path / "model.od")


@pytest.fixture(scope="session")
def one_model(tmp_path_factory):
    """A folder with model.od, whose ids are text."""
    place = tmp_path_factory.mktemp("one")
    inter = od.synthetic.interactions(400, 80, 8_000, seed=2)
    od.EASE(l2=50.0, storage="dense").fit(inter).save(place / "model.od")
    return place


@pytest.fixture(scope="session")
def history(one_model):
    return od.load(one_model / "model.od").item_ids_[:5].tolist()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def models(folder):
    return make_models(folder)


@pytest.fixture(scope="session")
def service(folder, models):
    names = [f"{name}.od" for name in models]
    options = ["--access-log", "access.log", "--max-k", 200, "--max-history", 400, "--timeout", 1.5]
    with Service(folder, *names, "--max-body", 20_000, *options) as running:
        yield running
    assert "Traceback" not in running.log
