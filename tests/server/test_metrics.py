"""Counters and histograms, of one process and of several."""

import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from offdiag.server.metrics import SECONDS, WIDTH, Counters
from tests.fixtures.serving import metric


@pytest.mark.slow
def test_metrics_count_every_request(service):
    def figures():
        text = service.client.get("/metrics").text
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for line in lines:
            assert re.fullmatch(r'\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [-+0-9.e]+', line), line
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}, text

    before, _ = figures()
    for _ in range(3):
        service.post("/recommend", history=[], k=1)
    service.post("/recommend", history=["x"], k=0)
    after, text = figures()
    good, bad = (f'offdiag_requests_total{{path="/recommend",status="{status}"}}' for status in (200, 422))
    assert after[good] - before.get(good, 0) == 3
    assert after[bad] - before.get(bad, 0) == 1
    assert after["offdiag_requests_in_flight"] == 1
    count = after['offdiag_request_seconds_count{path="/recommend"}']
    assert count == sum(n for name, n in after.items() if name.startswith(good[:39]))
    buckets = [n for name, n in after.items() if re.match(r'offdiag_request_seconds_bucket\{.*path="/recommend"', name)]
    assert buckets == sorted(buckets)
    assert len(buckets) == len(SECONDS) + 1
    assert buckets[-1] == count
    assert after['offdiag_model_items{model="exact"}'] == 150
    for name in {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}:
        assert f"# HELP {name} " in text


@pytest.mark.slow
def test_nothing_stays_in_flight_after_parallel_requests(service):
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: httpx.get(f"{service.url}/health", timeout=60), range(20)))
    assert metric(service, "offdiag_requests_in_flight") == 1  # the request for the metrics itself


def test_counters_of_several_processes_add_up():
    table = np.zeros((2, WIDTH))
    first, second = Counters(table, 0), Counters(table, 1)
    for counters, seconds in ((first, 0.004), (second, 0.2), (second, 99.0)):
        counters.begin()
        counters.end("/items", 200, seconds)
    second.begin()
    second.add_batch(3)
    second.add_batch(1000)
    first.add_reload(False)
    text = first.text([]).decode()
    assert 'offdiag_requests_total{path="/items",status="200"} 3' in text
    assert 'offdiag_request_seconds_bucket{le="0.005",path="/items"} 1' in text
    assert 'offdiag_request_seconds_bucket{le="10.0",path="/items"} 2' in text
    assert 'offdiag_request_seconds_bucket{le="+Inf",path="/items"} 3' in text
    assert 'offdiag_reloads_total{outcome="failed"} 1' in text
    assert "offdiag_batch_size_sum 1003.0" in text
    assert "offdiag_requests_in_flight 1" in text
    assert "offdiag_requests_in_flight 0" in Counters(table, 1).text([]).decode(), (
        "a process that died there is forgotten"
    )


def test_an_edge_of_a_histogram_belongs_to_its_bucket():
    counters = Counters()
    for edge in SECONDS:
        counters.begin()
        counters.end("/", 200, edge)
    lines = [line for line in counters.text([]).decode().splitlines() if "seconds_bucket" in line]
    assert [float(line.rpartition(" ")[2]) for line in lines] == [*range(1, len(SECONDS) + 1), len(SECONDS)]
