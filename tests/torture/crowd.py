"""Programs that read and change the same files at the same time, while a log grows under them."""

from __future__ import annotations

import random
import re
import threading
import time
from pathlib import Path

from tests.torture import forks, shop
from tests.torture.found import Campaign

EXPECTED = re.compile(
    r"another program|has replaced it|forgotten already|no user in it has|nothing new|belongs to another state|already|"
    r"must contain all|counted|is not in the model|expected|columns|known to the model|not in the log|the log"
)


def campaign(start: Path, work: Path, seconds: float, seed: int) -> Campaign:
    """Three writers and two readers on one model, and somebody who appends to its log, half a line at a time."""
    found = Campaign("a crowd", "programs that read and change one model at the same time, while its log grows")
    shop.fresh(start, work)
    stop = time.monotonic() + seconds
    threads = [threading.Thread(target=_read, args=(found, work, stop)) for _ in range(2)]
    threads += [threading.Thread(target=_write, args=(found, work, stop, seed + n)) for n in range(3)]
    threads.append(threading.Thread(target=_append, args=(found, work, stop, seed)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        forks.ask(shop.model("model.od", living=True), work)
    except RuntimeError as error:
        found.wrong(f"the model at the end: {error}")
    ran = forks.command(("fit", "half.csv", "--out", "model.od", "--updatable", *shop.FIT), work)
    if ran.code != 0:
        found.wrong(f"a fit after the crowd has left: {ran.err}")
    if left := [path.name for path in work.iterdir() if path.name.endswith((".tmp", ".next", ".change"))]:
        found.wrong(f"the crowd left {left}")
    return found


def _program(words: tuple[str, ...], work: Path) -> tuple[int, str]:
    """A new program, not a copy: this one runs threads."""
    import os
    import subprocess
    import sys

    ran = subprocess.run(
        [sys.executable, "-m", "offdiag", *words], cwd=work, env=os.environ, capture_output=True, text=True
    )
    return ran.returncode, ran.stderr


def _read(found: Campaign, work: Path, stop: float) -> None:
    while time.monotonic() < stop:
        code, err = _program(("recommend", "model.od", "--history", "3,7,11", "-k", "5"), work)
        found.count("lists read")
        if code != 0:
            found.wrong(f"a reader: exit code {code}: {err[-600:]}")


def _write(found: Campaign, work: Path, stop: float, seed: int) -> None:
    draw = random.Random(seed)
    commands: tuple[tuple[str, ...], ...] = (
        ("update", "model.od", "log.csv"),
        ("forget", "model.od", "--users", "leaving.txt", "--events", "half.csv"),
        ("catalogue", "model.od", "products.csv"),
        ("fit", "half.csv", "--out", "model.od", "--updatable", *shop.FIT),
    )
    while time.monotonic() < stop:
        words = draw.choice(commands)
        code, err = _program(words, work)
        found.count(f"{words[0]}: {'done' if code == 0 else 'refused in one line'}")
        if code not in (0, 2) or "Traceback" in err or (code == 2 and not EXPECTED.search(err)):
            found.wrong(f"{words[0]} in a crowd: exit code {code}: {err[-600:]}")


def _append(found: Campaign, work: Path, stop: float, seed: int) -> None:
    draw = random.Random(seed)
    with (work / "log.csv").open("a") as log:
        user = 10_000
        while time.monotonic() < stop:
            line = f"{user},{draw.randrange(shop.N_ITEMS)}\n"
            user += 1
            log.write(line[:3])
            log.flush()
            time.sleep(0.02)
            log.write(line[3:])
            log.flush()
            found.count("lines appended to the log")
            time.sleep(0.05)
