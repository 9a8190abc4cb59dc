"""Requests that wait together are ranked in one call."""

import asyncio
import threading

import pytest

from offdiag.server.batching import BATCH, IDS, Scorer
from offdiag.server.model import ServedModel


@pytest.fixture(scope="module")
def served(one_model):
    return ServedModel("model", one_model / "model.od")


async def rank_together(served, histories):
    """Sizes of the batches, and the answers, when all requests arrive before the scorer starts."""
    sizes = []
    scorer = Scorer(10_000, sizes.append)
    scorer.start = lambda: None  # not yet
    asked = [asyncio.create_task(scorer.top_k(served, history, 5)) for history in histories]
    await asyncio.sleep(0.05)
    Scorer.start(scorer)
    found = await asyncio.wait_for(asyncio.gather(*asked), 30)
    scorer.stop()
    return sizes, found


async def test_waiting_requests_are_ranked_in_one_call(served):
    histories = [[i, i + 1] for i in range(40)]
    sizes, found = await rank_together(served, histories)
    assert sizes == [40]
    for history, (columns, scores) in zip(histories, found, strict=True):
        wanted = served.model.recommend([[served.ids[column] for column in history]], 5)
        assert columns.tolist() == wanted.indices[0].tolist()
        assert scores.tolist() == wanted.scores[0].tolist()


async def test_a_batch_is_limited_in_requests_and_ids(served):
    sizes, _ = await rank_together(served, [[i % served.n_items] for i in range(2 * BATCH + 1)])
    assert sizes == [BATCH, BATCH, 1]
    long = list(range(50))
    sizes, _ = await rank_together(served, [long] * 400)
    assert max(sizes) <= min(BATCH, -(-IDS // len(long)))


async def test_a_cancelled_request_is_not_ranked(served):
    sizes = []
    scorer = Scorer(100, sizes.append)
    scorer.start = lambda: None
    first, second = (asyncio.create_task(scorer.top_k(served, [i], 3)) for i in (1, 2))
    await asyncio.sleep(0.02)
    first.cancel()
    await asyncio.sleep(0.02)
    Scorer.start(scorer)
    columns, _ = await second
    scorer.stop()
    assert sizes == [1]
    assert len(columns) == 3


def test_an_idle_scorer_answers_at_once_stops_and_restarts(served):
    scorer = Scorer(10)
    assert len(asyncio.run(scorer.top_k(served, [3], 4))[0]) == 4
    assert any(thread.name == "offdiag scorer" for thread in threading.enumerate())
    scorer.stop()
    assert not any(thread.name == "offdiag scorer" and thread is scorer._thread for thread in threading.enumerate())
    assert len(asyncio.run(scorer.top_k(served, [3], 4))[0]) == 4, "and begins again when it is asked"
    scorer.stop()
