"""An event loop that is never idle still lets threads finish, and one without threads does not sleep."""

import asyncio
import threading
import time

import pytest

from offdiag.server import handover
from offdiag.server.handover import Handover


@pytest.fixture
def slept(monkeypatch):
    """Every time the loop yielded."""
    seen = []
    real = time.sleep
    monkeypatch.setattr(handover.time, "sleep", lambda seconds: seen.append(seconds) or real(seconds))
    return seen


async def busy(seconds, until=lambda: False):
    """A loop that polls all the time and never waits."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        await asyncio.sleep(0)


async def wait_for(handover, work):
    with handover:
        await work


async def test_a_loop_yields_while_threads_finish_nothing(slept):
    done = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(wait_for(Handover(), done))
    await busy(20, until=lambda: slept)
    assert slept
    done.set_result(None)
    await task
    await busy(2 * handover.PATIENCE)
    before = len(slept)
    await busy(4 * handover.PATIENCE)
    assert len(slept) == before, "nothing is waited for any more"


async def test_a_loop_does_not_sleep_while_results_arrive(slept):
    found = Handover()
    task = asyncio.create_task(wait_for(found, busy(6 * handover.PATIENCE)))
    while not task.done():
        await wait_for(found, asyncio.sleep(0))
    assert not slept


def test_each_loop_that_waits_is_checked(slept):
    found, times = Handover(), []
    for _ in range(2):
        asyncio.run(wait_for(found, busy(20, until=lambda: len(slept) > sum(times))))
        times.append(len(slept))
    assert 0 < times[0] < times[1]


async def test_a_thread_finishes_under_a_loop_that_is_never_idle():
    """Many small steps that need the interpreter lock; without help each waits for the loop."""

    def work():
        for _ in range(200):
            threading.Event().wait(0)

    begun = time.monotonic()
    with Handover():
        task = asyncio.get_running_loop().run_in_executor(None, work)
        while not task.done():
            await busy(0.01)
        await task
    assert time.monotonic() - begun < 20
