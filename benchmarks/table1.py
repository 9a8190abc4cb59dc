"""Table 1 of [Steck20] on the data sets next to the repository: every row tuned on validation users, measured once.

    python benchmarks/table1.py                                # all four, 8 to 20 minutes each on 2 cores
    python benchmarks/table1.py [FOLDER WITH DATA SETS] ml-1m  # one of them
    python benchmarks/table1.py lastfm rows=edlae,edlae-full   # only some rows; nothing is written
    python benchmarks/table1.py scale                          # the stand-in of ML-20M: time and memory, about an hour

It is ``offdiag reproduce steck2020 table1`` with the budget below. The rank is a twentieth of the items, as in the
paper on ML-20M. Writes results/table1-NAME.json and updates docs/results.md. The last is that command with ``--size
paper``; it writes results/steck2020_scale.json and its table in docs/papers/steck2020. Finished rows are kept in the
folder for temporary files, so an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import documents
import results_page
from choosing import SHARED
from measure import machine
from run import say

from offdiag.papers.steck2020 import rows, sources, table1, table1_page

HERE = Path(__file__).parent
SCALE = HERE / "results" / "steck2020_scale.json"
KEPT = Path(tempfile.gettempdir()) / "offdiag-table1"
FOLDERS = {"ml-100k": "ml-100k", "ml-1m": "ml-1m", "lastfm": "lastfm-hetrec2011", "citeulike-a": "citeulike-a"}
# name → trials, seconds for the tuning of a row; nets get a fifth of the trials and eight times as long
BUDGET = {"ml-100k": (40, 20.0), "ml-1m": (40, 35.0), "lastfm": (40, 12.0), "citeulike-a": (20, 30.0)}
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


def main(words: list[str]) -> None:
    folder = Path(words.pop(0)) if words and Path(words[0]).is_dir() else SHARED
    some = next((word.removeprefix("rows=").split(",") for word in words if word.startswith("rows=")), None)
    names = [word for word in words if not word.startswith("rows=")] or list(FOLDERS)
    if names == ["scale"]:
        scale(some)
        return
    for name in names:
        if name not in FOLDERS:
            raise SystemExit(f"expected one of {', '.join(FOLDERS)}, received {name!r}")
        if not (folder / FOLDERS[name]).exists():
            raise SystemExit(f"no data set at {folder / FOLDERS[name]}: pass the folder that holds them")
    for name in names:
        trials, seconds = BUDGET[name]
        before = machine()
        found = table1.run(
            [sources.Source(name, folder / FOLDERS[name])], folder=KEPT, trials=trials, seconds=seconds, rows=some,
            seed=SEED, progress=Told(),
        )  # fmt: skip
        said = table1_page.as_json(found)
        say(table1_page.markdown(said))
        if some is None:
            target = HERE / "results" / f"table1-{name}.json"
            target.write_text(json.dumps({"machine": before, **said}, indent=2, ensure_ascii=False) + "\n")
            results_page.renew()


if __name__ == "__main__":
    main(sys.argv[1:])
