"""The application without a network: batches, and what happens when something is slow, full or broken."""

import asyncio
import logging
import threading
import time

import httpx
import numpy as np
import pytest

import offdiag as od
from offdiag.server import answers
from offdiag.server.app import create
from offdiag.server.batching import BATCH, IDS, Scorer
from offdiag.server.limits import Limits
from offdiag.server.model import ServedModel


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("app") / "model.od"
    inter = od.synthetic.interactions(300, 60, 5_000, seed=8)
    numbers = od.Interactions(inter.matrix, inter.user_ids, np.arange(60))
    od.EASE(l2=30.0, storage="dense").fit(numbers).save(place)
    return place


@pytest.fixture(scope="module")
def served(path):
    return ServedModel("model", path)


def ask(app, *requests):
    """Answers to requests made one after the other."""

    async def run():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.request(method, where, json=body) for method, where, body in requests]

    return asyncio.run(run())


EXPLAIN = ("POST", "/explain", {"history": [1], "item": 2})
RECOMMEND = ("POST", "/recommend", {"history": [1, 2]})


def test_what_takes_too_long_is_given_up(path, monkeypatch):
    monkeypatch.setattr(answers, "explain", lambda *_: time.sleep(1))
    (answer,) = ask(create([path], limits=Limits(seconds=0.1)), EXPLAIN)
    assert answer.status_code == 504
    assert answer.json() == {"error": "it took too long: at most 0.1 s"}
    assert answer.headers["connection"] == "close"


def test_what_fails_inside_is_told_to_the_log_only(path, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(answers, "explain", broken)
    app = create([path])
    with caplog.at_level(logging.ERROR):
        first, second = ask(app, EXPLAIN, RECOMMEND)
    assert first.status_code == 500
    assert list(first.json()) == ["error"]
    assert "secret" not in first.text
    assert "a secret of the inside" in caplog.text
    assert second.status_code == 200
    assert 'path="/explain",status="500"} 1' in app.counters.text([]).decode()


def test_a_failure_of_the_ranking_does_not_stop_it(path, monkeypatch, caplog):
    from offdiag.server import batching

    def broken(jobs):
        raise MemoryError

    app = create([path])
    monkeypatch.setattr(batching, "rank", broken)
    assert ask(app, RECOMMEND)[0].status_code == 500
    monkeypatch.undo()
    assert ask(app, RECOMMEND)[0].status_code == 200


def test_too_many_waiting_requests_are_turned_away(path):
    (answer,) = ask(create([path], limits=Limits(waiting=0)), RECOMMEND)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert list(answer.json()) == ["error"]


def waiting(served, histories, **words):
    """Sizes of the batches, and the answers, when all requests arrive before the scorer starts."""
    sizes = []
    scorer = Scorer(10_000, sizes.append)

    async def run():
        scorer.start = lambda: None  # not yet
        asked = [asyncio.create_task(scorer.top_k(served, history, 5, **words)) for history in histories]
        await asyncio.sleep(0.05)
        Scorer.start(scorer)
        return await asyncio.wait_for(asyncio.gather(*asked), 30)

    found = asyncio.run(run())
    scorer.stop()
    return sizes, found


def test_what_waits_is_ranked_in_one_call(served):
    histories = [[i, i + 1] for i in range(40)]
    sizes, found = waiting(served, histories)
    assert sizes == [40]
    for history, (columns, scores) in zip(histories, found, strict=True):
        wanted = served.model.recommend([history], 5)
        assert columns.tolist() == wanted.indices[0].tolist()
        assert scores.tolist() == wanted.scores[0].tolist()


def test_a_batch_is_bounded_in_requests_and_in_ids(served):
    sizes, _ = waiting(served, [[i % 60] for i in range(2 * BATCH + 1)])
    assert sizes == [BATCH, BATCH, 1]
    long = list(range(50))
    sizes, _ = waiting(served, [long] * 400)
    assert max(sizes) <= min(BATCH, -(-IDS // len(long)))


def test_a_request_that_was_given_up_is_not_ranked(served):
    sizes = []
    scorer = Scorer(100, sizes.append)

    async def run():
        scorer.start = lambda: None
        first, second = (asyncio.create_task(scorer.top_k(served, [i], 3)) for i in (1, 2))
        await asyncio.sleep(0.02)
        first.cancel()
        await asyncio.sleep(0.02)
        Scorer.start(scorer)
        return await second

    columns, _ = asyncio.run(run())
    scorer.stop()
    assert sizes == [1]
    assert len(columns) == 3


def test_an_idle_scorer_answers_at_once_and_stops_when_told(served):
    scorer = Scorer(10)
    assert len(asyncio.run(scorer.top_k(served, [3], 4))[0]) == 4
    assert any(thread.name == "offdiag scorer" for thread in threading.enumerate())
    scorer.stop()
    assert not any(thread.name == "offdiag scorer" and thread is scorer._thread for thread in threading.enumerate())
    assert len(asyncio.run(scorer.top_k(served, [3], 4))[0]) == 4, "and begins again when it is asked"
    scorer.stop()


def test_the_lists_of_a_catalogue_of_one_item(tmp_path):
    inter = od.read(np.ones((5, 1)))
    od.Popularity().fit(inter).save(tmp_path / "one.od")
    app = create([tmp_path / "one.od"])
    empty, seen, alike = ask(
        app,
        ("POST", "/recommend", {"history": [], "k": 5}),
        ("POST", "/recommend", {"history": [0], "k": 5}),
        ("POST", "/similar", {"item": 0}),
    )
    assert [item["id"] for item in empty.json()["items"]] == [0]
    assert seen.json()["items"] == []
    assert alike.json()["items"] == []
