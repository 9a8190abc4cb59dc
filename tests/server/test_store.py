"""A new model file is loaded while requests continue; a bad one never is."""

import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest

from offdiag.server import store as storing
from offdiag.server.copies import private_copy
from offdiag.server.file_lease import FileBusy, Lease
from offdiag.server.model import stamp
from tests.fixtures.serving import Load, Service, answer_of, now, replace, until

pytestmark = pytest.mark.slow


def old_mappings(service):
    """Mapped model files whose name is gone or belongs to another file."""
    lines = Path(f"/proc/{service.process.pid}/maps").read_text().splitlines()
    return [line for line in lines if "(deleted)" in line and ".od" in line]


@pytest.fixture
def service(model_files, tmp_path):
    shutil.copy(model_files / "old.od", tmp_path / "model.od")
    with Service(tmp_path, "model.od", "--reload-every", "0.05") as running:
        running.model = tmp_path / "model.od"
        yield running
    assert "Traceback" not in running.log


def test_new_files_are_taken_up_under_load_without_a_failed_request(service, model_files):
    """Replaced by good files, by corrupt ones, removed: no client notices."""
    lists = {name: answer_of(model_files / f"{name}.od") for name in ("old", "new", "sparse")}
    assert len({tuple(order) for order in lists.values()}) == 3
    with Load(service, list(lists.values())) as load:
        for name in ("new", "old", "sparse", "old", "new"):
            replace(model_files / f"{name}.od", service.model)
            until(lambda name=name: now(service) == lists[name] and tuple(lists[name]) in load.seen)

        rubbish = service.model.with_name("rubbish")
        rubbish.write_bytes(b"rubbish" * 1000)
        os.replace(rubbish, service.model)
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert now(service) == lists["new"]

        service.model.unlink()
        assert now(service) == lists["new"]
        replace(model_files / "old.od", service.model)
        until(lambda: now(service) == lists["old"])
        until(lambda: service.client.get("/health").json()["status"] == "ok")
    assert load.wrong == []
    assert load.count > 50
    assert {tuple(order) for order in lists.values()} == load.seen
    until(lambda: not old_mappings(service))
    text = service.client.get("/metrics").text
    assert int(re.search(r'reloads_total\{outcome="done"\} (\d+)', text)[1]) >= 6
    assert int(re.search(r'reloads_total\{outcome="failed"\} (\d+)', text)[1]) >= 1


def test_a_file_that_is_overwritten_in_place_does_not_change_under_a_request(service, model_files):
    """What cp does: the file that is mapped becomes shorter, then other bytes appear in it."""
    lease = Lease(service.model, stamp(service.model))
    if not lease.held:
        pytest.skip("this system lends no files; here a model must be replaced, not overwritten")
    lease.release()
    lists = {name: answer_of(model_files / f"{name}.od") for name in ("old", "new", "sparse")}
    with Load(service, list(lists.values())) as load:
        half = (model_files / "new.od").read_bytes()
        with open(service.model, "wb") as file:  # as cp does it, and slowly
            file.write(half[: len(half) // 2])
            file.flush()
            for _ in range(20):
                assert now(service) == lists["old"]
            file.write(half[len(half) // 2 :])
        until(lambda: now(service) == lists["new"])

        service.model.write_bytes(b"")
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert now(service) == lists["new"]
        shutil.copy(model_files / "sparse.od", service.model)
        until(lambda: now(service) == lists["sparse"])
    assert load.wrong == []
    until(lambda: not old_mappings(service))


def test_what_went_wrong_is_said_once_and_without_paths_to_strangers(service, tmp_path):
    service.model.write_bytes(b"rubbish")
    service.wait_for("still in use")
    before = service.log.count("still in use")
    until(lambda: service.client.get("/health").json()["problems"])
    problems = service.client.get("/health").json()["problems"]
    assert len(problems) == 1
    assert str(tmp_path) not in problems[0]
    assert "model" in problems[0]
    threading.Event().wait(0.5)
    assert service.log.count("still in use") == before


def test_sighup_loads_at_once_and_opens_the_log_again(model_files, tmp_path):
    shutil.copy(model_files / "old.od", tmp_path / "model.od")
    with Service(tmp_path, "model.od", "--reload-every", 0, "--access-log", "a.log") as service:
        assert now(service) == answer_of(model_files / "old.od")
        replace(model_files / "new.od", tmp_path / "model.od")
        os.replace(tmp_path / "a.log", tmp_path / "a.log.1")
        threading.Event().wait(0.3)
        assert now(service) == answer_of(model_files / "old.od")
        service.process.send_signal(signal.SIGHUP)
        service.wait_for("loaded 90 items")
        assert now(service) == answer_of(model_files / "new.od")
        until(lambda: (tmp_path / "a.log").read_text().count("\n") == 1)  # a line is written after its answer
        assert (tmp_path / "a.log.1").read_text().count("\n") == 2


def test_memory_does_not_grow_with_reloads(service, model_files):
    def resident():
        status = Path(f"/proc/{service.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss_Anon:\s+(\d+)", status, re.M)[1])

    def reload(times):
        for turn in range(times):
            done = service.log.count("loaded")
            replace(model_files / ("new.od" if turn % 2 else "old.od"), service.model)
            until(lambda done=done: service.log.count("loaded") > done)
            now(service)

    reload(15)
    before = resident()
    reload(40)
    assert resident() - before < 4_000, "kB"
    assert len(old_mappings(service)) == 0


# The store itself


def test_titles_are_loaded_again(model_files, tmp_path):
    shutil.copy(model_files / "old.od", tmp_path / "model.od")
    table = tmp_path / "titles.csv"
    table.write_text("item,title\n500,First\n")
    said = []
    store = storing.Store([tmp_path / "model.od"], table, say=said.append)
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
    assert said[0] == "model model: 1 of 90 items have a title"
    assert "; 1 of 90 items have a title" in said[1]
    assert "still in use" in said[2]
    table.write_text("item,title\n500.0,As some programs write numbers\n")
    assert store.reload() == 2
    assert "0 of 90 items have a title; the ids of items are like '500', those of the titles like '500.0'" in said[3]
    table.write_text("item,title\n" + "".join(f"{n},Film {n}\n" for n in range(500, 590)))
    assert store.reload() == 2
    assert "title" not in said[4]
    table.write_text("item,title\n500,Third\n")
    store.reload()
    assert store.problems == []
    assert store.get(None).titles[0] == "Third"


def test_models_of_the_same_name_are_told_apart(model_files, tmp_path):
    (tmp_path / "sub").mkdir()
    shutil.copy(model_files / "old.od", tmp_path / "sub" / "new.od")
    store = storing.Store([model_files / "new.od", tmp_path / "sub" / "new.od"])
    assert store.names == ["new", "new-2"]
    assert store.get("new-2").path == tmp_path / "sub" / "new.od"


def test_a_file_that_is_being_written_is_not_lent(model_files, tmp_path):
    shutil.copy(model_files / "old.od", tmp_path / "model.od")
    with open(tmp_path / "model.od", "r+b"), pytest.raises(FileBusy):
        Lease(tmp_path / "model.od", stamp(tmp_path / "model.od"))
    lease = Lease(tmp_path / "model.od", stamp(tmp_path / "model.od"))
    assert not lease.wanted_back
    with private_copy(lease.file, "copy.od") as copy:
        assert copy.read_bytes() == (model_files / "old.od").read_bytes()
    assert not copy.exists()
    lease.release()
    other = Lease(tmp_path / "model.od", (0, 0, 0))
    assert not other.wanted_back
