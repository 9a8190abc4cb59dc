"""Requests per second of one process by the size of the catalogue; writes results/capacity.json and docs/production.md.

Models with random weights, wrk on the same machine: see serving.py, whose load this is.

    python benchmarks/capacity.py [--seconds 10] [--connections 8] [--items 1000,10000,…]
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import documents
from measure import machine
from run import say
from serving import made, serving, wrk

RESULTS = Path(__file__).parent / "results" / "capacity.json"
SIZES = (1_000, 10_000, 30_000, 100_000, 300_000)
DENSE_ITEMS = 30_000  # the limit that docs/serving.md advises


def resident(pid: int) -> int:
    """Bytes of memory of its own; the mapped model is shared and can be dropped by the system."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss_Anon:\s+(\d+)", text, re.M)
    return int(found[1]) * 1024 if found else 0


def load(kind: str, m: int, folder: Path, seconds: int, connections: int) -> dict[str, Any]:
    path = made(kind, m, folder)
    path.read_bytes()
    with serving(path) as (port, pid):
        wrk(port, m, max(2, seconds // 4), connections, seed=9)
        found = wrk(port, m, seconds, connections)
        own = resident(pid)
    size = path.stat().st_size
    path.unlink()
    report = {"kind": kind, "items": m, "bytes": size, "own_bytes": own, "connections": connections, **found}
    say(json.dumps(report))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--items", default=",".join(map(str, SIZES)))
    words = parser.parse_args()
    sizes, before = [*map(int, words.items.split(","))], machine()
    kinds = [(kind, m) for m in sizes for kind in (("dense", "sparse") if m <= DENSE_ITEMS else ("sparse",))]
    with tempfile.TemporaryDirectory() as folder:
        runs = [load(kind, m, Path(folder), words.seconds, words.connections) for kind, m in kinds]
    RESULTS.write_text(json.dumps({"machine": before, "runs": runs}, indent=2) + "\n")
    documents.renew("capacity")


if __name__ == "__main__":
    main()
