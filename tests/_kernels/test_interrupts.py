"""A Ctrl-C is deferred, never lost: while a loop compiles, while threads are awaited, and after an error."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from numba.core.caching import NullCache

from offdiag._kernels import interrupts, parallel

pytestmark = pytest.mark.usefixtures("ctrl_c")


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_a_loop_compiles_arrives_afterwards():
    loop = parallel.compiled(lambda x: x + 1)
    loop._cache = NullCache()  # an earlier run of this test left it on disk
    compile_loop = loop._compiler.compile

    def interrupted(*args):
        with suppress(KeyboardInterrupt):  # as ctypes does with an exception in a callback
            press()
            time.sleep(0)
        return compile_loop(*args)

    loop._compiler.compile = interrupted
    with pytest.raises(KeyboardInterrupt):
        loop(1)
    assert loop(1) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_the_wait_for_threads_at_once(monkeypatch):
    monkeypatch.setattr(parallel, "n_threads", lambda: 2)
    signal.siginterrupt(signal.SIGINT, False)  # as importing polars does
    started, dropped = [], threading.Event()
    both = threading.Barrier(2, action=threading.Timer(0.1, press).start)

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, **options):
            super().shutdown(False, **options)
            dropped.set()
            super().shutdown(wait)

    def work(n):
        started.append(n)
        if len(started) <= 2:
            both.wait(60)
            dropped.wait(60)  # a wait for these two would last that long

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Pool)
    with pytest.raises(KeyboardInterrupt):
        parallel.run_parallel(work, [(n,) for n in range(6)])
    assert len(started) == 2


def test_ctrl_c_before_an_error_is_raised_as_well():
    def fail():
        with interrupts.Shield():
            press()
            raise ValueError("singular")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert isinstance(caught.value.__context__, ValueError)


def test_an_outer_shield_defers_what_an_inner_one_releases():
    reached = []

    def nested():
        with interrupts.Shield():
            with interrupts.Shield():
                press()
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert reached
