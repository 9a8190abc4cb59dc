"""Minutes of load with hot reloads and malformed requests: no valid request may fail, no malformed one may succeed."""

from __future__ import annotations

import http.client
import json
import os
import re
import statistics
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from run import say
from serving import LENGTH, asked, made, post, serving, wrk

import offdiag as od

EVERY = 5.0  # seconds between reloads
RUBBISH = 6  # one in this many new files is corrupt
BAD: list[tuple[str, str, bytes]] = [
    ("POST", "/recommend", b""),
    ("POST", "/recommend", b"{"),
    ("POST", "/recommend", b"\xff\x00\xfe"),
    ("POST", "/recommend", b'{"history": "x"}'),
    ("POST", "/recommend", b'{"history": [1], "k": 100000}'),
    ("POST", "/recommend", b'{"history": [1], "k": -1, "extra": 1}'),
    ("POST", "/recommend", b'{"history": [' + b"1," * 600_000 + b"1]}"),
    ("POST", "/recommend", b"[" * 100_000),
    ("POST", "/similar", b'{"item": "nobody"}'),
    ("POST", "/explain", b'{"history": [], "item": 2}'),
    ("POST", "/pair", b'{"item": 1, "other": 4}'),
    ("POST", "/compare", b'{"history": [], "models": ["a", "b"]}'),
    ("GET", "/items?limit=-1", b""),
    ("GET", "/model?model=nope", b""),
    ("GET", "/static/%2e%2e/app.py", b""),
    ("GET", "/nowhere", b""),
    ("DELETE", "/recommend", b""),
]


def soak(folder: Path, m: int, minutes: float, connections: int) -> dict[str, Any]:
    files = [made("dense", m, folder, seed) for seed in (1, 2)]
    history = np.arange(LENGTH)
    allowed = [od.load(file).recommend([[int(i) for i in 1 + 3 * history]], k=20).items[0].tolist() for file in files]
    served = folder / "served.od"
    link(files[0], served)
    stop = threading.Event()
    counts = {"good": 0, "good_failed": 0, "bad": 0, "bad_wrong": 0, "swaps": 0}
    memory: list[int] = []
    with serving(served, "--reload-every", 0.5, log=folder / "soak.log") as (port, process):
        threads = [
            threading.Thread(target=watch, args=(stop, port, history, allowed, counts)),
            threading.Thread(target=pester, args=(stop, port, counts)),
            threading.Thread(target=swap, args=(stop, files, served, counts)),
            threading.Thread(target=weigh, args=(stop, process, memory)),
        ]
        for thread in threads:
            thread.start()
        loaded = wrk(port, m, round(60 * minutes), connections)
        stop.set()
        for thread in threads:
            thread.join()
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    reloads = dict(re.findall(r'reloads_total\{outcome="(\w+)"\} (\d+)', metrics))
    warm = memory[len(memory) // 5 :] or memory
    part = max(1, len(warm) // 5)
    report: dict[str, Any] = {
        "minutes": minutes, "items": m, **counts, "per_second": loaded["per_second"], "p99_ms": loaded["p99_ms"],
        "reloads_done": int(reloads["done"]), "reloads_failed": int(reloads["failed"]),
        "memory_warm_mb": statistics.median(warm[:part]) / 1000,
        "memory_end_mb": statistics.median(warm[-part:]) / 1000, "memory_kb": memory,
    }  # fmt: skip
    report["good"] += int(loaded["requests"])
    report["good_failed"] += int(loaded["errors"] + loaded["not_200"])
    say(json.dumps({key: value for key, value in report.items() if key != "memory_kb"}))
    return report


def link(source: Path, target: Path) -> None:
    """Replace a file by another atomically, as saving does, without copying it."""
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    os.link(source, part)
    os.replace(part, target)


def watch(stop: threading.Event, port: int, history: Any, allowed: list[Any], counts: dict[str, int]) -> None:
    """Valid requests whose answers are checked."""
    while not stop.wait(0.02):
        try:
            status, body = post(port, "/recommend", asked(history))
            right = status == 200 and [item["id"] for item in json.loads(body)["items"]] in allowed
        except OSError:
            right = False
        counts["good"] += 1
        counts["good_failed"] += not right


def pester(stop: threading.Event, port: int, counts: dict[str, int]) -> None:
    """Malformed requests: each must get a 4xx with a one-line message."""
    at = 0
    while not stop.wait(0.05):
        method, path, body = BAD[at % len(BAD)]
        at += 1
        counts["bad"] += 1
        counts["bad_wrong"] += not refused(port, method, path, body)


def refused(port: int, method: str, path: str, body: bytes) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        try:
            connection.request(method, path, body)
        except (BrokenPipeError, ConnectionResetError):
            if len(body) < 1 << 20:
                return False  # only a request that is too large may be closed before it is read
        answer = connection.getresponse()
        said = json.loads(answer.read())
        return 400 <= answer.status < 500 and list(said) == ["error"] and bool(said["error"])
    except (OSError, http.client.HTTPException, ValueError) as error:
        cut_off = isinstance(error, ConnectionResetError) and len(body) >= 1 << 20
        if not cut_off:
            say(f"{method} {path}: {error!r}")
        return cut_off
    finally:
        connection.close()


def swap(stop: threading.Event, files: list[Path], served: Path, counts: dict[str, int]) -> None:
    turn = 0
    while not stop.wait(EVERY):
        turn += 1
        counts["swaps"] = turn
        if turn % RUBBISH == 0:
            rubbish = served.with_suffix(".rubbish")
            rubbish.write_bytes(os.urandom(100_000))
            os.replace(rubbish, served)
        else:
            link(files[turn % 2], served)


def weigh(stop: threading.Event, process: int, memory: list[int]) -> None:
    """Private memory of the process, in kB; pages of mapped files belong to the system."""
    while not stop.wait(1.0):
        said = Path(f"/proc/{process}/smaps_rollup").read_text()
        found = re.search(r"^Pss_Anon:\s+(\d+)", said, re.M)
        memory.append(int(found[1]) if found else int(time.time()))
