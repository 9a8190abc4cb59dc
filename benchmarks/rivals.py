"""Emphasis against the penalties that spread embeddings apart: section 5 of [Steck20], measured.

Every model has the same rank. DLAE and EDLAE are solved exactly; their dropout and l2 are chosen on validation users.
The rivals are DLAE plus a penalty of ``lab.spreading``, trained on sampled masks from DLAE's balanced factors; the
strength is chosen on validation users, and the test users are measured once. A control is trained in the same way
without a penalty. Writes results/rivals.json and the table of docs/theory/rivals.md. Needs torch (extra ``neural``).

    python benchmarks/rivals.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import METRIC, best_of_grid, score, standard_error
from defaults import studies
from run import say

import offdiag as od
from offdiag.data.split import Split
from offdiag.diagnostics import balanced, median_cosines, similar_groups
from offdiag.lab import sampled
from offdiag.weights import LowRank

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "rivals.json"
DATA = ("lastfm, items ≥ 5 users", "ml-100k")
RANK = 100
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
TRAINING: dict[str, Any] = {"batch_users": 50, "learning_rate": 0.05}
STEPS = 500
GROUP = 10  # items per group of similar items, as in Figure 1


def study(split: Split) -> dict[str, Any]:
    assert split.validation is not None
    groups = similar_groups(od.EDLAE().fit(split.train).weights_, GROUP)
    models = {"DLAE": chosen(od.LowRankDLAE, split), "EDLAE": chosen(od.LowRankEDLAE, split, iterations=100)}
    base = models["DLAE"]
    validation = {name: score(model, split.validation).mean() for name, model in models.items()}
    strengths: dict[str, float | None] = dict.fromkeys(models)
    curves: dict[str, dict[str, float]] = {}
    models["DLAE, trained on sampled masks"], strengths["DLAE, trained on sampled masks"] = trained(base, split), None
    for rival in sampled.REGULARISERS:
        tried = {s: trained(base, split, regulariser=rival, strength=s) for s in STRENGTHS}
        found = {s: float(score(model, split.validation).mean()) for s, model in tried.items()}
        best = max(found, key=lambda s: found[s])
        curves[rival] = {f"{s:g}": value for s, value in found.items()}
        say(f"  {rival}: {curves[rival]}")
        models[rival], strengths[rival] = tried[best], best
    per_user = {name: score(model, split.test) for name, model in models.items()}
    rows: dict[str, Any] = {}
    for name, model in models.items():
        gain = per_user[name] - per_user["DLAE"]
        rows[name] = {
            "strength": strengths[name], "mean": float(per_user[name].mean()), "sem": standard_error(per_user[name]),
            "minus_dlae": float(gain.mean()), "minus_dlae_sem": standard_error(gain), **cosines(model.weights_, groups),
        }  # fmt: skip
        say(f"  {name}: {rows[name]}")
    control = per_user["DLAE, trained on sampled masks"]
    for rival in sampled.REGULARISERS:
        gain = per_user[rival] - control
        rows[rival] |= {"minus_control": float(gain.mean()), "minus_control_sem": standard_error(gain)}
    return {
        "users": split.train.n_users, "items": split.train.n_items, "test_users": len(per_user["DLAE"]),
        "settings": {name: models[name].settings_ for name in ("DLAE", "EDLAE")},
        "validation": {name: float(value) for name, value in validation.items()} | curves, "models": rows,
    }  # fmt: skip


def chosen(kind: Callable[..., Any], split: Split, **more: Any) -> Any:
    """The best of a grid of dropout and l2 on validation users."""
    l2 = kind(rank=RANK).fit(split.train).settings_["l2"]
    best, _ = best_of_grid(partial(kind, rank=RANK, **more), l2, split)
    say(f"  {kind.__name__}: {best.settings_}")
    return best


def trained(base: Any, split: Split, **penalty: Any) -> Any:
    """The model after training on sampled masks from its own factors."""
    noise = {name: base.settings_[name] for name in ("dropout", "l2", "user_power")}
    epochs = -(-STEPS * TRAINING["batch_users"] // split.train.n_users)
    start = balanced(base.weights_)
    found = sampled.train(split.train, RANK, start=start, epochs=epochs, **TRAINING, **penalty, **noise)
    model = copy.copy(base)
    model.weights_ = LowRank(found.U, found.V)
    return model


def cosines(weights: LowRank, groups: Any) -> dict[str, float]:
    """The median over groups of similar items of the median cosine of their embeddings, in both gauges."""
    U, V = balanced(weights)
    embeddings = {"encoder": weights.U, "decoder": weights.V, "balanced_encoder": U, "balanced_decoder": V}
    return {name: float(np.nanmedian(median_cosines(E, groups))) for name, E in embeddings.items()}


if __name__ == "__main__":
    studies(RESULTS, DATA, study, metric=METRIC, rank=RANK, steps=STEPS, training=TRAINING)
    documents.renew("rivals")
