"""A real ``offdiag serve`` over loopback, for the tests of the service, and the models it serves."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np

import offdiag as od

N_ITEMS = 150


def make_models(folder):
    """Four kinds of weights; text ids, and whole numbers that do not ascend."""
    inter = od.synthetic.catalogue(800, N_ITEMS, 16_000, communities=6, seed=5).interactions
    numbers = np.random.default_rng(3).permutation(N_ITEMS) * 7 + 11
    numbered = od.Interactions(inter.matrix, inter.user_ids, numbers)
    split = od.split.strong(inter, held_out=0.1, seed=0)
    exact = od.EDLAE(dropout=0.5, l2=50.0).fit(split.train)
    measured = od.evaluate(exact, split.test, metrics=["recall@20", "ndcg@100"])
    exact.save(folder / "exact.od", metrics=measured, updatable=True)
    od.EASE(l2=80.0, storage="dense").fit(inter).save(folder / "dense.od")
    od.SparseEDLAE(neighbours=12, l2=10.0).fit(numbered).save(folder / "sparse.od")
    od.LowRankEDLAE(rank=10, l2=20.0, dropout=0.3).fit(numbered).save(folder / "low-rank.od")
    od.WMF(rank=8).fit(inter).save(folder / "wmf.od")
    return {name: od.load(folder / f"{name}.od") for name in ("exact", "dense", "sparse", "low-rank", "wmf")}


class Service:
    """The process. ``log`` is what it said on stderr."""

    def __init__(self, folder, *args, env=None, **popen):
        self.path = folder / f"stderr-{time.monotonic_ns()}.txt"
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | (env or {})
        command = [sys.executable, "-m", "offdiag", "serve", *map(str, args), "--port", "0"]
        with self.path.open("wb") as said:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=said, **popen)
        self.port = int(self.wait_for(r"http://[^ ]*:(\d+)")[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=30)

    @property
    def log(self):
        return self.path.read_text()

    def wait_for(self, pattern, seconds=60):
        """Until the log says it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.log):
                return found
            assert self.process.poll() is None, self.log
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} is not in:\n{self.log}")

    def post(self, path, **body):
        return self.client.post(path, json=body)

    def stop(self, how=signal.SIGTERM):
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.stop()


def until(condition, seconds=20):
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def has_read(connection):
    """Whether the service has taken everything that was sent to it over a connection of this machine."""
    ours, theirs = (f":{address[1]:04X}" for address in (connection.getsockname(), connection.getpeername()))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if local.endswith(theirs) and remote.endswith(ours):
            return int(queues.partition(":")[2], 16) == 0
    return False
