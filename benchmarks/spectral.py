"""Six shrinkages of one decomposition against the full-rank family, on real data: the table of docs/theory/spectral.md.

Strong generalisation: two tenths of the users are held out, 80 % of their history is folded in, the rest is predicted.
Every setting of every model is chosen on the validation users by a grid; the test users are measured once per model.
Writes results/spectral.json.

    python benchmarks/spectral.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import documents
import numpy as np
from defaults import studies
from run import say

import offdiag as od
from offdiag.data.split import Split
from offdiag.weights import Symmetric

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "spectral.json"
DATA = ("ml-1m", "lastfm, items ≥ 5 users", "steam", "citeulike-a, items ≥ 10 users")
METRIC = "ndcg@100"
RANKS = (50, 100, 200, 400)
USER_POWERS, ITEM_POWERS = (0.0, 0.5), (0.0, 0.5, 0.75)
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)
DROPS = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95)
S = od.spectral
SHRINKS: dict[str, list[S.Shrink]] = {
    "Hard": [S.Hard()],
    "Ridge": [S.Ridge(l2=step) for step in STEPS],  # in units of the automatic l2
    "WeightDecay": [S.WeightDecay(l2=step) for step in (0.01, 0.03, *STEPS)],
    "Dropout": [S.Dropout(drop=drop) for drop in DROPS],
    "DropBlock": [S.DropBlock(drop=drop, block=block) for drop in DROPS for block in (5, 25, 50)],
    "EarlyStop": [S.EarlyStop(time=time) for time in (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)],
}


def at_rank(model: S.Spectral, rank: int) -> S.Spectral:
    """The same fit with fewer components."""
    W: Any = model.weights_
    few = Symmetric(np.ascontiguousarray(W.Q[:, :rank]), W.sigma[:rank], W.shrink[:rank], W.scale)
    other = replace(model, rank=rank)
    vars(other).update({name: value for name, value in vars(model).items() if name.endswith("_")})
    other.weights_, other.settings_ = few, model.settings_ | {"rank": rank}
    return other


def spectral(split: Split) -> dict[str, Any]:
    """The best setting of each shrinkage by validation, and its test result."""
    best: dict[str, tuple[float, Any]] = {}
    for user_power, item_power in itertools.product(USER_POWERS, ITEM_POWERS):
        full = od.Spectral(rank=max(RANKS), user_power=user_power, item_power=item_power).fit(split.train)
        for rank in RANKS:
            some = at_rank(full, rank)
            for name, shrinks in SHRINKS.items():
                for shrink in shrinks:
                    if name in ("Ridge", "WeightDecay"):
                        shrink = replace(shrink, l2=shrink.l2 * full.auto_l2_)  # type: ignore[attr-defined, call-arg]
                    model = some.with_shrink(shrink)
                    value = validated(model, split)
                    if name not in best or value > best[name][0]:
                        best[name] = (value, model)
        say(f"  powers {user_power}, {item_power}: " + ", ".join(f"{k} {v:.4f}" for k, (v, _) in best.items()))
    found = {name: tested(model, value, split) for name, (value, model) in best.items()}
    found["Spectral()"] = tested(od.Spectral().fit(split.train), None, split)
    return found


def full_rank(split: Split) -> dict[str, Any]:
    """EASE, DLAE and EDLAE, each with its own grid around its automatic settings."""

    def grid(make: Callable[..., Any], dropouts: tuple[float, ...]) -> Iterator[Any]:
        l2 = make().fit(split.train).settings_["l2"]
        for dropout, step, power in itertools.product(dropouts, (0.3, 1.0, 3.0), USER_POWERS):
            given: dict[str, float] = {"dropout": dropout} if dropout else {}
            yield make(l2=l2 * step, user_power=power, **given)

    found = {}
    for name, make, dropouts in (
        ("EASE", od.EASE, (0.0,)),
        ("DLAE", od.DLAE, (0.4, 0.65)),
        ("EDLAE", od.EDLAE, (0.4, 0.65)),
    ):
        value, best = -1.0, None
        for model in grid(make, dropouts):
            model.fit(split.train)
            now = validated(model, split)
            if now > value:
                value, best = now, replace(model)
            del model.weights_
        found[name] = tested(best.fit(split.train), value, split)  # type: ignore[union-attr]
        say(f"  {name} {value:.4f}")
    return found


def tested(model: Any, validation: float | None, split: Split) -> dict[str, Any]:
    result = od.evaluate(model, split.test, [METRIC])
    return {
        "validation": validation, "mean": result.mean[METRIC], "sem": result.sem[METRIC],
        "settings": model.settings_, "n_bytes": model.weights_.nbytes, "result": result,
    }  # fmt: skip


def study(split: Split) -> dict[str, Any]:
    found = full_rank(split) | spectral(split)
    reference = found["EDLAE"]["result"]
    for row in found.values():
        test = row.pop("result").compare(reference)
        row["minus_edlae"], row["minus_edlae_sem"] = test.difference[METRIC], test.sem[METRIC]
    return {
        "users": split.train.n_users, "items": split.train.n_items, "interactions": split.train.nnz,
        "test_users": int((np.diff(split.test.targets.indptr) > 0).sum()), "models": found,
    }  # fmt: skip


def validated(model: Any, split: Split) -> float:
    assert split.validation is not None
    return od.evaluate(model, split.validation, [METRIC]).mean[METRIC]


def main() -> None:
    studies(RESULTS, DATA, study, metric=METRIC)
    documents.renew("spectral")


if __name__ == "__main__":
    main()
