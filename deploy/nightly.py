"""Bring a served model up to date from a database every night; keep it only if it is not worse.

    python nightly.py MODEL --orders env:ORDERS          # ORDERS: postgresql://… or sqlite:///…
    python nightly.py MODEL --roll-back                  # the model of the night before

A twentieth of the users, chosen by their id, are never learned from: they judge every new model. The update is
rehearsed on a copy. If that ranks for the judges not worse than the model in use, within two standard errors of the
paired difference, the same update changes the model itself, in one atomic step that the service notices. Whatever
stops this program, MODEL is the old model or the new one; run it again. Exit codes: 0 done, 1 worse and kept
as it was, 2 it could not run.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# For ids that are numbers. For text, use the hash function of the database: abs(hashtext(customer)) in PostgreSQL.
JUDGES = "customer % 20 = 7"
LEARN = f"select customer as user, product as item, placed_at as time from orders where not ({JUDGES})"
JUDGE = f"select customer as user, product as item from orders where {JUDGES}"
FIT = ("--model", "edlae", "--time", "time")
METRIC = "ndcg@20"


class CommandError(Exception):
    """A command that did not succeed; its own message says why."""


def offdiag(*words: str) -> str:
    ran = subprocess.run([sys.executable, "-m", "offdiag", *words], stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        raise CommandError(f"offdiag {words[0]} ended with {ran.returncode}")
    return ran.stdout


def parts(model: Path) -> tuple[Path, Path]:
    """The files of a model: what is served, and the encrypted state that updates need."""
    return model, model.with_name(model.name + ".living")


def copy(source: Path, target: Path) -> None:
    """Both files, each replaced whole. The state comes first: run again if only that was done."""
    for old, new in reversed(list(zip(parts(source), parts(target), strict=True))):
        passing = new.with_name(f".{new.name}.part")
        shutil.copy2(old, passing)
        with passing.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(passing, new)


def compare(old: Path, new: Path, orders: str) -> dict[str, Any]:
    found = json.loads(offdiag("evaluate", orders, str(old), str(new), "--query", JUDGE, "--metric", METRIC, "--json"))
    (one,) = found["comparisons"]
    return {
        "before": found["models"][0]["mean"][METRIC],
        "after": found["models"][1]["mean"][METRIC],
        "difference": one["difference"][METRIC],
        "standard_error": one["sem"][METRIC],
        "judges": one["n_users"],
    }


def night(model: Path, orders: str) -> int:
    learn = (orders, "--query", LEARN)
    if not model.exists():
        offdiag("fit", *learn, "--out", str(model), "--updatable", *FIT)
        return report({"outcome": "first model"})
    prefix = f".{model.name}.nightly-"
    for left in model.parent.glob(f"{prefix}*"):  # of a run that was killed: only one at a time runs
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=model.parent, prefix=prefix) as folder:
        rehearsed = Path(folder, model.name)
        copy(model, rehearsed)
        offdiag("update", str(rehearsed), *learn)
        found = compare(model, rehearsed, orders)
    if found["difference"] < -2 * found["standard_error"]:
        return report({"outcome": "worse, kept as it was", **found}, 1)
    copy(model, model.with_name(model.name + ".previous"))
    offdiag("update", str(model), *learn)
    return report({"outcome": "updated", **found})


def roll_back(model: Path) -> int:
    previous = model.with_name(model.name + ".previous")
    if not all(path.exists() for path in parts(previous)):
        raise CommandError(f"there is no model of the night before next to {model}")
    copy(previous, model)
    return report({"outcome": "rolled back"})


def report(found: dict[str, Any], code: int = 0) -> int:
    print(json.dumps(found))
    return code


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("--orders", default="env:ORDERS", help="address of the database")
    options.add_argument("--roll-back", action="store_true", help="restore the model of the night before")
    chosen = options.parse_args(argv)
    model: Path = chosen.model.resolve()
    with (model.parent / f".{model.name}.nightly").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return roll_back(model) if chosen.roll_back else night(model, chosen.orders)
        except BlockingIOError:
            print("another run of this program is busy with the model", file=sys.stderr)
        except (CommandError, OSError) as error:
            print(f"{error}; the model is as it was, or was changed completely", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
