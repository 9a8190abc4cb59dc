"""Limits on requests, and turns."""

import asyncio
import json

import pytest

from offdiag.server.app import create
from offdiag.server.http.hub import TURNS
from offdiag.server.limits import Limits, Turns
from offdiag.server.middleware import AT_ONCE
from tests.fixtures.connections import rounds
from tests.fixtures.serving import call, one_error


@pytest.mark.parametrize("name", ["allow", "block"])
def test_the_length_of_filters_is_limited(model, name):
    bodies = [{"history": [], name: [1] * n} for n in (50, 51)]
    requests = [*(("POST", "/recommend", body) for body in bodies), ("GET", "/openapi.json", None)]
    good, bad, openapi = call(create([model], limits=Limits(filter=50)), *requests)
    assert good.status_code == 200
    one_error(bad, 422)
    assert bad.json()["error"] == f"{name}: at most 50 ids, received 51"
    body = openapi.json()["paths"]["/recommend"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert '"maxItems": 50' in json.dumps(body["properties"][name])


@pytest.mark.parametrize(
    ("histories", "k", "problem"),
    [
        ([[1]] * 4, 2, "histories: at most 3 histories, received 4"),
        ([[1], [1] * 6], 2, "histories.1: at most 5 ids, received 6"),
        ([[1]] * 3, 4, "at most 10 items in one batch, received 3 histories of k = 4; send several batches"),
        ([[1] * 5] * 3, 3, None),
    ],
)
def test_the_size_of_a_batch_is_limited(model, histories, k, problem):
    limits = Limits(history=5, histories=3, items=10)
    requests = [("POST", "/batch", {"histories": histories, "k": k}), ("GET", "/openapi.json", None)]
    answer, openapi = call(create([model], limits=limits), *requests)
    if problem is None:
        assert answer.status_code == 200
    else:
        one_error(answer, 422)
        assert answer.json()["error"] == problem
    body = openapi.json()["paths"]["/batch"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["histories"]["maxItems"] == 3
    assert body["properties"]["histories"]["items"]["maxItems"] == 5


async def test_turns_are_taken_in_order_and_returned_on_cancel():
    turns, order = Turns(2), []

    async def work(name, wait):
        async with turns:
            order.append(name)
            await wait.wait()

    go = asyncio.Event()
    tasks = [asyncio.create_task(work(n, go)) for n in range(6)]
    await rounds()
    assert order == [0, 1]
    tasks[2].cancel()
    go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 1, 3, 4, 5]
    async with turns, turns:
        pass
    assert AT_ONCE > TURNS, "requests sent ahead never take all places"
