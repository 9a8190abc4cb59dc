"""Real clusters of separate worker processes, started once."""

import os
import signal
from collections import Counter

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster import session, stages
from offdiag.cluster.stages import Stage
from tests.fixtures.partitions import process_ids, wait_for

LONG = 300.0  # seconds: on a loaded machine a worker that was killed is back late


@pytest.fixture(scope="package")
def two_workers():
    with od.cluster.connect("local:2", memory_limit="2GB", timeout=LONG) as client:
        yield client


@pytest.fixture(scope="package")
def one_small_worker():
    dask = pytest.importorskip("dask")
    fewer = {"distributed.scheduler.allowed-failures": 1}
    with dask.config.set(fewer), od.cluster.connect("local:1", memory_limit="700MB", timeout=LONG) as client:
        yield client


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What gives up after half a minute waits longer: a slow machine is not a lost cluster."""
    monkeypatch.setattr(session, "SILENCE", LONG)
    monkeypatch.setattr(stages, "PATIENCE", LONG)


@pytest.fixture
def client(two_workers):
    """Both workers are there and answer, even if the test before has killed them."""
    return wait_for(two_workers, 2, LONG)


@pytest.fixture
def small_client(one_small_worker):
    """One worker with little memory; a task that ends it is given up soon."""
    return wait_for(one_small_worker, 1, LONG)


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
    """Runs work undisturbed, then with a worker killed when half the tasks of a stage have been handed out.

    Returns both results; of several stages, each with a run of its own, the second is a list.
    """

    def run(stages, work):
        submit, counts, fatal, killed = Stage.submit, Counter(), {}, []

        def counted(self, *args, **options):
            future = submit(self, *args, **options)
            counts[self.name] += 1
            if counts[self.name] >= fatal.get(self.name, np.inf) and not killed:
                killed.append(min(process_ids(client)))
                os.kill(killed[0], signal.SIGKILL)
            return future

        def disturbed(stage):
            wait_for(client, 2, LONG)
            fatal.clear()
            fatal[stage] = halves[stage]
            counts.clear()
            killed.clear()
            found = work()
            assert killed, stage
            assert killed[0] not in process_ids(client)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(Stage, "submit", counted)
            wait_for(client, 2, LONG)
            calm = work()
            halves = {stage: max(count // 2, 1) for stage, count in counts.items()}
            return calm, disturbed(stages) if isinstance(stages, str) else [disturbed(stage) for stage in stages]

    return run
