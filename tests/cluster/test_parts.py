"""Partitions are read on a cluster as one table is on one machine, even if a worker is killed midway."""

import os
import signal

import polars as pl
import pytest

import offdiag as od
from tests.fixtures.partitions import cut, process_ids, same_bytes, table, write_parts

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")
dask = pytest.importorskip("dask")


READINGS = [
    {},
    {"duplicates": "sum"},
    {"value": "value"},
    {"value": "value", "duplicates": "once"},
    {"value": "value", "duplicates": "once", "time": "time"},
    {"item": "song", "text_ids": True},
]


@pytest.mark.parametrize("how", READINGS, ids=str)
def test_partitions_that_share_users_read_as_one_table(client, tmp_path, how):
    frame = table().with_columns(value=pl.col("value").cast(pl.Float32))
    files = write_parts(tmp_path / "parts", [*cut(frame, 3), frame[:0]])
    same_bytes(od.cluster.read(tmp_path / "parts", client=client, **how).gather(), od.read(files, **how))


def test_partitions_without_shared_users_are_not_shuffled(client, tmp_path):
    frame = table()
    ranges = [frame.filter(pl.col("user") < 800), frame.filter(pl.col("user") >= 800)]
    files = write_parts(tmp_path / "ranges", ranges)
    by_range = od.cluster.read(files[::-1], client=client)
    same_bytes(by_range.gather(), od.read(files))
    assert by_range.users.tolist() == [part["user"].n_unique() for part in ranges]
    hashed = [frame.filter(pl.col("user") % 3 == r) for r in range(3)]  # ranges overlap, users do not
    files = write_parts(tmp_path / "hashed", hashed)
    by_hash = od.cluster.read(str(tmp_path / "hashed" / "*.parquet"), client=client)
    same_bytes(by_hash.gather(), od.read(files))
    assert sorted(by_hash.users.tolist()) == sorted(part["user"].n_unique() for part in hashed)


def test_a_dask_data_frame_reads_as_its_pandas_table(client):
    dd = pytest.importorskip("dask.dataframe")
    frame = table(1500).to_pandas()
    ours = od.cluster.read(dd.from_pandas(frame, npartitions=3), item="song", value="value", client=client)
    same_bytes(ours.gather(), od.read(frame, item="song", value="value"))


def test_a_worker_killed_while_reading_changes_nothing(client, killing, tmp_path):
    files = write_parts(tmp_path / "parts", cut(table(), 6))
    _, disturbed = killing("reading", lambda: od.cluster.read(files, client=client))
    same_bytes(disturbed.gather(), od.read(files))


def test_a_worker_lost_twice_in_a_short_time_is_started_again(tmp_path):
    # A while after a loss Dask checks whether the worker is back and removes it for good if not, even if it is only
    # down for the second time. A timeout shorter than any restart reproduces that moment.
    files = write_parts(tmp_path / "parts", cut(table(), 2))
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "50ms"}),
        od.cluster.connect("local:1", memory_limit="2GB", timeout=300) as client,
    ):
        for _ in range(2):
            (pid,) = process_ids(client)
            os.kill(pid, signal.SIGKILL)
            same_bytes(od.cluster.read(files, client=client).gather(), od.read(files))
            assert pid not in process_ids(client)
