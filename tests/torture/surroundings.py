"""What surrounds a command: little memory, clocks that jump, other languages, odd ids, one to eight threads."""

from __future__ import annotations

import itertools
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.torture import forks, shop
from tests.torture.found import Campaign

ODD_IDS = (
    "čaj", "千と千尋", "🎬🎬", "e\u0301", "é", "İstanbul", "ıI", "ß", "\u202eright to left", "a\tb", "a b ", " a b",
    "0", "00", "-0", "1e3", "nan", "None", "null", "true", "'", '"', '""', "a,b", "a;b", "a|b", "a\\b", "\\N", "%s",
    "{}", "<b>&amp;", "../../etc", "x" * 10_000, "ü" * 5_000, "\ufeff", "\u2028", "\x7f", "\x01",
)  # fmt: skip


def campaign(start: Path, work: Path, rounds: int, seed: int) -> Campaign:
    found = Campaign(
        "surroundings", "little memory, clocks that jump, languages, odd ids of up to 10,000 characters, 1 to 8 threads"
    )
    _memory(found, start, work, rounds)
    _clocks(found, start, work, seed)
    _languages(found, work)
    _ids(found, work)
    _threads(found, work)
    return found


def _memory(found: Campaign, start: Path, work: Path, rounds: int) -> None:
    for writer in shop.WRITERS:
        old = forks.ask(writer.read, shop.fresh(start, work))
        for room in (10, 40, 100, 250)[: max(1, rounds)]:
            shop.fresh(start, work)
            ran = forks.command(writer.words, work, before=_room(room << 20))
            name = f"{writer.name} with {room} MB"
            if ran.code in (-6, -11, 1, 127) and "memory" in ran.err.lower():
                found.count("ended by the allocator of a library")  # of Rust or C, which cannot report it
            else:
                found.count(f"little memory: {'done' if ran.code == 0 else 'refused in one line'}")
                if ran.broken:
                    found.wrong(f"{name}: {ran.broken}")
            state = forks.ask(writer.read, work)
            if ran.code != 0 and state != old:
                found.wrong(f"{name}: exit code {ran.code}, but not the old state")


def _room(room: int) -> Callable[[], None]:
    def limit() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))

    return limit


def _clocks(found: Campaign, start: Path, work: Path, seed: int) -> None:
    for writer in shop.WRITERS:
        for year in (1970, 2100):
            shop.fresh(start, work)
            for path in work.iterdir():
                os.utime(path, ((year - 1970) * 31_557_600,) * 2)
            ran = forks.command(writer.words, work, before=lambda: _jump(random.Random(seed)))
            found.count(f"files of {year} and a clock that jumps: {'done' if ran.code == 0 else 'refused'}")
            if ran.code != 0:
                found.wrong(f"{writer.name} with a clock that jumps: {ran.broken or ran.err}")
            else:
                forks.ask(writer.read, work)


def _jump(draw: random.Random) -> None:
    """The time of day moves by up to a year with every look at it, both ways; `time.monotonic` never does."""
    import time

    real = time.time
    time.time = lambda: real() + draw.uniform(-3e7, 3e7)  # type: ignore[assignment]


def _languages(found: Campaign, work: Path) -> None:
    """New programs, because a language is chosen at the start."""
    work.mkdir(exist_ok=True)
    ids = [word for word in ODD_IDS if word.isprintable() and len(word) < 50]
    rows = [f"u{u},{_quoted(ids[(u * 7 + n) % len(ids)])}\n" for u in range(60) for n in range(9)]
    (work / "words.csv").write_text("user,item\n" + "".join(rows), encoding="utf-8")
    made = subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", str(work / "tr_TR.UTF-8")], capture_output=True)
    cases = {"C": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, "POSIX": {"LC_ALL": "POSIX"}}
    if (work / "tr_TR.UTF-8").exists():
        cases["tr_TR"] = {"LC_ALL": "tr_TR.UTF-8", "LOCPATH": str(work)}
    else:
        found.skipped.append(f"tr_TR: {made.stderr.decode()[-80:]}")
    lists: dict[str, bytes] = {}
    for name, extra in {"C.UTF-8": {"LC_ALL": "C.UTF-8"}, **cases}.items():
        for words in (
            ("fit", "words.csv", "--out", "words.od", "--model", "ease", "--l2", "5"),
            ("recommend", "words.od", "--histories", "words.csv", "-k", "5", "--out", "lists.csv"),
            ("recommend", "words.od", "--history", "čaj,İstanbul", "-k", "3"),
            ("info", "words.od"),
        ):
            ran = subprocess.run(
                [sys.executable, "-m", "offdiag", *words], cwd=work, env=os.environ | extra, capture_output=True
            )
            found.count(f"in {name}")
            if ran.returncode != 0 or b"Traceback" in ran.stderr:
                found.wrong(f"{words[0]} in {name}: {ran.returncode}: {ran.stderr.decode(errors='replace')[-500:]}")
        lists[name] = (work / "lists.csv").read_bytes()
    if len(set(lists.values())) != 1:
        found.wrong(f"lists differ by language: {[name for name in lists if lists[name] != lists['C.UTF-8']]}")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _ids(found: Campaign, work: Path) -> None:
    """Every odd id keeps its place from a table through a model file, an update and a file of lists."""

    def check() -> int:
        import offdiag as od
        from offdiag.errors import OffdiagError

        rows = [(f"u{u}", ODD_IDS[(u * 5 + n * n) % len(ODD_IDS)]) for u, n in itertools.product(range(80), range(8))]
        accepted, refusals = [], []
        for word in ODD_IDS:
            try:
                od.read({"user": ["a"], "item": [word]})
                accepted.append(word)
            except OffdiagError as error:
                refusals.append(str(error))
        assert all(map(str.isprintable, refusals))
        kept = [row for row in rows if row[1] in set(accepted)]
        log = od.read({"user": [u for u, _ in kept], "item": [i for _, i in kept]})
        od.EASE(l2=3.0).fit(log).save("odd.od", updatable=True, key="keys")
        back = od.load("odd.od", verify=True, key="keys")
        assert sorted(back.item_ids_.tolist()) == sorted({i for _, i in kept})
        back.update(od.read({"user": ["new", "new"], "item": [accepted[0], accepted[1]]}))
        back.save("odd.od", updatable=True, key="keys")
        again = od.load("odd.od", key="keys")
        for word in accepted:
            assert again.recommend([[word]], k=3).items.shape == (1, 3)
        print(len(accepted))
        return 0

    ran = forks.run(check, work)
    found.count("odd ids", len(ODD_IDS))
    if ran.code != 0:
        found.wrong(f"odd ids: {ran.err[-800:]}")
    else:
        found.figures["odd ids accepted"] = int(ran.out.split()[-1])


def _threads(found: Campaign, work: Path) -> None:
    """The same Gram to the bit and the same lists, whatever the number of threads."""

    def lists(n: int) -> Callable[[], object]:
        def call() -> object:
            import offdiag as od
            from offdiag._kernels import parallel

            os.sched_setaffinity(0, range(os.cpu_count() or 1))
            modules = [
                module
                for name, module in sys.modules.items()
                if name.startswith("offdiag.") and "n_threads" in vars(module)
            ]
            for module in [parallel, *modules]:
                module.n_threads = lambda: n
            inter = od.synthetic.interactions(400, 120, 9_000, seed=4)
            gram = od.gram(inter).toarray()
            found = [od.EASE(l2=9.0), od.SparseEDLAE(neighbours=9, l2=2.0), od.Popularity()]
            ranked = [model.fit(inter).recommend(inter, k=9).items.tolist() for model in found]
            return [float(np.sum(gram * np.arange(gram.size).reshape(gram.shape) % 97)), ranked]

        return call

    first = forks.ask(lists(1), work)
    for n in range(2, 9):
        found.count("numbers of threads")
        if forks.ask(lists(n), work) != first:
            found.wrong(f"{n} threads: other lists or another Gram than one thread")
