"""The same application behind other servers: raw cases of the RFCs, floods, slow headers, throughput.

Needs uvicorn, hypercorn and granian for their rows; missing ones are left out. Prints a table, and writes it to
docs/serving.md and results/serving_servers.json.

    python benchmarks/serving_servers.py [--seconds 10] [--path FOLDER_WITH_PACKAGES]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import documents
import numpy as np
from measure import machine
from serving import asked, made, wrk
from serving_attack import GET, flood, request

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULTS = ROOT / "benchmarks" / "results" / "serving_servers.json"
NEVER = float("inf")
APPLICATION = "import sys\nfrom offdiag.server.app import create\napp = create([{!r}], hosts=frozenset())\n"
SERVERS = {
    "offdiag": "-m offdiag serve {path} --port {port}",
    "uvicorn, httptools": "-m uvicorn application:app --port {port} --http httptools --no-access-log",
    "uvicorn, h11": "-m uvicorn application:app --port {port} --http h11 --no-access-log",
    "hypercorn": "-m hypercorn application:app --bind 127.0.0.1:{port} --worker-class uvloop",
    "granian": "-m granian application:app --interface asgi --port {port} --no-ws --loop uvloop",
}


@contextlib.contextmanager
def running(command: str, path: Path, folder: Path, packages: str | None) -> Iterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "application.py").write_text(APPLICATION.format(str(path)))
    places = [str(ROOT / "src"), str(folder), *([packages] if packages else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    words = [sys.executable, *command.format(path=path, port=port).split()]
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(words, env=environment, stdout=said, stderr=said)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as plain:
                plain.sendall(GET)
                if plain.recv(100):
                    break
            if process.poll() is not None:
                raise ModuleNotFoundError((folder / "said.txt").read_text()[-300:])
            time.sleep(0.1)
        yield port, serving_process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def serving_process(pid: int) -> int:
    """The process itself, or its largest child process."""
    below = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def size(one: int) -> int:
        return int(Path(f"/proc/{one}/statm").read_text().split()[1])

    return max([pid, *below], key=size)


def raw_cases(port: int) -> dict[str, Any]:
    http = import_module("tests.fixtures.http_cases")

    def one(case: Any) -> tuple[str, str | None, int]:
        try:
            answers, closed = http.ask(port, case, 4.0)
        except OSError as error:
            return case.name, repr(error), 0
        return case.name, http.complaint(case, answers, closed), len(http.without_line(case, answers))

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(one, http.CASES))
    wrong = {name: why for name, why, _ in seen if why}
    smuggled = [name for name in wrong if "hidden" in name or "http2" in name or "h2c" in name]
    return {
        "cases": len(seen),
        "against the RFCs": len(wrong),
        "of them Upgrade": len(smuggled),
        "errors without a line": sum(1 for *_, n in seen if n),
        "which": wrong,
    }


def slow_headers(port: int, seconds: float = 20.0) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        try:
            answer = plain.recv(100)
        except TimeoutError:
            return f"open after {seconds:g} s"
    found = re.match(rb"HTTP/1.1 (\d+)", answer)
    return found[1].decode() if found else "closed"


def measure(command: str, path: Path, m: int, seconds: int, packages: str | None) -> dict[str, Any]:
    ahead = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
    good = {"health": GET, "recommend": request(asked(np.arange(30)))}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with running(command, path, place, packages) as (port, _):
            report: dict[str, Any] = raw_cases(port)
            report["slow headers"] = slow_headers(port)
        with running(command, path, place, packages) as (port, _):
            wrk(port, m, 2, 8, seed=9)
            report["8 connections"] = wrk(port, m, seconds, 8)
            report["256 connections"] = wrk(port, m, seconds, 256)
        with running(command, path, place, packages) as (port, pid):
            report["flood"] = flood(port, pid, good, ahead, 200, 60 * 10**6)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--path", help="a folder with packages that are not installed")
    parser.add_argument("--only", help="servers, divided by semicolons")
    words = parser.parse_args()
    report: dict[str, Any] = {"machine": machine(), "servers": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = made("sparse", words.items, Path(folder))
        for name, command in SERVERS.items():
            if words.only and name not in words.only.split(";"):
                continue
            try:
                report["servers"][name] = measure(command, path, words.items, words.seconds, words.path)
            except ModuleNotFoundError as error:
                print(name, "is left out:", error)
                continue
            print(name, report["servers"][name], flush=True)
    if not words.only:
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")
        documents.renew("servers")


if __name__ == "__main__":
    main()
