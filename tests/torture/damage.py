"""Damaged and forged files in every reader: a result or an `OffdiagError`, never a crash, a hang or another error.

A few hundred files are read in each copy, under a limit of memory; a copy that dies names the file it was reading.
"""

from __future__ import annotations

import gzip
import json
import mmap
import os
import random
import resource
import signal
import sqlite3
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fixtures import every_shape
from tests.torture import forks, mutate
from tests.torture.found import Campaign

BATCH = 150
SECONDS = 60  # a file that takes longer is a hang
ROOM = 3 << 30  # of address space, above what the program has


@dataclass(frozen=True)
class Reader:
    name: str
    file: str  # its name matters: formats are known by their suffix
    read: Callable[[str], Any]
    damage: Callable[[bytes, random.Random], bytes] = mutate.bytes_of


def table(name: str) -> Any:
    import offdiag as od

    return od.read(name)


def database(name: str) -> Any:
    import offdiag as od

    return od.read(f"sqlite:///{name}", table="log")


def catalogue(name: str) -> Any:
    import offdiag as od

    return od.read_catalogue(name)


def features(name: str) -> Any:
    import offdiag as od

    return od.read_features(name)


def model(name: str) -> Any:
    import offdiag as od
    from offdiag import persist

    persist.describe(name)
    found = od.load(name, verify=True)
    ids = found.item_ids_[:3].tolist()
    found.recommend([ids, []], k=3)
    return found.recommend([ids[:1]], k=5, exclude_seen=False)


def study(name: str) -> Any:
    import offdiag as od

    inter = od.synthetic.interactions(40, 12, 200, seed=0)
    return od.tune(od.EASE, od.split.strong(inter, held_out=0.2, seed=0), trials=2, study=name)


def living(name: str) -> Any:
    import offdiag as od

    return od.load(name.removesuffix(".living"), key="keys").gram_.toarray().sum()


SHAPES = tuple(name for name in every_shape.makers() if name not in every_shape.NETS)
TABLES = ("csv", "tsv", "jsonl", "json", "parquet", "arrow", "xlsx", "csv.gz")
READERS = (
    *(Reader(f"a table: {kind}", f"table.{kind}", table) for kind in TABLES),
    Reader("a table: JSON with other values", "table.json", table, mutate.json_text),
    Reader("a table: SQLite", "table.db", database),
    Reader("a catalogue", "shop.csv", catalogue),
    Reader("features", "shop.csv", features),
    *(Reader(f"a damaged model: {name}", f"{name}.od", model) for name in SHAPES),
    *(Reader(f"a forged model: {name}", f"{name}.od", model, mutate.forged) for name in SHAPES),
    Reader("a living state", "whole.od.living", living),
    Reader("a study", "study.jsonl", study, mutate.json_text),
)


def write_files(place: Path) -> None:
    """One sound file of each kind."""
    import numpy as np
    import polars as pl

    import offdiag as od

    os.chdir(place)
    frame = pl.DataFrame(
        {
            "user": [f"u{n % 17}" for n in range(60)],
            "item": [f"é{n % 11}" for n in range(60)],
            "rating": [n % 5 + 0.5 for n in range(60)],
        }
    )
    frame.write_csv("table.csv")
    frame.write_csv("table.tsv", separator="\t")
    frame.write_ndjson("table.jsonl")
    frame.write_json("table.json")
    frame.write_parquet("table.parquet")
    frame.write_ipc("table.arrow")
    frame.write_excel("table.xlsx")
    Path("table.csv.gz").write_bytes(gzip.compress(Path("table.csv").read_bytes()))
    with sqlite3.connect("table.db") as base:
        base.execute("create table log (user text, item text)")
        base.executemany("insert into log values (?, ?)", frame.select("user", "item").iter_rows())
    base.close()
    Path("shop.csv").write_text(
        "item,title,category,price\n" + "".join(f"{n},Thing {n},kind{n % 4},{n}.5 €\n" for n in range(30))
    )
    for name, fitted in every_shape.fit_all().items():
        fitted.save(f"{name}.od")
    od.EASE(l2=5.0).fit(np.eye(6) + np.eye(6)[::-1]).save("whole.od", updatable=True, key="keys")
    study("study.jsonl")


def campaign(work: Path, cpu: float, seed: int) -> Campaign:
    """Every reader gets the same share of the processor time."""
    found = Campaign("damaged files", "every reader of tables, catalogues, features, models, living states and studies")
    work.mkdir(parents=True, exist_ok=True)
    forks.ask(lambda: write_files(work), work, timeout=600)
    kept = {path.name: path.read_bytes() for path in work.iterdir()}
    for n, reader in enumerate(READERS):
        share = (cpu - found.spent()) / (len(READERS) - n)
        first, until = 0, found.spent() + share
        while first == 0 or found.spent() < until:
            first = _batch(found, reader, work, kept, first, seed, max(until - found.spent(), 0.05))
    return found


def _batch(
    found: Campaign, reader: Reader, work: Path, kept: dict[str, bytes], first: int, seed: int, cpu: float
) -> int:
    """Read some damaged files in one copy; return the number of the next one."""
    shared = mmap.mmap(-1, 64)
    complaints = work / "complaints"
    complaints.unlink(missing_ok=True)
    name = reader.name
    ran = forks.run(
        lambda: _read_many(reader, kept[reader.file], first, seed, cpu, shared), work, before=_limit, timeout=900
    )
    done, refused = int.from_bytes(shared[:8], "little"), int.from_bytes(shared[8:16], "little")
    for path, data in kept.items():
        (work / path).write_bytes(data)
    found.count(f"{name}: read", done - first - refused)
    found.count(f"{name}: refused", refused)
    if complaints.exists():
        for line in complaints.read_text().splitlines():
            found.wrong(f"{name}: {json.loads(line)}")
    if ran.code != 0:
        how = "takes too long" if ran.code == -signal.SIGALRM else f"ends the program ({ran.code})"
        found.wrong(f"{name}: file {done} of seed {seed} {how}: {ran.err[-400:]}")
        return done + 1
    return done


def _limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))


def damaged(reader: Reader, data: bytes, number: int, seed: int) -> bytes:
    """The file with this number, always the same."""
    return reader.damage(data, random.Random(zlib.crc32(f"{seed} {reader.name} {number}".encode())))


def _read_many(reader: Reader, data: bytes, first: int, seed: int, cpu: float, shared: mmap.mmap) -> int:
    from offdiag.errors import OffdiagError

    warnings.simplefilter("ignore")
    end, refused, number = time.process_time() + cpu, 0, first
    complaints: set[str] = set()
    for number in range(first, first + BATCH):
        shared[:16] = number.to_bytes(8, "little") + refused.to_bytes(8, "little")
        Path(reader.file).write_bytes(damaged(reader, data, number, seed))
        signal.alarm(SECONDS)
        try:
            reader.read(reader.file)
        except (OffdiagError, MemoryError) as error:
            refused += 1
            if "\n" in str(error):
                complaints.add(json.dumps(f"file {number} of seed {seed}: an error of several lines: {error}"))
        except Exception:
            last = traceback.format_exc().splitlines()
            complaints.add(json.dumps(f"file {number} of seed {seed}: " + " | ".join(last[-7:])[-900:]))
        signal.alarm(0)
        if time.process_time() > end:
            break
    shared[:16] = (number + 1).to_bytes(8, "little") + refused.to_bytes(8, "little")
    if complaints:
        Path("complaints").write_text("\n".join(sorted(complaints)[:5]) + "\n")
    return 0
