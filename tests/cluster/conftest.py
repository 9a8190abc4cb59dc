"""Real clusters of separate worker processes, started once."""

import os
import signal

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster.stages import Stage
from tests.fixtures.partitions import process_ids


@pytest.fixture(scope="package")
def client():
    with od.cluster.connect("local:2", memory_limit="2GB", timeout=60) as client:
        yield client


@pytest.fixture(scope="package")
def small_client():
    """One worker with little memory; a task that ends it is given up soon."""
    dask = pytest.importorskip("dask")
    fewer = {"distributed.scheduler.allowed-failures": 1}
    with dask.config.set(fewer), od.cluster.connect("local:1", memory_limit="700MB", timeout=60) as client:
        yield client


@pytest.fixture
def mistake():
    """The one line with which a call fails."""

    def fail(call, *args, **kwargs):
        with pytest.raises(od.OffdiagError) as caught:
            call(*args, **kwargs)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return fail


@pytest.fixture
def killing(client, monkeypatch):
    """Runs work twice: undisturbed, then with a worker killed when half the tasks of a stage have been handed out."""

    def run(stage, work):
        submit, count, fatal, killed = Stage.submit, [0], [np.inf], []

        def counted(self, *args, **options):
            future = submit(self, *args, **options)
            count[0] += self.name == stage
            if count[0] >= fatal[0] and not killed:
                killed.append(min(process_ids(client)))
                os.kill(killed[0], signal.SIGKILL)
            return future

        monkeypatch.setattr(Stage, "submit", counted)
        client.wait_for_workers(2, timeout=60)  # an earlier test may have killed one
        calm = work()
        fatal[0], count[0] = max(count[0] // 2, 1), 0
        disturbed = work()
        assert killed
        assert killed[0] not in process_ids(client)
        return calm, disturbed

    return run
