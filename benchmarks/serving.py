"""The service under load: requests per second, latencies, the ratio to bare scoring, and the time of a cold start.

Creates models of 20,000 items with random weights (dense, packed, sparse with 100 neighbours each), starts ``offdiag
serve``, and lets wrk request the best 20 items for random histories of 30, on the same machine. ``--soak`` instead runs
for minutes while model files are replaced and malformed requests are mixed in. Writes results/serving.json and the
tables of docs/serving.md.

    python benchmarks/serving.py [--items 20000] [--seconds 20] [--connections 8] [--folder FOLDER]
    python benchmarks/serving.py --soak 10
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import documents
import numpy as np
from measure import machine
from numpy.typing import NDArray
from run import say
from scipy import sparse

import offdiag as od
from offdiag import persist, ranking
from offdiag.weights import Dense, Packed, Sparse

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "serving.json"
BYTECODE = os.path.join(tempfile.gettempdir(), "offdiag-bytecode")
LENGTH, K, NEIGHBOURS = 30, 20, 100
STEP, FIRST = 3, 1  # ids are 1, 4, 7, …


def made(kind: str, m: int, folder: Path, seed: int = 0) -> Path:
    """A model file with random weights: the load of a service does not depend on their values."""
    path = folder / f"{kind}{seed or ''}.od"
    if path.exists():
        return path
    rng = np.random.default_rng(seed)
    model: Any = od.SparseEDLAE() if kind == "sparse" else od.EDLAE(dropout=0.5, l2=100.0)
    if kind == "dense":
        B = rng.standard_normal((m, m), dtype=np.float32)
        np.fill_diagonal(B, 0)
        model.weights_ = Dense(B)
    elif kind == "packed":
        C = rng.standard_normal(m * (m + 1) // 2, dtype=np.float32)
        model.weights_ = Packed(C, np.ones(m, np.float32), np.zeros(m, np.float32))
    else:
        n = min(NEIGHBOURS, m)
        columns = np.concatenate([rng.choice(m, n, replace=False) for _ in range(m)])
        entries = (rng.random(m * n, dtype=np.float32), columns, np.arange(0, m * n + 1, n))
        model.weights_ = Sparse.of(sparse.csc_array(entries, shape=(m, m)).tocsr())
    model.item_ids_ = FIRST + STEP * np.arange(m)
    model.popularity_ = rng.integers(1, 5000, m).astype(float)
    model.settings_, model.n_users_ = {}, 100_000
    persist.save(model, path)
    return path


@contextlib.contextmanager
def serving(*args: Any, log: Path | None = None) -> Iterator[tuple[int, int]]:
    """Run a service; yields its (port, process id)."""
    said = (log or Path(tempfile.mkstemp()[1])).open("w+")
    command = [sys.executable, "-m", "offdiag", "serve", *map(str, args), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = BYTECODE  # an installed package has its bytecode next to it
    process = subprocess.Popen(command, stderr=said, env=environment)
    try:
        while not (found := re.search(r"http://[^ ]*:(\d+)", Path(said.name).read_text())):
            if process.poll() is not None:
                raise SystemExit(Path(said.name).read_text())
            time.sleep(0.002)
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait()
        said.close()


def post(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def asked(history: NDArray[np.int64]) -> bytes:
    return json.dumps({"history": (FIRST + STEP * history).tolist(), "k": K}).encode()


def cold_start(path: Path) -> float:
    """Seconds from the command to the first recommendations."""
    begun = time.perf_counter()
    with serving(path) as (port, _):
        status, _ = post(port, "/recommend", asked(np.arange(LENGTH)))
        assert status == 200
        return time.perf_counter() - begun


def wrk(port: int, m: int, seconds: int, connections: int, seed: int = 1) -> dict[str, float]:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(HERE / "serving.lua")]
    numbers = [m, STEP, FIRST, LENGTH, K, seed]
    ran = subprocess.run(
        [*command, f"http://127.0.0.1:{port}", "--", *map(str, numbers)], capture_output=True, text=True, check=True
    )
    found = re.search(r"RESULT (.*)", ran.stdout)
    assert found, ran.stdout + ran.stderr
    result: dict[str, float] = json.loads(found[1])
    return result | {"per_second": result["requests"] / result["seconds"]}


def bare(path: Path, m: int, seconds: float = 5.0) -> dict[str, float]:
    """Lists per second in one process without a service: ``model.recommend``, and only scoring and ranking."""
    model = od.load(path)
    model.weights_.prepare_lists()  # as the service does after loading
    rng = np.random.default_rng(7)
    histories = [np.sort(rng.choice(m, LENGTH, replace=False)) for _ in range(500)]
    lists = [[(FIRST + STEP * history).tolist()] for history in histories]
    rows = [
        sparse.csr_array((np.ones(LENGTH, np.float32), history.astype(np.int32), [0, LENGTH]), shape=(1, m))
        for history in histories
    ]

    def rate(call: Any, inputs: list[Any]) -> float:
        for one in inputs[:50]:
            call(one)
        begun, done = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            call(inputs[done % len(inputs)])
            done += 1
        return done / (time.perf_counter() - begun)

    return {
        "recommend": rate(lambda history: model.recommend(history, k=K), lists),
        "scoring": rate(lambda row: ranking.top_k(model.weights_, row, K), rows),
    }


def wait_until_idle(process: int, most: float = 120.0) -> None:
    """Wait while the service still prepares its models: until a second costs it less than 50 ms of processor time."""

    def used() -> float:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    end, before = time.monotonic() + most, -1.0
    while time.monotonic() < end and used() - before > 0.05:
        before = used()
        time.sleep(1)


def own_memory(process: int) -> int:
    """Bytes of a process besides mapped files."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def load(kind: str, m: int, folder: Path, seconds: int, connections: int) -> dict[str, Any]:
    path = made(kind, m, folder)
    path.read_bytes()  # start from the page cache, with equal conditions for all measurements
    starts = [cold_start(path) for _ in range(3)]
    alone = bare(path, m)
    with serving(path) as (port, process):
        wait_until_idle(process)
        wrk(port, m, max(2, seconds // 4), connections, seed=9)
        found = wrk(port, m, seconds, connections)
        own = own_memory(process)
    ratio = {f"ratio_to_{name}": found["per_second"] / rate for name, rate in alone.items()}
    report = {
        "kind": kind, "items": m, "bytes": path.stat().st_size, "connections": connections, **found,
        "own_bytes": own,
        "bare_per_second": alone, **ratio, "cold_start_seconds": statistics.median(starts),
    }  # fmt: skip
    say(f"{kind}: " + json.dumps({key: value for key, value in report.items() if key != "kind"}))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--kinds", default="dense,packed,sparse")
    parser.add_argument("--folder", type=Path, help="where model files are made and kept")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--dry", action="store_true", help="print only; write no results")
    words = parser.parse_args()
    report: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with contextlib.ExitStack() as stack:
        folder = words.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if words.soak is not None:
            import serving_soak

            report |= {"soak": serving_soak.soak(folder, words.items, words.soak, words.connections)}
        else:
            kinds = words.kinds.split(",")
            runs = [load(kind, words.items, folder, words.seconds, words.connections) for kind in kinds]
            report |= {"machine": machine(), "runs": runs}
    if not words.dry:
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")
        documents.renew(*(name for name, part in (("serving", "runs"), ("soak", "soak")) if part in report))


if __name__ == "__main__":
    main()
