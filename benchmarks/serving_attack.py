"""The service under attack: clients that send requests without reading answers, next to well-behaved clients.

``flood`` opens many connections that pipeline requests, 60 MB in total, and meanwhile measures, from other
connections, how long an answer takes and how much the memory of the service grows. ``busy`` measures the first
``/health`` of new connections while many others keep the service busy. Compares source trees in one run:

    python benchmarks/serving_attack.py [--tree ../before/src] [--tree src] [--connections 200] [--megabytes 60]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from serving import asked, made, serving

RESULTS = Path(__file__).parent / "results" / "serving_attack.json"
SECONDS = 10.0
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def memory(pid: int) -> float:
    """Private memory of a process, in MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss_Anon:\s+(\d+)", text, re.M)
    assert found
    return int(found[1]) / 1024


def request(body: bytes, close: bool = True) -> bytes:
    end = b"Connection: close\r\n\r\n" if close else b"\r\n"
    return b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(body) + end + body


def answered(port: int, data: bytes, seconds: float = 60.0) -> float:
    """Seconds from opening a connection to the end of the answer; infinite if there is none."""
    begun = time.perf_counter()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as plain:
            plain.sendall(data)
            received = b""
            while more := plain.recv(1 << 16):
                received += more
    except OSError:
        return float("inf")
    return time.perf_counter() - begun if received.startswith(b"HTTP/1.1 200") else float("inf")


def quantiles(seconds: list[float]) -> dict[str, float]:
    values = 1000 * np.sort(seconds)
    at = [values[min(int(q * len(values)), len(values) - 1)] for q in (0.5, 0.99)]
    return {"n": len(values), "p50_ms": round(at[0], 1), "p99_ms": round(at[1], 1), "max_ms": round(values[-1], 1)}


def meanwhile(port: int, good: dict[str, bytes], seconds: float) -> dict[str, Any]:
    """What well-behaved clients see, each request on a new connection."""
    seen: dict[str, list[float]] = {name: [] for name in good}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, data in good.items():
            seen[name].append(answered(port, data))
            time.sleep(0.01)
    return {name: quantiles(times) for name, times in seen.items()}


def flood(port: int, pid: int, good: dict[str, bytes], line: bytes, connections: int, total: int) -> dict[str, Any]:
    """Memory growth and what other clients see while this many bytes are pipelined."""
    for data in good.values():
        answered(port, data)
    before, stop, peak = memory(pid), threading.Event(), [0.0]
    child = subprocess.Popen(
        [sys.executable, __file__, "--attack", str(port), str(connections), str(total), line.hex()]
    )  # in a separate process: threads of this one would slow each other down

    def watch() -> None:
        while not stop.wait(0.05):
            peak[0] = max(peak[0], memory(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(0.5)
    seen = meanwhile(port, good, SECONDS)
    stop.set()
    watcher.join()
    child.kill()
    child.wait()
    return {"memory_growth_mb": round(peak[0] - before, 1), **seen}


def attack(port: int, connections: int, total: int, line: bytes) -> None:
    """Send and never read, until killed."""
    open_ones = []
    for _ in range(connections):
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setblocking(False)
        open_ones.append((plain, memoryview(line * (total // connections // len(line)))))
    while True:
        for at, (plain, rest) in enumerate(open_ones):
            if len(rest):
                try:
                    open_ones[at] = plain, rest[plain.send(rest[: 1 << 16]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    open_ones[at] = plain, memoryview(b"")
        time.sleep(0.005)


def busy(port: int, data: bytes, connections: int) -> dict[str, Any]:
    """The first /health of new connections while this many others send one request after the other."""
    child = subprocess.Popen([sys.executable, __file__, "--busy", str(port), str(connections), data.hex()])
    time.sleep(3)
    seen = meanwhile(port, {"health": GET}, SECONDS)
    child.kill()
    child.wait()
    return seen


def keep_busy(port: int, connections: int, data: bytes) -> None:
    import selectors

    chosen = selectors.DefaultSelector()
    for _ in range(connections):
        plain = socket.create_connection(("127.0.0.1", port))
        chosen.register(plain, selectors.EVENT_READ, bytearray())
        plain.sendall(data)
    while True:
        for key, _ in chosen.select():
            assert isinstance(key.fileobj, socket.socket)
            plain, received = key.fileobj, key.data
            received += plain.recv(1 << 18)
            head = received.find(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", received)
            if head >= 0 and length and len(received) >= head + 4 + int(length[1]):
                received.clear()
                plain.sendall(data)


def run(tree: str | None, path: Path, connections: int, total: int) -> dict[str, Any]:
    if tree is not None:
        os.environ["PYTHONPATH"] = str(Path(tree).resolve())
    history = np.arange(30)
    list_of_20 = asked(history)
    good = {"health": GET, "recommend": request(list_of_20)}
    heavy = json.dumps(json.loads(list_of_20) | {"k": 100, "reasons": 5}).encode()
    steps: dict[str, Callable[[int, int], Any]] = {
        "flood of GET": lambda port, pid: flood(
            port, pid, good, b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", connections, total
        ),
        "flood of POST": lambda port, pid: flood(port, pid, good, request(list_of_20, close=False), connections, total),
        "busy with lists": lambda port, pid: busy(port, request(list_of_20, close=False), 256),
        "busy with reasons": lambda port, pid: busy(port, request(heavy, close=False), 256),
    }
    report = {}
    for name, step in steps.items():
        with serving(path) as (port, pid):
            report[name] = step(port, pid)
        print(tree or "this tree", name, json.dumps(report[name]), flush=True)
    return report


def main() -> None:
    if sys.argv[1:2] in (["--attack"], ["--busy"]):
        port, connections = int(sys.argv[2]), int(sys.argv[3])
        if sys.argv[1] == "--busy":
            keep_busy(port, connections, bytes.fromhex(sys.argv[4]))
        attack(port, connections, int(sys.argv[4]), bytes.fromhex(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--tree", action="append", help="a source folder to measure; several times")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--kind", default="sparse")
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=60)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = made(words.kind, words.items, Path(folder))
        total = words.megabytes * 10**6
        report = {tree or "src": run(tree, path, words.connections, total) for tree in words.tree or [None]}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
