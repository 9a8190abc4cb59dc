"""``python -m tests.torture --minutes 120``: everything; ``--only`` for a part, ``--seed`` for other damage.

Results go to benchmarks/results/torture.json; ``python benchmarks/documents.py`` then renews docs/torture.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "torture.json"
KILLS_PER_MINUTE = 25  # of processor time; a kill and the look at what it left take a second or so
MORE_THAN = 500  # kills that a run of the whole campaign never goes below


def campaigns(minutes: float, seed: int, place: Path) -> dict[str, Callable[[], Any]]:
    """Each part of the campaign with its share of the processor time."""
    from tests.torture import crowd, damage, forks, growth, kills, places, requests, shop, surroundings

    start, work = place / "start", place / "work"
    start.mkdir()
    forks.ask(lambda: shop.build(start), place, timeout=600)
    rounds = 1 if minutes < 1 else 3 if minutes < 60 else 12
    times = max(MORE_THAN if minutes >= 10 else 3, int(minutes * KILLS_PER_MINUTE * 0.35))
    return {
        "kills": lambda: kills.campaign(start, work, times, seed, shop.WRITERS if minutes >= 1 else shop.WRITERS[:3]),
        "damage": lambda: damage.campaign(place / "damage", minutes * 60 * 0.4, seed),
        "requests": lambda: requests.campaign(shop.fresh(start, place / "service"), int(minutes * 300), seed),
        "places": lambda: places.campaign(start, work, rounds, seed),
        "surroundings": lambda: surroundings.campaign(start, shop.fresh(start, place / "surroundings"), rounds, seed),
        "growth": lambda: growth.campaign(start, place / "growth", int(minutes * 40)),
        "crowd": lambda: crowd.campaign(start, place / "crowd", minutes * 6, seed),
    }


def run(minutes: float, seed: int, only: list[str] | None = None) -> list[dict[str, Any]]:
    import offdiag
    from tests.torture import forks

    os.environ["OFFDIAG_KEY_FILE"] = "keys"
    os.environ["PYTHONPATH"] = str(Path(offdiag.__file__).parents[1])  # of new programs, which start in other folders
    forks.load()
    with tempfile.TemporaryDirectory(prefix="offdiag-torture-") as place:
        parts = campaigns(minutes, seed, Path(place))
        found = []
        for name, part in parts.items():
            if only is None or name in only:
                found.append(part().to_dict())
                print(f"{name}: {len(found[-1]['findings'])} findings, {found[-1]['cpu_seconds']} s", file=sys.stderr)
    return found


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    options.add_argument("--minutes", type=float, default=120.0, help="Processor time to spend, roughly.")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", action="append", help="A part; repeatable.")
    options.add_argument("--out", type=Path, default=OUT)
    chosen = options.parse_args()
    found = run(chosen.minutes, chosen.seed, chosen.only)
    kept = json.loads(chosen.out.read_text())["campaigns"] if chosen.out.exists() else []
    merged = {one["name"]: one for one in (*kept, *found)}  # parts that did not run stay as they were
    chosen.out.write_text(json.dumps({"campaigns": list(merged.values())}, indent=1) + "\n")
    findings = sum(len(one["findings"]) for one in found)
    print(f"{findings} findings; see {chosen.out}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.exit(main())
