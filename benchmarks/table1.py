"""Table 1 of [Steck20] on the data sets next to the repository: every row tuned on validation users, measured once.

    python benchmarks/table1.py                                # all four, each with the budget below
    python benchmarks/table1.py [FOLDER WITH DATA SETS] ml-1m  # one of them
    python benchmarks/table1.py lastfm --seeds 0 1 2 3 4       # several seeds of the split, tuned for each
    python benchmarks/table1.py lastfm --rows edlae edlae-full # only some rows; nothing is written
    python benchmarks/table1.py scale                          # the stand-in of ML-20M: time and memory, about an hour

It is ``offdiag reproduce steck2020 table1`` with the budget below, the same for every row. The rank is a twentieth of
the items, as in the paper on ML-20M. Writes results/table1-NAME.json and updates docs/results.md. The last is that
command with ``--size paper``; it writes results/steck2020_scale.json and its table in docs/papers/steck2020. Finished
rows are kept in the folder for temporary files, so an interrupted run resumes where it stopped.

--processor counts the seconds of tuning in processor time: budgets then stay equal where other programs run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import documents
import results_page
import seeds
from choosing import count_processor_time, data_folder
from measure import machine
from run import say

from offdiag.papers.steck2020 import rows, sources, table1, table1_page

HERE = Path(__file__).parent
SCALE = HERE / "results" / "steck2020_scale.json"
KEPT = Path(tempfile.gettempdir()) / "offdiag-table1"
FOLDERS = {"ml-100k": "ml-100k", "ml-1m": "ml-1m", "lastfm": "lastfm-hetrec2011", "citeulike-a": "citeulike-a"}
TRIALS = 40  # at most
SECONDS = {"ml-100k": 20.0, "ml-1m": 35.0, "lastfm": 12.0, "citeulike-a": 30.0}  # for the tuning of any row
SEED = 0


class Told:
    """Progress as lines on stderr: the current stage and its time."""

    def __init__(self) -> None:
        self._last, self._begin = "", time.perf_counter()

    def __call__(self, stage: str, fraction: float) -> None:
        what = " · ".join(stage.split(" · ")[1:2])  # "table 1 · set: row · what is done for it"
        if what != self._last:
            say(f"  {time.perf_counter() - self._begin:5.0f} s, {100 * fraction:3.0f} %: {what}")
            self._last = what


def scale(some: list[str] | None) -> None:
    """Every row of the paper on a stand-in with the shape of ML-20M; only time and memory count."""
    before = machine()
    found = table1.run(
        [sources.stand_in()], folder=KEPT, trials=0, rows=some or rows.OWN_ROWS, seed=SEED, progress=Told()
    )
    said = {"machine": before, **table1_page.as_json(found)}
    SCALE.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n")
    documents.renew("steck2020-scale")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help=f"the folder with data sets, then some of {', '.join(FOLDERS)}, scale")
    parser.add_argument("--rows", nargs="+", help="only these; nothing is written")
    parser.add_argument("--seeds", nargs="+", type=int, default=[SEED], help="of the split")
    parser.add_argument("--trials", type=int, default=TRIALS, help="per row, at most")
    parser.add_argument("--seconds", type=float, help="for the tuning of a row, instead of the usual budget")
    parser.add_argument("--processor", action="store_true", help="count the seconds of tuning in processor time")
    return parser.parse_args()


def study(name: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The table of one data set, from one seed of the split or several."""
    before = machine()
    words: dict[str, Any] = {"trials": given.trials, "seconds": given.seconds or SECONDS[name], "rows": given.rows}
    found = []
    for seed in given.seeds:
        say(f"{name}, seed {seed}:")
        source = sources.Source(name, folder / FOLDERS[name])
        found.append(table1.run([source], folder=KEPT, seed=seed, progress=Told(), **words))
    whole = found[0]
    if len(found) > 1:
        part = seeds.pooled([one.parts[0] for one in found], given.seeds)
        whole = replace(whole, parts=[part], seconds=sum(one.seconds for one in found))
    said = table1_page.as_json(whole)
    return {"machine": before, **said, "seeds": given.seeds, "processor": given.processor}


def main(given: argparse.Namespace) -> None:
    folder = data_folder(given.names)
    names = given.names or list(FOLDERS)
    if names == ["scale"]:
        scale(given.rows)
        return
    for name in names:
        if name not in FOLDERS:
            raise SystemExit(f"expected some of {', '.join(FOLDERS)}, received {name!r}")
        if not (folder / FOLDERS[name]).exists():
            raise SystemExit(f"no data set at {folder / FOLDERS[name]}: pass the folder that holds them")
    if given.processor:
        count_processor_time()
    for name in names:
        said = study(name, folder, given)
        say(table1_page.markdown(said))
        if given.rows is None:
            target = HERE / "results" / f"table1-{name}.json"
            target.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n")
            results_page.renew()


if __name__ == "__main__":
    main(parse())
