"""A cluster that loses its workers or their memory is reported, and not waited for in vain."""

import time

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster.stages import Stage

pytestmark = pytest.mark.slow
distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")


def test_a_scheduler_without_workers_is_an_error():
    with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address
        with pytest.raises(od.OffdiagError, match="no worker for 3 s"), od.cluster.connect(address, timeout=3):
            pass
        with distributed.Client(address) as client:
            work = Stage(client, "waiting", patience=0.5)
            with pytest.raises(od.OffdiagError, match="waiting: no worker has been there"):
                work.gather([work.submit(np.ones, 3)])


def test_a_result_lost_with_the_last_worker_is_an_error():
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        work = Stage(client, "waiting", patience=0.5)
        future = work.submit(np.ones, 3)
        work.wait([future])
        cluster.sync(cluster.workers[0].close, nanny=False)
        with pytest.raises(od.OffdiagError, match="waiting: no worker has been there"):
            work._fetch([future])


def test_a_worker_out_of_memory_names_the_stage_and_the_limit(small_client):
    work = Stage(small_client, "counting pairs", lower="keep fewer items")

    def grow():  # slowly, so that the nanny sees it, however loaded the machine is, before much is taken
        kept = []
        while True:
            kept.append(np.ones(1 << 22))
            time.sleep(0.05 if len(kept) < 40 else 5)

    with pytest.raises(od.NotEnoughMemory, match=r"counting pairs: workers were ended.*700 MB.*keep fewer items"):
        work.gather([work.submit(grow)])
    assert work.gather([work.submit(np.ones, 3)])[0].sum() == 3  # the cluster still works
