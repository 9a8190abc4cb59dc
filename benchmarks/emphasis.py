"""Does emphasis help beyond the linear case? Non-linear denoising autoencoders with and without it, on real data.

For each weight of kept entries the dropout is chosen on the validation users, with the other settings at their
defaults; the test users are measured once per weight, for several seeds. Linear models of the same width are shown
next to them. Writes results/emphasis.json and the table of docs/theory/emphasis.md. Needs torch (the extra ``neural``).

    python benchmarks/emphasis.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import METRIC, score, standard_error
from defaults import studies
from run import say

import offdiag as od
from offdiag.data.split import Split
from offdiag.plots import papers

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "emphasis.json"
PAGE = HERE.parent / "docs" / "theory" / "emphasis.md"
DATA = ("lastfm, items ≥ 5 users", "ml-1m")
KEPT_WEIGHTS = (0.0, 0.1, 0.3, 1.0)
DROPOUTS = (0.3, 0.5, 0.7)
SEEDS = (0, 1, 2)
WIDTH = 256


def study(split: Split) -> dict[str, Any]:
    assert split.validation is not None
    rows: dict[str, Any] = {}
    per_user: dict[str, Any] = {}
    for linear in (True, False):
        for kept_weight in KEPT_WEIGHTS:
            name = f"{'LowRankEDLAE' if linear else 'EmphasizedDAE'} {kept_weight:g}"
            tried = {p: make(linear, kept_weight, p, 0).fit(split.train) for p in DROPOUTS}
            values = {p: od.evaluate(m, split.validation, [METRIC]).mean[METRIC] for p, m in tried.items()}
            best = max(values, key=lambda p: values[p])
            models = [tried[best]]
            if not linear:
                models += [make(linear, kept_weight, best, seed).fit(split.train) for seed in SEEDS[1:]]
            found = [score(model, split.test) for model in models]
            per_user[name] = np.mean(found, axis=0)  # a user's mean over the seeds
            rows[name] = {
                "kept_weight": kept_weight, "linear": linear, "dropout": best, "validation": values[best],
                "mean": float(per_user[name].mean()), "sem": standard_error(per_user[name]),
                "spread_of_seeds": float(np.std([f.mean() for f in found], ddof=1)) if len(found) > 1 else None,
            }  # fmt: skip
            say(f"  {name}: {rows[name]['mean']:.4f} ± {rows[name]['sem']:.4f}, dropout {best}")
    for name, row in rows.items():
        gain = per_user[name] - per_user[f"{name.split()[0]} 1"]
        row["minus_no_emphasis"], row["minus_no_emphasis_sem"] = float(gain.mean()), standard_error(gain)
    edlae = od.evaluate(od.EDLAE().fit(split.train), split.test, [METRIC])
    return {
        "users": split.train.n_users, "items": split.train.n_items, "interactions": split.train.nnz,
        "test_users": len(next(iter(per_user.values()))), "models": rows, "edlae": edlae.mean[METRIC],
    }  # fmt: skip


def make(linear: bool, kept_weight: float, dropout: float, seed: int) -> Any:
    if linear:
        return od.LowRankEDLAE(rank=WIDTH, kept_weight=kept_weight, dropout=dropout, seed=seed)
    return od.EmphasizedDAE(width=WIDTH, kept_weight=kept_weight, dropout=dropout, seed=seed)


def picture(results: dict[str, Any]) -> bytes:
    """Accuracy against the weight of kept entries, a panel per data set."""
    figure, axes = papers.panels(1, len(results["data"]), width=3.6)
    names = {"EmphasizedDAE": "non-linear", "LowRankEDLAE": "linear, rank 256"}
    for axis, (name, r) in zip(axes[0], results["data"].items(), strict=True):
        for n, (kind, label) in enumerate(names.items()):
            rows = [r["models"][f"{kind} {weight:g}"] for weight in KEPT_WEIGHTS]
            gains = [row["minus_no_emphasis"] for row in rows]
            errors = [row["minus_no_emphasis_sem"] for row in rows]
            axis.errorbar(
                KEPT_WEIGHTS, gains, errors, label=label, color=papers.COLOURS[n], marker="o", capsize=3, lw=1.6
            )
        axis.axhline(0, color=papers.COLOURS[-1], lw=1)
        axis.set(title=name, xlabel="weight of kept entries")
    axes[0, 0].set_ylabel("gain over no emphasis, nDCG@100")
    axes[0, 0].legend(frameon=False, fontsize=8.5)
    return papers.rendered(figure, "png")


def renew() -> None:
    PAGE.with_suffix(".png").write_bytes(picture(json.loads(RESULTS.read_text())))
    documents.renew("emphasis")


def main() -> None:
    studies(RESULTS, DATA, study, metric=METRIC, width=WIDTH, seeds=len(SEEDS))
    renew()


if __name__ == "__main__":
    main()
