"""Damaged requests to a running service, which must answer or close, keep ranking, and not grow; then kill -9 of it."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import zlib
from contextlib import suppress
from pathlib import Path

from tests.fixtures.serving import Service, private_memory
from tests.torture import mutate
from tests.torture.found import Campaign

GROWTH = 0.05  # of the private memory after the first fifth of the requests; more is a leak
KNOWN = (200, 206, 304, 307, 400, 401, 404, 405, 408, 409, 413, 416, 417, 422, 431, 501, 503, 504, 505)
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
BODIES = {
    "/recommend": {"history": [3, 7], "k": 5, "reasons": 1, "block": [1], "allow": [2, 3, 4, 5], "exclude_seen": True},
    "/batch": {"histories": [[3, 7], [1], []], "k": 5},
    "/similar": {"item": 3, "k": 5},
    "/explain": {"history": [3, 7], "item": 5},
    "/compare": {"history": [3, 7], "models": ["model", "plain"], "k": 5},
    "/pair": {"item": 3, "other": 5},
}


def campaign(folder: Path, requests: int, seed: int) -> Campaign:
    found = Campaign("requests", "damaged requests to a running service, and kill -9 of it")
    log = folder / "access.log"
    with Service(folder, "model.od", "plain.od", "--access-log", "access.log", "--timeout", "5") as service:
        memory: list[int] = []
        for number in range(requests):
            _send(found, service, number, seed)
            if number % max(1, requests // 20) == 0:
                memory.append(private_memory(service))
                answer = service.client.post("/recommend", json={"history": [3, 7], "k": 5})
                if answer.status_code != 200 or len(answer.json()["items"]) != 5:
                    found.wrong(f"after request {number}: no list of 5: {answer.status_code} {answer.text[:200]}")
        warm, last = memory[len(memory) // 5], memory[-1]
        found.figures |= {"memory after warm-up, kB": warm, "memory at the end, kB": last}
        if last > warm * (1 + GROWTH) + 4_000:
            found.wrong(f"memory of the service grew from {warm:,} to {last:,} kB")
        if "Traceback" in service.log:
            found.wrong(f"a traceback of the service: {service.log[-1500:]}")
        service.stop(signal.SIGKILL)
        for line in log.read_text().splitlines()[:-1]:  # the last may be cut
            json.loads(line)
        service.start()
        if service.client.get("/health").status_code != 200:
            found.wrong("the service does not start again after kill -9")
        service.stop()
        if (code := service.process.returncode) != 0:
            found.wrong(f"SIGTERM: exit code {code}")
    found.count("kill -9 of the service")
    return found


def request(number: int, seed: int) -> bytes:
    """The damaged request with this number, always the same."""
    draw = random.Random(zlib.crc32(f"{seed} {number}".encode()))
    path, body = draw.choice(sorted(BODIES.items()))
    sound = json.dumps(body).encode()
    how = draw.randrange(3)
    data = json.dumps(mutate.value(body, draw)).encode() if how else mutate.bytes_of(sound, draw)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    )
    return head + data if how < 2 else mutate.bytes_of(head + sound, draw)


def _send(found: Campaign, service: Service, number: int, seed: int) -> None:
    data, answer = request(number, seed), b""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", service.port), timeout=20) as plain:
        plain.sendall(data)
        plain.shutdown(socket.SHUT_WR)
        try:
            while more := plain.recv(1 << 16):
                answer += more
        except TimeoutError:
            found.wrong(f"request {number} of seed {seed}: no answer in 20 s")
            return
    statuses = [int(status) for status in STATUS.findall(answer)]
    found.count(f"answers {statuses[0] // 100}xx" if statuses else "closed without an answer")
    if any(status not in KNOWN for status in statuses) or b"Traceback" in answer:
        found.wrong(f"request {number} of seed {seed}: {answer[:300]!r} to {data[:300]!r}")
