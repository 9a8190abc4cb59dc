"""The shop that is tortured: a log, products, a model with its living state, and every command that writes a file."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FIT = ("--model", "ease", "--l2", "20", "--user-power", "0.5")
N_USERS, N_ITEMS = 200, 90
HISTORIES = ([3, 7, 11], [1], [])
PRODUCTS = ("--item", "item", "--categories", "category", "--text", "title")


@dataclass(frozen=True)
class Writer:
    """A command, the file it writes, and how that file is read: the answer is one of the old or the new state."""

    name: str
    words: tuple[str, ...]
    file: str
    read: Callable[[], Any]
    repeatable: bool = True  # a second run gives the same bytes
    kept: tuple[str, ...] = ()  # files a run that was stopped may leave, from which the same command resumes


def build(place: Path) -> None:
    """The folder in which every trial starts."""
    import offdiag as od
    from offdiag import cli

    inter = od.synthetic.interactions(N_USERS, N_ITEMS, 3_000, names=False, seed=2)
    users = np.repeat(np.arange(N_USERS), np.diff(inter.matrix.indptr))
    rows = [f"{u},{i}\n" for u, i in zip(users.tolist(), inter.matrix.indices.tolist(), strict=True)]
    early = [row for row in rows if int(row.split(",")[0]) < N_USERS - 10]
    (place / "half.csv").write_text("user,item\n" + "".join(early))
    (place / "log.csv").write_text("user,item\n" + "".join(rows))
    (place / "leaving.txt").write_text("3\n17\n42\n")
    titles = [f"{i},Product {i} of {('wood', 'wool', 'glass')[i % 3]},kind{i % 7}\n" for i in range(N_ITEMS + 5)]
    (place / "products.csv").write_text("item,title,category\n" + "".join(titles))
    os.chdir(place)
    for words in (
        ("fit", "half.csv", "--out", "model.od", "--updatable", *FIT),
        ("fit", "half.csv", "--out", "plain.od", *FIT),
    ):
        assert cli.main([*words]) == 0


def model(name: str, *, living: bool = False) -> Callable[[], Any]:
    """What a model file answers: its lists, and digests of its weights and of the Gram next to it."""

    def read() -> Any:
        import offdiag as od

        if not Path(name).exists():
            return None
        found = od.load(name, verify=True)
        lists = found.recommend([list(part) for part in HISTORIES], k=5).items.tolist()
        assert all(len(set(part)) == 5 for part in lists), lists
        weights = hashlib.sha256(b"".join(array.tobytes() for array in found.weights_.arrays().values())).hexdigest()
        gram = hashlib.sha256(found.gram_.toarray().tobytes()).hexdigest() if living else None
        catalogue = None if found.catalogue_ is None else len(found.catalogue_)
        return [lists, weights, gram, catalogue]

    return read


def usable(name: str) -> Callable[[], Any]:
    """For searches against the clock, whose result differs from run to run: whether there is a model that ranks."""

    def read() -> Any:
        return None if model(name)() is None else "a model"

    return read


def contents(name: str) -> Callable[[], Any]:
    def read() -> Any:
        path = Path(name)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None

    return read


def folder_contents(name: str) -> Callable[[], Any]:
    def read() -> Any:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(name).glob("*"))}

    return read


FORGET = ("forget", "model.od", "--users", "leaving.txt", "--events", "log.csv", "--certificate", "proof.json")
LISTS = ("recommend", "model.od", "--histories", "half.csv", "-k", "20", "--out")
WRITERS = (
    Writer(
        "fit", ("fit", "log.csv", "--out", "model.od", "--updatable", *FIT), "model.od", model("model.od", living=True)
    ),
    Writer("fit a new file", ("fit", "log.csv", "--out", "new.od", *FIT), "new.od", model("new.od")),
    Writer("update", ("update", "model.od", "log.csv"), "model.od", model("model.od", living=True)),
    Writer("forget", FORGET, "model.od", model("model.od", living=True)),
    Writer("forget, new key", (*FORGET, "--rotate-key"), "model.od", model("model.od", living=True)),
    Writer("compress", ("compress", "plain.od", "plain.od", "--keep", "20"), "plain.od", model("plain.od")),
    Writer("catalogue", ("catalogue", "model.od", "products.csv"), "model.od", model("model.od", living=True)),
    Writer("add-items", ("add-items", "plain.od", "products.csv", *PRODUCTS), "plain.od", model("plain.od")),
    Writer("recommend to CSV", (*LISTS, "lists.csv"), "lists.csv", contents("lists.csv")),
    Writer("recommend to Parquet", (*LISTS, "lists.parquet"), "lists.parquet", contents("lists.parquet")),
    Writer(
        "recommend to a folder",
        (*LISTS, "parts.csv", "--rows-per-file", "900"),
        "parts.csv",
        folder_contents("parts.csv"),
    ),
    Writer(
        "evaluate",
        ("evaluate", "half.csv", "model.od", "plain.od", "--out", "found.csv"),
        "found.csv",
        contents("found.csv"),
    ),
    Writer(
        "tune",
        ("tune", "log.csv", "--model", "ease", "--trials", "6", "--study", "study.jsonl", "--out", "best.od"),
        "best.od",
        usable("best.od"),
        repeatable=False,
        kept=("study.jsonl",),
    ),
    Writer(
        "auto",
        ("auto", "log.csv", "--minutes", "0.03", "--out", "auto.od"),
        "auto.od",
        usable("auto.od"),
        repeatable=False,
        kept=("auto.od.race",),
    ),
)


def fresh(start: Path, work: Path) -> Path:
    """A new copy of the folder."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)
    return work
