"""A comparison of models as one self-contained HTML page: no script, no external resource, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag import plots
from offdiag.files import atomic
from offdiag.report import page
from offdiag.wording import p_value

if TYPE_CHECKING:
    from offdiag import Catalogue, Interactions, Result
    from offdiag.data.split import Split
    from offdiag.models.recommender import Recommender
    from offdiag.ranking import Explanation

METRICS = ("recall@20", "recall@50", "ndcg@100")
ALSO = ("coverage@20", "novelty@20")
CUTS = tuple(f"recall_all@{k}" for k in (1, 5, 10, 20, 50, 100))
SAME_FOR_ALL = "the same list for everyone"  # the reason of Popularity
JUDGE = "ndcg@100"  # the metric that names the best model


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of the comparison."""

    name: str
    idea: str
    params: dict[str, Any]  # as given, including "auto"
    settings: dict[str, Any]  # as used
    result: Result
    seconds: float
    n_bytes: int


@dataclass(frozen=True, eq=False)
class Sample:
    """A held-out user's history, what was recommended, and why."""

    user: Any
    history: list[Any]
    picks: list[tuple[Any, float, bool]]  # item, score, whether the user really chose it
    reasons: list[Explanation]  # one per pick; none of Popularity, which does not look at the history

    def titled(self, catalogue: Catalogue | None) -> Sample:
        """The same with titles in place of ids, where there are any."""
        if catalogue is None:
            return self

        def name(item: Any) -> Any:
            return catalogue.title(item) or item

        reasons = [
            replace(reason, item=name(reason.item), items=np.array([name(i) for i in reason.items.tolist()], object))
            for reason in self.reasons
        ]
        picks = [(name(item), score, chosen) for item, score, chosen in self.picks]
        return Sample(self.user, [name(item) for item in self.history], picks, reasons)


@dataclass(frozen=True, eq=False)
class Study:
    """The content of the page."""

    source: str
    split: Split
    fold_in: float
    seed: int
    entries: list[Entry]
    model: Recommender  # recommends in the samples
    samples: list[Sample]
    seconds: float
    files: dict[str, str] = field(default_factory=dict)  # name of a file next to the page -> what it is

    @property
    def best(self) -> Entry:
        return best_of(self.entries)

    @property
    def titled_samples(self) -> list[Sample]:
        return [sample.titled(self.model.catalogue_) for sample in self.samples]

    @property
    def results(self) -> dict[str, Result]:
        return {entry.name: entry.result for entry in self.entries}


def best_of(entries: Sequence[Entry]) -> Entry:
    return max(entries, key=lambda entry: entry.result.mean[JUDGE])


def replace_text(target: Path, text: str) -> None:
    """Write a file; an older one stays intact until the new one is complete."""
    with atomic.replacing(target) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))


def render(study: Study) -> str:
    """The page as text."""
    best = study.best
    return page.html(
        "offdiag.report",
        "comparison.html",
        study=study,
        seconds=study.seconds,
        best=best,
        recommender=type(study.model).__name__,
        summary=summary(study),
        metrics=METRICS,
        judge=JUDGE,
        highest={metric: max(entry.result.mean[metric] for entry in study.entries) for metric in METRICS},
        behind={entry.name: best.result.compare(entry.result) for entry in study.entries if entry is not best},
        data=_data(study.split.train, study.source, study.model.catalogue_),
        panels=[plots.comparison(study.results, [metric], width=300) for metric in METRICS],
        curve=plots.curve(study.results, "recall_all"),
        distribution=plots.distribution(
            study.results, JUDGE, models=list(dict.fromkeys([study.entries[0].name, best.name]))
        ),
        popularity=plots.popularity(study.split.train),
        contributions=plots.contributions,
        p_value=p_value,
        reason_text=reason_text,
        same_for_all=SAME_FOR_ALL,
        setting_text=setting_text,
    )


def _data(inter: Interactions, source: str, catalogue: Catalogue | None) -> list[tuple[str, str]]:
    counts = np.bincount(inter.matrix.indices, minlength=inter.n_items)
    activity = np.diff(inter.matrix.indptr)
    top = inter.item_ids[np.argsort(-counts, kind="stable")[:5]].tolist()
    titles = [None] * len(top) if catalogue is None else catalogue.column("title", top)
    density = 100 * inter.nnz / max(inter.n_users * inter.n_items, 1)
    return [
        ("source", source),
        ("users to learn from", f"{inter.n_users:,}"),
        ("items", f"{inter.n_items:,}"),
        ("interactions to learn from", f"{inter.nnz:,} ({density:.2g} % of all possible ones)"),
        ("items per user", f"median {int(np.median(activity)):,}, at most {int(activity.max(initial=0)):,}"),
        ("users per item", f"median {int(np.median(counts)):,}, at most {int(counts.max(initial=0)):,}"),
        ("most popular", ", ".join(str(title or item) for item, title in zip(top, titles, strict=True))),
    ]


def summary(study: Study) -> list[str]:
    """The outcome in plain sentences, for the page and the terminal."""
    best, base = study.best, study.entries[0]
    found, base_found = (100 * entry.result.mean["recall_all@20"] for entry in (best, base))
    lines = [
        f"Among its first 20 suggestions {best.name} finds {found:.0f} % of the items each new user really "
        f"chose" + (f"; {base.name.lower()} alone finds {base_found:.0f} %." if base is not best else ".")
    ]
    for entry in [entry for entry in study.entries if entry is not best]:
        test = best.result.compare(entry.result)
        gap, sem, p = test.difference[JUDGE], test.sem[JUDGE], test.p_value[JUDGE]
        if np.isfinite(p) and p < 0.05:
            lines.append(f"{best.name} is ahead of {entry.name} by {gap:.4f} ± {sem:.4f} {JUDGE} ({p_value(p)}).")
        else:
            lines.append(
                f"{best.name} and {entry.name} cannot be distinguished on these users: "
                f"{gap:+.4f} ± {sem:.4f} {JUDGE} ({p_value(p)})."
            )
    return lines


def setting_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def reason_text(reason: Explanation, most: int = 2) -> str:
    """The items of the history that contribute to a recommendation, with their share of all positive contributions."""
    support = np.maximum(reason.contributions, 0)
    if not support.any():
        return "nothing in the history supports it"
    order = np.argsort(-support, kind="stable")[:most]
    parts = [f"{100 * support[n] / support.sum():.0f} % from {reason.items[n]}" for n in order if support[n] > 0]
    return ", ".join(parts)
