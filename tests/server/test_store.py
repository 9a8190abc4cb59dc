"""A new model file is loaded while requests continue; an invalid one never is."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from offdiag.server.store import Store
from offdiag.weights import byte_copy
from tests.fixtures.serving import (
    Load,
    Service,
    metric,
    now,
    overwrite,
    private_memory,
    replace,
    require_leases,
    until,
)

pytestmark = pytest.mark.slow


def old_mappings(service):
    """Mapped model files whose name is gone or belongs to another file."""
    lines = Path(f"/proc/{service.process.pid}/maps").read_text().splitlines()
    return [line for line in lines if "(deleted)" in line and ".od" in line]


@pytest.fixture
def service(model):
    with Service(model.parent, model, "--reload-every", "0.05") as running:
        yield running
    assert "Traceback" not in running.log


def test_a_large_model_gets_its_byte_copy_while_it_already_answers(model, monkeypatch):
    monkeypatch.setattr(byte_copy, "FEWEST_ITEMS", 1)
    store = Store([model])
    copies = store.models[0].weights.byte_copy
    until(lambda: copies.copy is not None)
    store.reload(force=True)
    assert store.models[0].weights.byte_copy is not copies
    until(lambda: store.models[0].weights.byte_copy.copy is not None)


def test_new_files_are_loaded_under_load_without_a_failure(service, model, model_files, lists):
    """Replaced by good files, by corrupt ones, removed: no client notices."""
    assert len({tuple(order) for order in lists.values()}) == 3
    with Load(service, list(lists.values())) as load:
        for name in ("new", "old", "sparse", "old", "new"):
            replace(model_files / f"{name}.od", model)
            until(lambda name=name: now(service) == lists[name] and tuple(lists[name]) in load.seen)

        model.with_name("rubbish").write_bytes(b"rubbish" * 1000)
        os.replace(model.with_name("rubbish"), model)
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert now(service) == lists["new"]

        model.unlink()
        assert now(service) == lists["new"]
        replace(model_files / "old.od", model)
        until(lambda: now(service) == lists["old"])
        until(lambda: service.client.get("/health").json()["status"] == "ok")
    assert load.wrong == []
    assert load.count > 50
    assert {tuple(order) for order in lists.values()} == load.seen
    until(lambda: not old_mappings(service))
    assert metric(service, 'offdiag_reloads_total{outcome="done"}') >= 6
    assert metric(service, 'offdiag_reloads_total{outcome="failed"}') >= 1


def test_overwriting_a_file_in_place_does_not_affect_requests(service, model, model_files, lists):
    """What cp does: the file that is mapped becomes shorter, then other bytes appear in it."""
    require_leases(model)
    seen = []
    with Load(service, list(lists.values())) as load:
        content = (model_files / "new.od").read_bytes()
        overwrite(model, content, lambda: seen.extend(now(service) for _ in range(20)))
        assert seen == [lists["old"]] * 20
        until(lambda: now(service) == lists["new"])

        model.write_bytes(b"")
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert now(service) == lists["new"]
        shutil.copy(model_files / "sparse.od", model)
        until(lambda: now(service) == lists["sparse"])
    assert load.wrong == []
    until(lambda: not old_mappings(service))


def test_a_load_failure_is_reported_once_and_without_its_path(service, model):
    model.write_bytes(b"rubbish")
    service.wait_for("still in use")
    before = service.log.count("still in use")
    until(lambda: service.client.get("/health").json()["problems"])
    problems = service.client.get("/health").json()["problems"]
    assert len(problems) == 1
    assert str(model.parent) not in problems[0]
    assert "model" in problems[0]
    threading.Event().wait(0.5)
    assert service.log.count("still in use") == before


def test_sighup_reloads_models_and_reopens_the_log(model, model_files, lists, tmp_path):
    with Service(tmp_path, "model.od", "--reload-every", 0, "--access-log", "a.log") as service:
        assert now(service) == lists["old"]
        replace(model_files / "new.od", tmp_path / "model.od")
        os.replace(tmp_path / "a.log", tmp_path / "a.log.1")
        threading.Event().wait(0.3)
        assert now(service) == lists["old"]
        service.process.send_signal(signal.SIGHUP)
        service.wait_for("loaded 90 items")
        assert now(service) == lists["new"]
        until(lambda: (tmp_path / "a.log").read_text().count("\n") == 1)  # a line is written after its answer
        assert (tmp_path / "a.log.1").read_text().count("\n") == 2


def test_memory_does_not_grow_with_reloads(service, model, model_files):
    def reload(times):
        for turn in range(times):
            done = service.log.count("loaded")
            replace(model_files / ("new.od" if turn % 2 else "old.od"), model)
            until(lambda done=done: service.log.count("loaded") > done)
            now(service)

    reload(15)
    before = private_memory(service)
    reload(40)
    assert private_memory(service) - before < 4_000, "kB"
    assert len(old_mappings(service)) == 0


def test_a_pipe_in_place_of_the_model_does_not_block(service, model, model_files, lists):
    for name, how in (("old", None), ("new", signal.SIGHUP)):
        replace(model_files / f"{name}.od", model)
        until(lambda name=name: now(service) == lists[name])
        os.mkfifo(model.with_name("pipe"))
        os.replace(model.with_name("pipe"), model)
        if how is not None:
            service.process.send_signal(how)
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert now(service) == lists[name]
    assert service.stop() == 0


HANGING = """
import sys, time
from offdiag.server import store
from offdiag.server.process import Service, serve
store.Store.reload = lambda self, force=False: print('hangs', flush=True) or time.sleep(1000)
serve(Service((sys.argv[1],), port=0, reload_every=0.01), lambda text: None)
"""


def test_a_reload_that_hangs_does_not_delay_the_exit(model_files):
    """As on a network disk that does not answer."""
    command = [sys.executable, "-c", HANGING, str(model_files / "old.od")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline() == "hangs\n"
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 0
        finally:
            running.kill()


def test_titles_are_reloaded(model, tmp_path):
    table = tmp_path / "titles.csv"
    table.write_text("item,title\n500,First\n")
    notes = []
    store = Store([model], table, say=notes.append)
    before = store.get(None)
    assert before.titles[:2] == ["First", "501"]
    table.write_text("item,title\n500,Second one\n")
    assert store.reload() == 2
    assert store.get(None).titles[0] == "Second one"
    assert before.titles[0] == "First", "a request that has begun keeps what it had"
    table.write_text("nothing of use")
    assert store.reload() == 0
    assert store.get(None).titles[0] == "Second one"
    assert store.problems
    assert store.reload() == 0
    assert notes[0] == "model model: 1 of 90 items have a title"
    assert "; 1 of 90 items have a title" in notes[1]
    assert "still in use" in notes[2]
    table.write_text("item,title\nx500,Of another catalogue\n")
    assert store.reload() == 2
    assert "0 of 90 items have a title; the ids of items are like '500', those of the titles like 'x500'" in notes[3]
    table.write_text("item,title\n" + "".join(f"{n},Film {n}\n" for n in range(500, 590)))
    assert store.reload() == 2
    assert "title" not in notes[4]
    table.write_text("item,title\n500,Third\n")
    store.reload()
    assert store.problems == []
    assert store.get(None).titles[0] == "Third"


def test_models_with_the_same_file_name_get_different_names(model_files, tmp_path):
    (tmp_path / "sub").mkdir()
    shutil.copy(model_files / "old.od", tmp_path / "sub" / "new.od")
    store = Store([model_files / "new.od", tmp_path / "sub" / "new.od"])
    assert store.names == ["new", "new-2"]
    assert store.get("new-2").path == tmp_path / "sub" / "new.od"
