"""How fast EDLAE and NextItem age on real data: MovieTweetings week by week, as fitted and kept up to date.

The models learn from everything before a cut at the first half of the events, with automatic settings, which then stay
as they are. Writes results/ageing.json and the figures docs/ageing-*.svg.

    python benchmarks/ageing.py FOLDER WITH movietweetings-100k [--days 7]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine
from run import say
from sequence_sets import tweet_log

import offdiag as od
from offdiag import plots

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "ageing.json"
FIGURES = HERE.parent / "docs"
DAY = 86_400
LEAST = 5  # events of an item: rarer ones would only make the fits longer
MODELS: dict[str, Any] = {"edlae": od.EDLAE, "next-item": od.NextItem}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--days", type=float, default=7.0)
    given = asked.parse_args()
    log = od.prepare.min_counts(tweet_log(given.folder / "movietweetings-100k"), users=1, items=LEAST)
    assert log.events is not None
    assert log.events.times is not None
    cut = float(np.median(log.events.times))
    before = od.split.by_time(log, cut).train
    whole: dict[str, Any] = {
        "data": {"users": log.n_users, "items": log.n_items, "events": log.events.n_events, "least": LEAST},
        "days": given.days, "machine": machine(), "models": {},
    }  # fmt: skip
    for name, cls in MODELS.items():
        settings = cls().fit(before).settings_
        found = od.evaluate_over_time(cls(**settings), log, cut, every=given.days * DAY, metrics=["ndcg@10", "hit@10"])
        whole["models"][name] = {
            "model": found.model, "settings": settings, "refit_after": found.refit_after(), "verdict": found.verdict(),
            "rows": found.to_polars().to_dicts(),
        }  # fmt: skip
        plots.ageing(found).save(FIGURES / f"ageing-{name}.svg")
        RESULTS.write_text(json.dumps(whole, indent=1) + "\n")
        say(f"{name}\n{found}")


if __name__ == "__main__":
    main()
