"""Model files that are overwritten in place, or that are not ordinary files."""

import ctypes
import errno
import os
import resource
import signal
import socket
import threading
import time

import numpy as np
import pytest

import offdiag as od
from offdiag.files import container
from offdiag.server import file_lease
from offdiag.server.file_lease import FileBusy, Lease, private_copy
from offdiag.server.model import ServedModel, stamp
from offdiag.server.store import Store
from tests.fixtures.serving import HISTORY, Load, Service, now, overwrite, require_leases, until

pytestmark = pytest.mark.slow


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
def test_a_special_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "model.od"
    special(kind, path)
    with pytest.raises(od.OffdiagError, match=r"not an ordinary file|cannot read"), container.opened(path):
        pass
    with pytest.raises(od.OffdiagError):
        od.load(path)


def test_without_space_for_a_copy_only_the_model_pauses(model, model_files, lists):
    """The file is truncated under the mapping: a process that still reads there is killed by SIGBUS."""
    with Service(model.parent, model, "--reload-every", "0.05") as service:
        before, after = lists["old"], lists["new"]
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


def test_the_file_of_another_user_may_be_overwritten(model, model_files, lists):
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    os.chown(model, 65534, 65534)
    with Service(model.parent, model, "--reload-every", "0.05", preexec_fn=without_leases) as service:
        before, after = lists["old"], lists["new"]
        with Load(service, [before, after], threads=2) as load:
            until(lambda: tuple(before) in load.seen)
            overwrite(model, (model_files / "new.od").read_bytes(), lambda: time.sleep(0.3))
            until(lambda: now(service) == after)
            model.write_bytes(b"")
            until(lambda: service.client.get("/health").json()["status"] == "degraded")
            assert now(service) == after
        assert load.wrong == []
        assert service.stop() == 0


def test_a_copy_is_made_in_memory_if_the_disk_is_full(model, monkeypatch):
    real, tried = file_lease._fill, []

    def full(path, file):
        tried.append(path)
        if len(tried) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, file)

    monkeypatch.setattr(file_lease, "_fill", full)
    with open(model, "rb") as file, private_copy(file.fileno(), "model.od") as path:
        served = ServedModel("model", path)
        assert path.read_bytes() == model.read_bytes()
    assert len(tried) == 2
    assert not path.exists()
    assert served.ids == od.load(model).item_ids_.tolist()


def serves(store, path):
    """Whether the weights are those of this file."""
    return np.array_equal(store.get(None).weights.toarray(), od.load(path).weights_.toarray())


def test_without_leases_the_model_is_served_from_a_copy(model, model_files, monkeypatch):
    monkeypatch.setattr(file_lease, "fcntl", None)
    store = Store([model], hold=True)
    overwrite(model, (model_files / "new.od").read_bytes(), lambda: None)
    assert serves(store, model_files / "old.od")
    assert store.reload() == 1
    assert serves(store, model_files / "new.od")


def test_a_file_that_cannot_be_loaded_does_not_block_its_writers(model, model_files):
    """A lease that outlives the attempt made the next writer wait for 45 seconds."""
    require_leases(model)
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


def test_a_file_may_be_emptied_while_the_service_starts(model, model_files):
    """Also between loading and serving: the writer waits until the service has a copy."""
    require_leases(model)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        store = Store([model], hold=True)
        writer = threading.Thread(target=model.write_bytes, args=(b"",))
        writer.start()
        until(lambda: store._leases["model"].wanted_back)
        assert model.stat().st_size
        assert serves(store, model_files / "old.od")
        store.rescue()
        writer.join(20)
        assert not model.stat().st_size
        assert serves(store, model_files / "old.od")
    finally:
        signal.signal(signal.SIGIO, before)


def test_a_file_that_is_open_for_writing_is_served_from_a_copy(model, model_files):
    require_leases(model)
    with open(model, "r+b") as writer:
        store = Store([model], hold=True)
        writer.truncate(0)
        assert serves(store, model_files / "old.od")


def test_a_file_that_is_open_for_writing_cannot_be_leased(model, model_files):
    with open(model, "r+b"), pytest.raises(FileBusy):
        Lease(model, stamp(model))
    lease = Lease(model, stamp(model))
    assert not lease.wanted_back
    with private_copy(lease.file, "copy.od") as copy:
        assert copy.read_bytes() == (model_files / "old.od").read_bytes()
    assert not copy.exists()
    lease.release()
    other = Lease(model, (0, 0, 0))
    assert not other.wanted_back
