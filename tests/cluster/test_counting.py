"""The Gram of users on several workers is that of one machine."""

import os
import signal

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.partitions import cut, process_ids, same_gram, table, write_parts

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gram_of_counts_is_the_same_bits(client, dtype):
    inter = od.synthetic.interactions(700, 101, 9000, seed=1)
    reports = []
    ours = od.cluster.gram(od.cluster.read(inter, client=client), dtype=dtype, client=client, reports=reports)
    same_gram(ours, od.gram(inter, dtype=dtype))
    (report,) = reports
    assert len(report.peak_bytes) == 2
    assert all(1e7 < peak < 2e9 for peak in report.peak_bytes.values())
    assert report.busy_seconds.keys() == report.peak_bytes.keys()
    assert all(0 < busy < 2 * report.seconds for busy in report.busy_seconds.values())
    assert "counting pairs" in str(report)


def test_the_gram_of_values_and_weighted_users_is_the_same_to_rounding(client, tmp_path):
    files = write_parts(tmp_path / "parts", cut(table(), 3))
    here = od.gram(od.read(files, value="value"), user_power=0.5, dtype="float64")
    there = od.cluster.gram(od.cluster.read(files, value="value", client=client), 0.5, dtype="float64", client=client)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-13)
    np.testing.assert_array_equal(there.activity, here.activity)
    assert there.user_power == here.user_power


def test_a_worker_killed_while_counting_changes_no_bit(client, killing, tmp_path):
    files = write_parts(tmp_path / "parts", cut(table(), 4))
    parts = od.cluster.read(files, client=client)
    _, disturbed = killing("counting pairs", lambda: od.cluster.gram(parts, client=client))
    same_gram(disturbed, od.gram(od.read(files)))


def test_both_workers_killed_at_once_are_waited_for(client, tmp_path):
    files = write_parts(tmp_path / "parts", cut(table(), 3))
    parts = od.cluster.read(files, client=client)
    for pid in process_ids(client):
        os.kill(pid, signal.SIGKILL)
    same_gram(od.cluster.gram(parts, client=client), od.gram(od.read(files)))
