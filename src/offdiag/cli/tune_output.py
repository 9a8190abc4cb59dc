"""The result of `offdiag tune`: everything as JSON, or tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag import wording
from offdiag.cli import console, info
from offdiag.cli.evaluate import number
from offdiag.report.writer import setting_text

if TYPE_CHECKING:
    from offdiag import Interactions, Result, Tuned
    from offdiag.data.split import Split

SHOWN = 10  # trials in the printed table
END = {"trials": "all were made", "seconds": "the time was over"}


def about(tuned: Tuned, result: Result, inter: Interactions, split: Split) -> dict[str, Any]:
    """Everything, as JSON."""
    from offdiag.plots import tuning

    found, held = tuned.to_dict(), split.validation
    automatic = next((t.value for t in tuned.trials if t.origin == "automatic" and t.value is not None), None)
    return {
        "model": found["model"],
        "metric": tuned.metric,
        "settings": tuned.settings,
        "validation": {
            "value": tuned.value,
            "sem": tuned.sem,
            "users": 0 if held is None else int(np.count_nonzero(np.diff(held.targets.indptr))),
            "automatic": automatic,
        },
        "test": result.to_dict(),
        "influence": [vars(part) for part in tuning.influence(tuned)],
        "stopped": tuned.stopped,
        "search_seconds": tuned.seconds,
        "users": inter.n_users,
        "items": inter.n_items,
        "interactions": inter.nnz,
        "trials": found["trials"],
    }


def show(tuned: Tuned, result: Result, facts: dict[str, Any]) -> None:
    """Print the same as tables on stdout."""
    states = [trial.state for trial in tuned.trials]
    counts = [f"{states.count(state):,} {state}" for state in dict.fromkeys(states)]
    automatic = facts["validation"]["automatic"]
    untuned = "" if automatic is None else f"; {automatic:.4f} with the automatic settings"
    pairs = {
        "model": facts["model"],
        "best settings": info.settings_text(tuned.settings, {}),
        "validation": f"{tuned.metric} {wording.with_error(tuned.value, tuned.sem)}, "
        f"{facts['validation']['users']:,} users, chosen of {len(states):,} trials{untuned}",
        "test": f"{tuned.metric} {wording.with_error(result.mean[tuned.metric], result.sem[tuned.metric])}, "
        f"{result.n_users:,} other users, measured once (mean ± standard error)",
        "trials": f"{', '.join(counts)}, {console.seconds(tuned.seconds)}; {END.get(tuned.stopped, tuned.stopped)}",
    }
    if facts["study"] is not None:
        more = " with more --trials" if tuned.stopped == "trials" else ""
        pairs["study"] = f"{facts['study']}; the same command{more} continues from there"
    if facts["plot"] is not None:
        pairs["plot"] = facts["plot"]
    if facts["file"] is not None:
        everyone = f"fitted on all {facts['users']:,} users"
        pairs["saved to"] = f"{facts['file']} ({wording.size(facts['bytes'])}), {everyone}"
    console.show_pairs(pairs)
    best = [t for t in tuned.ranked if t.value is not None]
    names = list(dict.fromkeys(name for trial in best for name in trial.settings))
    console.say(f"\nThe best trials, {tuned.metric} on the validation users, the one that was taken first:")
    console.show_table(
        [">trial", "proposed by", *(f">{name}" for name in names), f">{tuned.metric}", ">left-out error", ">seconds"],
        [
            [
                t.number, t.origin, *(setting_text(t.settings[n]) if n in t.settings else "" for n in names),
                wording.with_error(t.value or 0.0, t.sem),
                number(t.left_out_error), f"{t.seconds:.1f}",
            ]
            for t in best[:SHOWN]
        ],
    )  # fmt: skip
    if facts["influence"]:
        rows = []
        for part in facts["influence"]:
            good = " to ".join(dict.fromkeys(map(setting_text, part["good"])))
            share = "-" if part["share"] is None else f"{part['share']:.0%}"
            rows.append([part["setting"], setting_text(part["best"]), good, share])
        console.say("\nWhich settings mattered:")
        console.show_table(["setting", ">best", ">within 1 % of the best", ">explains"], rows)
        console.say(
            "explains: share of the differences between trials that follows this setting alone; a hint, no more"
        )
