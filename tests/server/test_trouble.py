"""What surrounds the service goes wrong: readers that stop, pipes for files, full disks, forged descriptions."""

import asyncio
import ctypes
import errno
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest

import offdiag as od
from offdiag import persist
from offdiag.files import container
from offdiag.server import copies, file_lease, logs
from offdiag.server.app import create
from offdiag.server.limits import Limits
from offdiag.server.metrics import Counters
from offdiag.server.model import ServedModel, stamp
from offdiag.server.store import Store
from tests.fixtures.serving import HISTORY, Load, Service, answer_of, now, replace, until

pytestmark = pytest.mark.slow


@pytest.fixture
def model(model_files, tmp_path):
    shutil.copy(model_files / "old.od", tmp_path / "model.od")
    return tmp_path / "model.od"


# Readers that stop


def test_a_log_that_nobody_reads_stops_nothing(model):
    """A pipe holds 64 KB: some 400 lines."""
    with Service(model.parent, model, "--access-log", "-", stdout=subprocess.PIPE) as service:
        service.client.timeout = 20
        for _ in range(1000):
            assert service.client.get("/health").status_code == 200
        assert service.stop(signal.SIGTERM) == 0
        service.process.stdout.close()


def test_lines_that_nobody_takes_are_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(logs, "MOST", 100)
    free, counters, written = threading.Event(), Counters(), []

    def write(data):
        free.wait()
        written.append(data)

    slow = logs.Lines(write, counters.drop_line)
    slow("first")
    until(lambda: not slow._waiting)  # the thread hangs in write
    for n in range(250):
        slow(f"line {n}")
    slow.flush(0.01)  # does not wait forever
    assert "offdiag_log_lines_dropped_total 150.0\n" in counters.text([]).decode()
    free.set()
    slow.flush()
    assert b"".join(written).decode().splitlines() == ["first", *(f"line {n}" for n in range(100))]
    assert max(map(len, written)) <= logs.AT_ONCE


def test_after_a_rotation_only_later_lines_go_to_the_new_file(tmp_path):
    log = logs.AccessLog(str(tmp_path / "a.log"))
    log("before")
    os.replace(tmp_path / "a.log", tmp_path / "a.log.1")
    log.reopen()
    log("after")
    log.flush()
    assert (tmp_path / "a.log.1").read_text() == "before\n"
    assert (tmp_path / "a.log").read_text() == "after\n"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(od.OffdiagError, match="access log"):
        logs.AccessLog(str(tmp_path / "pipe"))


# Something else in place of a file


def special(kind, path):
    """A pipe, a socket, a link to a device."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.symlink("/dev/zero", path)
    else:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(path))


@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "model.od"
    special(kind, path)
    with pytest.raises(od.OffdiagError, match=r"not an ordinary file|cannot read"), container.opened(path):
        pass
    with pytest.raises(od.OffdiagError):
        od.load(path)


def test_a_pipe_in_the_place_of_the_model_hangs_nothing(model, model_files):
    with Service(model.parent, model, "--reload-every", "0.05") as service:
        os.mkfifo(model.with_name("pipe"))
        os.replace(model.with_name("pipe"), model)
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert now(service) == answer_of(model_files / "old.od")
        replace(model_files / "new.od", model)
        until(lambda: now(service) == answer_of(model_files / "new.od"))
        os.mkfifo(model.with_name("pipe"))
        os.replace(model.with_name("pipe"), model)
        service.process.send_signal(signal.SIGHUP)
        until(lambda: service.client.get("/health").json()["status"] == "degraded")
        assert service.stop(signal.SIGTERM) == 0


def test_a_reload_that_hangs_does_not_keep_the_process(model_files):
    """As on a network disk that does not answer."""
    program = (
        "import sys, time\n"
        "from offdiag.server import store\n"
        "from offdiag.server.process import Service, serve\n"
        "store.Store.reload = lambda self, force=False: print('hangs', flush=True) or time.sleep(1000)\n"
        "serve(Service((sys.argv[1],), port=0, reload_every=0.01), lambda text: None)\n"
    )
    command = [sys.executable, "-c", program, str(model_files / "old.od")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline() == "hangs\n"
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 0
        finally:
            running.kill()


# Files that change under a request


def overwrite(path, data, pause):
    """As cp does it, and slowly."""
    with open(path, "wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        pause()
        file.write(data[len(data) // 2 :])


def test_without_room_for_a_copy_only_the_model_is_gone(model, model_files):
    """The file is truncated under the mapping: a process that still reads there is killed by SIGBUS."""
    with Service(model.parent, model, "--reload-every", "0.05") as service:
        before, after = answer_of(model_files / "old.od"), answer_of(model_files / "new.od")
        assert now(service) == before
        small = model.stat().st_size // 2
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (small, small))  # no disk space for it

        def pause():
            answer = service.post("/recommend", history=HISTORY, k=10)
            assert answer.status_code in (200, 503)
            if answer.status_code == 503:
                assert list(answer.json()) == ["error"]
                assert answer.headers["retry-after"]
                assert "being overwritten" in service.client.get("/health").json()["problems"][0]
            else:
                assert [item["id"] for item in answer.json()["items"]] == before

        overwrite(model, (model_files / "new.od").read_bytes(), pause)
        until(lambda: service.post("/recommend", history=HISTORY).status_code == 200)
        until(lambda: now(service) == after)
        assert service.client.get("/health").json()["status"] == "ok"
        assert service.stop() == 0


def without_leases():
    """Drops root's right to leases on other users' files."""
    ctypes.CDLL(None).prctl(24, 28, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_LEASE


def test_the_file_of_another_user_may_be_overwritten(model, model_files):
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    os.chown(model, 65534, 65534)
    with Service(model.parent, model, "--reload-every", "0.05", preexec_fn=without_leases) as service:
        before, after = answer_of(model_files / "old.od"), answer_of(model_files / "new.od")
        with Load(service, [before, after], threads=2) as load:
            until(lambda: tuple(before) in load.seen)
            overwrite(model, (model_files / "new.od").read_bytes(), lambda: time.sleep(0.3))
            until(lambda: now(service) == after)
            model.write_bytes(b"")
            until(lambda: service.client.get("/health").json()["status"] == "degraded")
            assert now(service) == after
        assert load.wrong == []
        assert service.stop() == 0


def test_a_copy_goes_to_memory_where_the_disk_is_full(model, monkeypatch):
    real, tried = copies._fill, []

    def full(path, file):
        tried.append(path)
        if len(tried) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, file)

    monkeypatch.setattr(copies, "_fill", full)
    with open(model, "rb") as file, copies.private_copy(file.fileno(), "model.od") as path:
        served = ServedModel("model", path)
        assert path.read_bytes() == model.read_bytes()
    assert len(tried) == 2
    assert not path.exists()
    assert served.ids == od.load(model).item_ids_.tolist()


def test_where_no_file_is_lent_the_served_one_is_a_copy(model, model_files, monkeypatch):
    monkeypatch.setattr(file_lease, "fcntl", None)
    store = Store([model], hold=True)
    overwrite(model, (model_files / "new.od").read_bytes(), lambda: None)
    served = store.get(None)
    wanted = od.load(model_files / "old.od").weights_
    assert np.array_equal(served.weights.toarray(), wanted.toarray())
    assert store.reload() == 1
    assert np.array_equal(store.get(None).weights.toarray(), od.load(model_files / "new.od").weights_.toarray())


def can_lend(path):
    if not (found := file_lease.Lease(path, stamp(path))).held:
        pytest.skip("this system lends no files")
    found.release()


def test_a_file_that_cannot_be_loaded_is_not_kept_from_its_writers(model, model_files):
    """A lease that outlives the attempt made the next writer wait for 45 seconds."""
    can_lend(model)
    store = Store([model], hold=True)
    held = store._leases["model"]
    replace_with(model, b"rubbish")
    assert store.reload() == 0
    begun = time.monotonic()
    model.write_bytes((model_files / "new.od").read_bytes())
    assert time.monotonic() - begun < 5
    assert store.reload() == 1
    assert not held.held
    store._leases["model"].release()


def replace_with(path, content):
    path.with_name("other").write_bytes(content)
    os.replace(path.with_name("other"), path)


def test_a_file_that_is_emptied_while_the_service_starts_ends_nothing(model, model_files):
    """Also between loading and serving: the writer waits until the service has a copy."""
    can_lend(model)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        store = Store([model], hold=True)
        writer = threading.Thread(target=model.write_bytes, args=(b"",))
        writer.start()
        until(lambda: store._leases["model"].wanted_back)
        assert model.stat().st_size
        wanted = od.load(model_files / "old.od").weights_.toarray()
        assert np.array_equal(store.get(None).weights.toarray(), wanted)
        store.rescue()
        writer.join(20)
        assert not model.stat().st_size
        assert np.array_equal(store.get(None).weights.toarray(), wanted)
    finally:
        signal.signal(signal.SIGIO, before)


def test_a_file_that_is_open_for_writing_is_served_from_a_copy(model, model_files):
    can_lend(model)
    with open(model, "r+b") as writer:
        store = Store([model], hold=True)
        writer.truncate(0)
        assert np.array_equal(store.get(None).weights.toarray(), od.load(model_files / "old.od").weights_.toarray())


# Descriptions that make no sense


def forge(path, **changes):
    model = od.load(path)
    about, tensors = persist._contents(model, None)
    forged = path.with_name("forged")
    with open(forged, "wb") as file:
        container.write(file, about | changes, tensors, None)
    os.replace(forged, path)


@pytest.mark.parametrize(
    "changes",
    [{"settings": [1]}, {"settings": None}, {"created": 5}, {"n_users": "many"}, {"n_users": [1]}, {"n_users": None}],
)
def test_a_forged_description_is_refused_when_it_is_loaded(model, changes):
    store = Store([model])
    forge(model, **changes)
    assert store.reload() == 0
    assert store.problems
    with pytest.raises(od.OffdiagError):
        Store([model])


@pytest.mark.parametrize(
    "metrics",
    [
        {"mean": {"a": [1]}, "sem": [1]},
        {"mean": {"a": "x"}},
        {"mean": {"a": 0.5}, "sem": {"a": "x"}},
        {"mean": []},
        {"a": None},
        [1],
        "x",
    ],
)
def test_strange_metrics_are_left_out_of_the_card(model, metrics):
    forge(model, metrics=metrics)

    async def ask():
        transport = httpx.ASGITransport(app=create([model]))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/model")

    answer = asyncio.run(ask())
    assert answer.status_code == 200
    assert answer.json()["metrics"] in (None, {"a": {"mean": 0.5, "sem": None}})


# Many large bodies at once


def test_large_bodies_are_bounded_together(model):
    """Each is within its limit and slow; their sum is bounded, and small ones pass."""
    gate = create([model], limits=Limits(body=1 << 20, large=300_000))
    scope = {
        "type": "http", "method": "POST", "path": "/recommend", "headers": [], "query_string": b"",
        "http_version": "1.1",
    }  # fmt: skip

    async def post(parts, answers):
        async def receive():
            return await parts.get()

        async def send(message):
            answers.append(message.get("status", message.get("body")))

        await gate(dict(scope), receive, send)

    async def run():
        slow, answers = [asyncio.Queue() for _ in range(3)], [[] for _ in range(4)]
        tasks = [asyncio.create_task(post(*one)) for one in zip(slow, answers, strict=False)]
        for queue in slow:
            queue.put_nowait({"type": "http.request", "body": b" " * 200_000, "more_body": True})
            await asyncio.sleep(0.02)
        assert [one[:1] for one in answers] == [[], [], [503], []]
        small = asyncio.Queue()
        small.put_nowait({"type": "http.request", "body": b'{"history": []}', "more_body": False})
        await post(small, answers[3])
        assert answers[3][0] == 200
        for queue in slow[:2]:
            queue.put_nowait({"type": "http.request", "body": json.dumps({"history": []}).encode(), "more_body": False})
        await asyncio.gather(*tasks)
        assert [one[0] for one in answers] == [200, 200, 503, 200]
        assert gate.receiving == 0

    asyncio.run(run())
