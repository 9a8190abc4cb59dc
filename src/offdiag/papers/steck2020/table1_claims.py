"""The paper's claims about its Table 1, judged on the given data with paired error bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.measured import over_groups, paired_t_test
from offdiag.papers import claims
from offdiag.papers.claims import Claim, Gap, Verdict, ahead, alike, never_behind
from offdiag.papers.steck2020 import fits
from offdiag.papers.steck2020.fits import JUDGE, PUBLISHED
from offdiag.papers.steck2020.rows import expected

ENOUGH_EPOCHS = 50  # of sampled training
NETS = ("cdae", "mult-vae", "mult-dae")


def judged(records: list[dict[str, Any]], by_rank: list[dict[str, Any]]) -> list[Claim]:
    """A verdict on each claim; "not run" where its rows are missing."""
    at = {r["row"]: r for r in records if r["kind"] != PUBLISHED}
    return [
        _ahead(at, "product_beats_decay", "l2-product", "weight-decay"),
        _ahead(at, "item_wise_beats_constant", "dlae", "l2-product"),
        _alike(at, "sampled_is_closed_form", "sampled", "dlae"),
        _ahead(at, "edlae_beats_dlae", "edlae", "dlae"),
        _every_rank(at, by_rank),
        _alike(at, "zero_diagonal_alike", "zero-diagonal", "edlae"),
        _competitive(at),
    ]


def paired(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float, float, float]:
    """The t-test of the differences between two lines, user by user, in the metric that decides."""
    return paired_t_test(_differences(one, other))


def over_seeds(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The standard error of the mean difference over the seeds of the split, for lines measured on several."""
    return over_groups(_differences(one, other), one["seed_users"])


def _differences(one: dict[str, Any], other: dict[str, Any]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.asarray(one["per_user"][JUDGE]) - np.asarray(other["per_user"][JUDGE])
    return found


def gap(one: dict[str, Any], other: dict[str, Any]) -> Gap:
    """The difference between two lines, user by user, in the metric that decides; of two errors, the larger one."""
    mean, sem, *_ = paired(one, other)
    return claims.gap(mean, max(sem, over_seeds(one, other)) if "seed_users" in one else sem)


def _claim(name: str, verdict: Verdict, evidence: str) -> Claim:
    return Claim(name, expected()["claims"][name], evidence, verdict)


def _not_run(name: str, *keys: str) -> Claim:
    return _claim(name, "not run", f"needs {' and '.join(keys)}")


def _ahead(at: dict[str, dict[str, Any]], name: str, better: str, worse: str) -> Claim:
    if better not in at or worse not in at:
        return _not_run(name, better, worse)
    found = gap(at[better], at[worse])
    return _claim(name, ahead(found), f"{better} {found} against {worse} ({JUDGE}, paired)")


def _alike(at: dict[str, dict[str, Any]], name: str, one: str, other: str) -> Claim:
    if one not in at or other not in at:
        return _not_run(name, one, other)
    epochs = at[one]["settings"].get("epochs", ENOUGH_EPOCHS) if one == "sampled" else ENOUGH_EPOCHS
    if epochs < min(ENOUGH_EPOCHS, fits.EPOCHS):
        return _claim(name, "not run", f"the time allowed {epochs} epochs, too few to end anywhere")
    found = gap(at[one], at[other])
    return _claim(name, alike(found), f"{one} {found} against {other} ({_paired(at[other])})")


def _every_rank(at: dict[str, dict[str, Any]], by_rank: list[dict[str, Any]]) -> Claim:
    name = "edlae_at_every_rank"
    if "dlae" not in at or "edlae" not in at:
        return _not_run(name, "dlae", "edlae")
    lines = [*by_rank, *({**at[key], "rank": at[key]["settings"]["rank"]} for key in ("dlae", "edlae"))]
    ranks = sorted({int(line["rank"]) for line in lines})
    pairs = {rank: {line["row"]: line for line in lines if line["rank"] == rank} for rank in ranks}
    gaps = {rank: gap(pair["edlae"], pair["dlae"]) for rank, pair in pairs.items()}
    listed = "; ".join(f"{rank:,}: {found}" for rank, found in gaps.items())
    return _claim(name, never_behind(gaps.values()), f"edlae against dlae by rank (paired): {listed}")


def _competitive(at: dict[str, dict[str, Any]]) -> Claim:
    """The linear model and the net that are best on the validation users, compared on the test users."""
    name = "linear_competitive"
    nets = [at[key] for key in NETS if key in at]
    linear = [r for r in at.values() if r["emphasis"]]
    if not nets or not linear:
        return _not_run(name, "a row of the EDLAE family", "one of CDAE, Mult-VAE, Mult-DAE")
    net = max(nets, key=lambda r: float(r["validation"]))
    ours = max(linear, key=lambda r: float(r["validation"]))
    found = gap(ours, net)
    text = f"{ours['row']} {found} against {net['row']} ({_paired(net)})"
    return _claim(name, never_behind([found]), text)


def _paired(line: dict[str, Any]) -> str:
    return f"paired; the standard error of a mean is {line['sem'][JUDGE] or 0.0:.4f}"
