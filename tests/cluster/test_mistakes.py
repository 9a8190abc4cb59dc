"""What can be wrong with a cluster or its data: one line that names it, before any work, and never a hang."""

import contextlib
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import offdiag as od
from offdiag.cluster import session
from offdiag.cluster.stages import Stage

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")
dask = pytest.importorskip("dask")


@pytest.fixture(scope="module")
def client():
    fewer = {"distributed.scheduler.allowed-failures": 1}  # than the default 3 worker deaths per task, to save time
    with dask.config.set(fewer), od.cluster.connect("local:1", memory_limit="700MB", timeout=60) as client:
        yield client


def mistake(call, *args, **kwargs):
    with pytest.raises(od.OffdiagError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def parts(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    for at in range(3):
        frame.write_parquet(tmp_path / f"part-{at}.parquet")
    return tmp_path


CHANGES = {
    "missing column": (pl.DataFrame({"user": [1], "thing": ["a"]}), ("item='item'", "thing")),
    "item ids of another type": (pl.DataFrame({"user": [1], "item": [7], "value": [1.0]}), ("item", "text", "numbers")),
    "user ids of another type": (
        pl.DataFrame({"user": ["x"], "item": ["a"], "value": [1.0]}),
        ("user", "numbers", "String"),
    ),
    "values that are text": (pl.DataFrame({"user": [1], "item": ["a"], "value": ["1"]}), ("value", "String")),
    "a row without an id": (pl.DataFrame({"user": [None, 1], "item": ["a", "b"], "value": [1.0, 1.0]}), ("row 1",)),
    "a negative value": (pl.DataFrame({"user": [1], "item": ["a"], "value": [-1.0]}), ("0 or more", "row 1")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_partition_that_differs_is_named(client, parts, name):
    frame, words = CHANGES[name]
    frame.write_parquet(parts / "part-1.parquet")
    said = mistake(od.cluster.read, parts, value="value", client=client)
    assert "part-1.parquet" in said
    assert all(word in said for word in words), said


@pytest.mark.parametrize("damage", ["cut off", "text", "empty", "gone"])
def test_a_partition_that_cannot_be_read_is_named(client, parts, damage):
    path, files = parts / "part-2.parquet", sorted(parts.glob("*.parquet"))
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut off": whole[: len(whole) // 2], "text": b"user,item\n1,a\n", "empty": b""}[damage])
    assert "part-2.parquet" in mistake(od.cluster.read, files, client=client)


def test_a_partition_of_a_data_frame_that_differs_is_named(client):
    dd = pytest.importorskip("dask.dataframe")
    frames = [pl.DataFrame({"user": [1, 2], "item": items}).to_pandas() for items in (["a", "b"], [3, 4])]
    parts = [dask.delayed(frame, pure=False) for frame in frames]
    table = dd.from_delayed(parts, meta=frames[0], verify_meta=False)
    said = mistake(od.cluster.read, table, client=client)
    assert "item to be text in every partition" in said
    assert "partition 1" in said


def test_auto_without_a_rule_is_refused(client):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    parts = od.cluster.read(inter, client=client)
    said = mistake(od.cluster.auto.settled, object(), {"l2": "auto", "dropout": 0.5}, parts)
    assert "received auto for l2" in said


def test_nothing_to_read_is_said(client, tmp_path):
    assert "Parquet files in the folder" in mistake(od.cluster.read, tmp_path, client=client)
    assert "matches none" in mistake(od.cluster.read, str(tmp_path / "*.parquet"), client=client)
    assert "convert it first" in mistake(od.cluster.read, ["events.csv"], client=client)
    assert "list of paths" in mistake(od.cluster.read, [], client=client)
    assert "Dask DataFrame" in mistake(od.cluster.read, 3, client=client)
    pl.DataFrame({"user": [], "item": []}).write_parquet(tmp_path / "none.parquet")
    assert "at least one interaction" in mistake(od.cluster.read, tmp_path, client=client)
    assert "'sum' or 'once'" in mistake(od.cluster.read, tmp_path, duplicates="twice", client=client)


@pytest.mark.parametrize(
    ("address", "options", "words"),
    [
        ("tcp://127.0.0.1:9", {"timeout": 1}, "no Dask scheduler answered"),
        ("tcp://host.invalid:8786", {"timeout": 1}, "no Dask scheduler answered"),
        ("ftp://127.0.0.1:8786", {"timeout": 1}, "no Dask scheduler answered"),
        ("local:x", {}, "local:N"),
        ("local:0", {}, "local:N"),
        ("local:2", {"workers": 3}, "give one"),
        (None, {"workers": 0}, "at least 1"),
        ("local:1", {"memory_limit": "much"}, "memory_limit"),
        ("tcp://127.0.0.1:9", {"workers": 2}, "leave them out"),
    ],
)
def test_a_cluster_that_cannot_be_had_is_one_line(address, options, words):
    def enter():
        with od.cluster.connect(address, **options):
            pass

    assert words in mistake(enter)


@pytest.mark.parametrize("speaks", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_is_no_scheduler_is_one_line_and_no_hang(speaks):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with contextlib.suppress(OSError):
                connections.append(server.accept()[0])
                connections[-1].sendall(speaks)

        connections = []
        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def enter():
            with od.cluster.connect(address, timeout=1):
                pass

        assert "no Dask scheduler answered" in mistake(enter)
        for connection in connections:
            connection.close()


def test_a_call_that_hangs_is_given_up():
    with pytest.raises(TimeoutError, match="no answer"):
        session.within(0.05, lambda: time.sleep(5))
    assert session.within(5, lambda: 3) == 3
    with pytest.raises(ValueError, match="own"):
        session.within(5, lambda: int("own"))


@pytest.fixture
def folder(tmp_path):
    pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]}).write_parquet(tmp_path / "table.parquet")
    return tmp_path


def test_the_command_says_each_mistake_in_one_line(fails):
    fit = ("fit", "table.parquet", "--out", "model.od", "--cluster")
    assert "no Dask scheduler answered" in fails(*fit, "tcp://127.0.0.1:9")
    assert "add --value COLUMN" in fails(*fit, "local:1", "--at-least", "3")
    assert "--cluster fits edlae" in fails(*fit, "local:1", "--model", "popularity")
    assert "--keep is for full-rank models" in fails(*fit, "local:1", "--model", "sparse", "--keep", "3")
    assert "is for text files" in fails(*fit, "local:1", "--separator", ";")


def test_ctrl_c_reaches_the_program_and_not_its_workers(tmp_path):
    """A terminal sends the signal to all of them; workers would print tracebacks."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import os, signal, time
import offdiag as od

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background programs without one
    try:
        with od.cluster.connect("local:1", memory_limit="1GB", timeout=60) as client:
            os.killpg(0, signal.SIGINT)
            for _ in range(600):  # not one long sleep: a signal that another thread takes does not end it
                time.sleep(0.1)
    except KeyboardInterrupt:
        print("interrupted")
"""
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, start_new_session=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted\n", "")


def test_without_a_client_or_the_extra_the_way_is_told(monkeypatch):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    monkeypatch.setattr(distributed, "get_client", lambda: (_ for _ in ()).throw(ValueError("none")))
    assert "od.cluster.connect" in mistake(od.cluster.gram, inter)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "offdiag[cluster]" in mistake(od.cluster.gram, inter)


def test_another_version_on_the_workers_is_named(client, monkeypatch):
    monkeypatch.setattr(od, "__version__", "0.0.7")
    with pytest.raises(od.OffdiagError, match=r"expected offdiag 0\.0\.7 on every worker"):
        od.cluster.session.check_workers(client)


def test_a_scheduler_without_workers_is_not_waited_for_in_vain():
    with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address
        with pytest.raises(od.OffdiagError, match="no worker for 1 s"), od.cluster.connect(address, timeout=1):
            pass
        with distributed.Client(address) as client:
            work = Stage(client, "waiting", patience=0.5)
            with pytest.raises(od.OffdiagError, match="waiting: no worker has been there"):
                work.gather([work.submit(np.ones, 3)])


def test_a_result_that_is_lost_with_the_last_worker_is_not_waited_for_in_vain():
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        work = Stage(client, "waiting", patience=0.5)
        future = work.submit(np.ones, 3)
        work.wait([future])
        cluster.sync(cluster.workers[0].close, nanny=False)
        with pytest.raises(od.OffdiagError, match="waiting: no worker has been there"):
            work._fetched([future])


def test_work_too_large_for_the_workers_is_refused_before_it_starts(client):
    wide = sparse.random_array((50, 30_000), density=0.001, format="csr", rng=np.random.default_rng(0))
    with pytest.raises(od.NotEnoughMemory, match=r"the smallest has 700 MB.*od.cluster.fit_full_rank"):
        od.cluster.gram(wide, client=client)
    model = od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0)
    with pytest.raises(od.NotEnoughMemory, match="30,000 items on 1 workers"):
        od.cluster.fit_full_rank(model, wide, keep=5, client=client)


def test_a_worker_that_runs_out_of_memory_names_the_stage_and_the_limit(client):
    work = Stage(client, "counting pairs", lower="keep fewer items")
    with pytest.raises(od.NotEnoughMemory, match=r"counting pairs: workers were ended.*700 MB.*keep fewer items"):
        work.gather([work.submit(np.ones, 10**9)])
    assert work.gather([work.submit(np.ones, 3)])[0].sum() == 3  # the cluster still works


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0), {"keep": 0}, "keep must be"),
        (od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0), {"tile": 1.5}, "tile must be"),
        (od.EDLAE(dropout=0.5, l2=1.0, user_power=0.0, propensity_power=1.0), {"keep": 3}, "propensity_power"),
        (od.Popularity(), {}, "fit_full_rank takes EASE"),
        (od.SparseEDLAE(), {}, "fit_full_rank takes EASE"),
        (od.EDLAE(dropout=2.0), {}, "dropout"),
    ],
)
def test_settings_that_make_no_sense_are_refused(client, model, options, words):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    assert words in mistake(od.cluster.fit_full_rank, model, inter, client=client, **options)
    assert "takes SparseEDLAE" in mistake(od.cluster.fit_sparse, od.EASE(), inter, client=client)
