"""A comparison of models as one self-contained HTML page: no script, no outside resource, light and dark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.files import atomic
from offdiag.plots import comparison
from offdiag.wording import p_value

if TYPE_CHECKING:
    from offdiag import Interactions, Result
    from offdiag.ranking import Explanation

METRICS = ("recall@20", "recall@50", "ndcg@100")
ALSO = ("coverage@20", "novelty@20")
CUTS = tuple(f"recall_all@{k}" for k in (1, 5, 10, 20, 50, 100))
JUDGE = "ndcg@100"  # the metric that names the best model


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of the comparison."""

    name: str
    idea: str
    params: dict[str, Any]  # as asked for, "auto" included
    settings: dict[str, Any]  # as used
    result: Result
    seconds: float
    n_bytes: int


@dataclass(frozen=True, eq=False)
class Sample:
    """A held-out user's history, what was recommended, and why."""

    user: Any
    history: list[Any]
    picks: list[tuple[Any, float, bool]]  # item, score, whether the user had really chosen it
    reasons: list[Explanation]  # one per pick


@dataclass(frozen=True, eq=False)
class Study:
    """All that the page tells."""

    source: str
    train: Interactions
    n_validation: int
    n_test: int
    n_hidden: int  # interactions to find
    fold_in: float
    seed: int
    entries: list[Entry]
    samples: list[Sample]
    speaker: str  # the model that recommends in the samples
    seconds: float
    files: dict[str, str] = field(default_factory=dict)  # name of a file beside the page -> what it is

    @property
    def best(self) -> Entry:
        return max(self.entries, key=lambda entry: entry.result.mean[JUDGE])

    @property
    def results(self) -> dict[str, Result]:
        return {entry.name: entry.result for entry in self.entries}


def write(study: Study, path: str | os.PathLike[str]) -> None:
    """Write the page; an older page stays whole until the new one is complete."""
    replace_text(Path(path), render(study))


def replace_text(target: Path, text: str) -> None:
    with atomic.replacing(target) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))


def render(study: Study) -> str:
    """The page as text."""
    import offdiag as od

    sections = [
        _hero(study),
        _section("How good are the lists?", _quality(study)),
        _section("What the lists look like", _samples(study)),
        _section("The data", _data(study)),
        _section("Settings and time", _settings(study)),
        _section("How this was measured", _method(study)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>offdiag: comparison of recommenders</title>\n'
        f"<style>\n{comparison.palette(':root')}{comparison.CSS}{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + f"\n</main>\n<footer>Made by offdiag {od.__version__} in {study.seconds:.1f} seconds.</footer>\n"
        + "</body>\n</html>\n"
    )


def summary(study: Study) -> list[str]:
    """The outcome in plain sentences, for the page and the terminal."""
    best = study.best
    base = study.entries[0]
    lines = []
    found, base_found = best.result.mean["recall_all@20"], base.result.mean["recall_all@20"]
    lines.append(
        f"Among its first 20 suggestions {best.name} finds {100 * found:.0f} % of the items each new user really "
        f"chose" + (f"; {base.name.lower()} alone finds {100 * base_found:.0f} %." if base is not best else ".")
    )
    for entry in study.entries:
        if entry is best:
            continue
        test = best.result.compare(entry.result)
        gap, sem, p = test.difference[JUDGE], test.sem[JUDGE], test.p_value[JUDGE]
        if np.isfinite(p) and p < 0.05:
            lines.append(f"{best.name} is ahead of {entry.name} by {gap:.4f} ± {sem:.4f} {JUDGE} ({p_value(p)}).")
        else:
            lines.append(
                f"{best.name} and {entry.name} cannot be told apart on these users: "
                f"{gap:+.4f} ± {sem:.4f} {JUDGE} ({p_value(p)})."
            )
    return lines


def setting_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def reason_text(reason: Explanation, most: int = 2) -> str:
    """The items of the history that speak for a recommendation, with their share of all that does."""
    support = np.maximum(reason.contributions, 0)
    if not support.any():
        return "nothing in the history speaks for it"
    order = np.argsort(-support, kind="stable")[:most]
    parts = [f"{100 * support[n] / support.sum():.0f} % from {reason.items[n]}" for n in order if support[n] > 0]
    return ", ".join(parts)


# Parts of the page


def _hero(study: Study) -> str:
    best, inter = study.best, study.train
    tiles = [
        (
            f"{100 * best.result.mean['recall_all@20']:.0f} %",
            f"of hidden items found in 20 suggestions by {best.name}",
        ),
        (f"{best.result.mean[JUDGE]:.3f}", f"{JUDGE} of {best.name}, 1 is perfect"),
        (f"{inter.n_users:,}", "users to learn from"),
        (f"{inter.n_items:,}", "items"),
    ]
    body = "".join(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in tiles)
    first, *rest = summary(study)
    return (
        '<header><p class="kicker">offdiag</p><h1>Comparison of recommenders</h1>'
        f'<p class="lead">{escape(first)}</p><div class="tiles">{body}</div>{_list(rest)}</header>'
    )


def _quality(study: Study) -> str:
    best = study.best
    rows = []
    for entry in study.entries:
        cells = [f"<b>{escape(entry.name)}</b><small>{escape(entry.idea)}</small>"]
        for metric in METRICS:
            mean, sem = entry.result.mean[metric], entry.result.sem[metric]
            top = mean == max(e.result.mean[metric] for e in study.entries)
            error = f"<small>± {sem:.4f}</small>" if np.isfinite(sem) else ""
            cells.append(f"{'<b>' if top else ''}{mean:.4f}{'</b>' if top else ''}{error}")
        cells.append(f"{100 * entry.result.mean['coverage@20']:.0f} %")
        cells.append(f"{entry.result.mean['novelty@20']:.1f}")
        if entry is best:
            cells.append("best")
        else:
            test = best.result.compare(entry.result)
            certainty = f"± {test.sem[JUDGE]:.4f}, {p_value(test.p_value[JUDGE])}"
            cells.append(f"−{test.difference[JUDGE]:.4f}<small>{certainty}</small>")
        rows.append(cells)
    head = ["model", *METRICS, "coverage@20", "novelty@20", f"{JUDGE} against the best"]
    pair = list(dict.fromkeys([study.entries[0].name, best.name]))
    panels = "".join(comparison.comparison(study.results, [metric], width=300).inline() for metric in METRICS)
    means = (
        f'<figure class="wide"><h3>Means of each model</h3><div class="panels">{panels}</div><figcaption>Longer is '
        "better. The thin line is the 95 % interval of the mean: where those of two models overlap widely, look at "
        "the paired test in the table, which is sharper.</figcaption></figure>"
    )
    figures = [
        (
            "Longer lists find more",
            "Share of the hidden items that a list of k suggestions contains, averaged over users.",
            comparison.curve(study.results, "recall_all"),
        ),
        (
            "Not every user is served alike",
            f"Users by the quality of their own list. The further right, the better; a value of 0 means that the "
            f"first {JUDGE.partition('@')[2]} suggestions held none of the hidden items.",
            comparison.distribution(study.results, JUDGE, models=pair),
        ),
    ]
    return (
        "<p>Every number is a mean over the same held-out users, followed by its standard error. Coverage is the share "
        "of the catalogue that anybody is shown; novelty is the surprise of the suggested items in bits, higher for "
        "less popular ones.</p>" + _table(head, rows) + means + _figures(figures)
    )


def _samples(study: Study) -> str:
    cards = []
    for sample in study.samples:
        chips = "".join(f"<li>{escape(str(item))}</li>" for item in sample.history)
        rows = []
        for (item, score, chosen), reason in zip(sample.picks, sample.reasons, strict=True):
            mark = ' <span class="hit">✓ really chosen</span>' if chosen else ""
            why = f"score {score:.3f}, {reason_text(reason)}"
            rows.append(f"<li><b>{escape(str(item))}</b>{mark} <small>{escape(why)}</small></li>")
        figure = ""
        if sample.reasons:
            figure = _figure(
                f"Why {sample.picks[0][0]}?",
                f"The bars add up to its score of {sample.reasons[0].score:.3f}, exactly.",
                comparison.contributions(sample.reasons[0]),
            )
        cards.append(
            f'<article><h3>User {escape(str(sample.user))}</h3><p class="label">History</p><ul class="chips">{chips}'
            f'</ul><p class="label">Recommended</p><ol class="picks">{"".join(rows)}</ol>{figure}</article>'
        )
    return (
        f"<p>Recommendations of {escape(study.speaker)} for the first held-out users with a short history, not "
        "picked for their result. A check marks an item that the user really had chosen and that was hidden from the "
        f'model. Percentages share out the part of the score that speaks for the item.</p><div class="cards">'
        f"{''.join(cards)}</div>"
    )


def _data(study: Study) -> str:
    inter = study.train
    counts = np.bincount(inter.matrix.indices, minlength=inter.n_items)
    activity = np.diff(inter.matrix.indptr)
    top = np.argsort(-counts, kind="stable")[:5]
    density = 100 * inter.nnz / max(inter.n_users * inter.n_items, 1)
    facts = [
        ["source", escape(study.source)],
        ["users to learn from", f"{inter.n_users:,}"],
        ["items", f"{inter.n_items:,}"],
        ["interactions to learn from", f"{inter.nnz:,} ({density:.2g} % of all possible ones)"],
        [
            "items per user",
            f"{int(np.median(activity)):,} in the middle, {int(activity.max(initial=0)):,} at most",
        ],
        [
            "users per item",
            f"{int(np.median(counts)):,} in the middle, {int(counts.max(initial=0)):,} at most",
        ],
        ["most popular", ", ".join(escape(str(inter.item_ids[i])) for i in top)],
    ]
    figure = _figure(
        "The long tail",
        "A few items are known to many users, most items to few. A recommender earns its keep in the tail, where "
        "popularity says nothing.",
        comparison.popularity(inter),
    )
    return f'<div class="pair">{_table(None, facts)}{figure}</div>'


def _settings(study: Study) -> str:
    rows = []
    for entry in study.entries:
        values = [
            f"{name} {setting_text(value)}{' (auto)' if entry.params.get(name) == 'auto' else ''}"
            for name, value in entry.settings.items()
        ]
        size = f"{entry.n_bytes / 1e6:.1f} MB"
        rows.append(
            [
                f"<b>{escape(entry.name)}</b>",
                ", ".join(f'<span class="whole">{escape(v)}</span>' for v in values) or "none",
                f"{entry.seconds:.2f} s",
                size,
            ]
        )
    return (
        "<p>Nothing was tuned: settings marked <i>auto</i> were chosen from the training data alone. Times "
        "include compiling when it is the first run after an installation.</p>"
        + _table(["model", "settings used", "time to fit", "weights"], rows)
    )


def _method(study: Study) -> str:
    aside = f", {study.n_validation:,} more were set aside and not used" if study.n_validation else ""
    lines = [
        f"{study.n_test:,} users were kept away from training{aside}; the models meet them for the first time.",
        f"{100 * study.fold_in:.0f} % of each such user's items, drawn at random, were shown as the history; the "
        f"remaining {study.n_hidden:,} interactions were hidden and had to be found. Items of the history are never "
        "recommended again.",
        "recall@k: hits among the first k over the smaller of k and the number of hidden items. ndcg@k: the same with "
        "early hits counting more. Both are 1 for a perfect list.",
        "The paired test asks, user by user, whether the best model is better than another; a small p means the "
        "difference is not the luck of this draw of users. It says nothing about other data.",
        f"All random choices come from seed {study.seed}: the same command gives the same numbers.",
    ]
    files = ""
    if study.files:
        rows = [[f"<code>{escape(name)}</code>", escape(what)] for name, what in study.files.items()]
        files = "<h3>Files beside this page</h3>" + _table(None, rows)
    return _list(lines) + files


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _figures(figures: Iterable[tuple[str, str, comparison.Figure]]) -> str:
    return f'<div class="figures">{"".join(_figure(*parts) for parts in figures)}</div>'


def _figure(title: str, caption: str, figure: comparison.Figure) -> str:
    return f"<figure><h3>{escape(title)}</h3>{figure.inline()}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(head: Sequence[str] | None, rows: Iterable[Sequence[str]], kind: str | None = None) -> str:
    """Cells are HTML; whoever makes them escapes."""
    top = "" if head is None else f"<thead><tr>{''.join(f'<th>{escape(h)}</th>' for h in head)}</tr></thead>"
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    kind = kind or ("facts" if head is None else "numbers")
    return f'<div class="scroll"><table class="{kind}">{top}<tbody>{body}</tbody></table></div>'


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


_CSS = """
:root { --page: #f5f6f8; --accent: #0b8a6a; }
@media (prefers-color-scheme: dark) { :root { --page: #0e1218; --accent: #3cc79f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 28px 18px 8px; }
header, section { background: var(--paper); border: 1px solid var(--grid); border-radius: 14px;
  padding: 24px 26px; margin-bottom: 20px; }
.kicker { margin: 0; color: var(--accent); font-weight: 700; letter-spacing: .04em; }
h1 { margin: 2px 0 8px; font-size: 30px; line-height: 1.2; } h2 { margin: 0 0 10px; font-size: 22px; }
h3 { margin: 0 0 8px; font-size: 16px; } p { margin: 0 0 14px; max-width: 76ch; }
.lead { font-size: 18px; } ul { margin: 0 0 14px; padding-left: 20px; max-width: 80ch; } li { margin: 3px 0; }
small { color: var(--soft); font-size: 13px; } code { font-size: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 0 0 16px; }
.tiles div { border: 1px solid var(--grid); border-radius: 10px; padding: 12px 14px; }
.tiles b { display: block; font-size: 26px; line-height: 1.2; } .tiles span { color: var(--soft); font-size: 14px; }
.scroll { overflow-x: auto; margin-bottom: 18px; }
table { border-collapse: collapse; width: 100%; font-size: 15px; }
th { text-align: left; font-weight: 600; font-size: 13px; color: var(--soft); vertical-align: bottom; }
th, td { padding: 8px 14px 8px 0; border-bottom: 1px solid var(--grid); }
td { vertical-align: top; font-variant-numeric: tabular-nums; }
.numbers td, .numbers th { min-width: 92px; } .numbers td:first-child { min-width: 150px; }
.numbers td small { display: block; } .numbers td small + small { margin-top: 2px; }
.facts td:first-child { color: var(--soft); padding-right: 18px; min-width: 118px; }
tr:last-child td { border-bottom: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 285px), 1fr)); gap: 18px; }
.wide { margin-bottom: 26px; } .wide figcaption { max-width: 80ch; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 270px), 1fr)); gap: 14px 28px; }
.figures, .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 30px; }
figure { margin: 0; } figure svg { width: 100%; max-width: 470px; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 14px; margin-top: 8px; max-width: 60ch; }
article { border: 1px solid var(--grid); border-radius: 10px; padding: 16px 18px; }
.label { margin: 0 0 4px; color: var(--soft); font-size: 13px; }
.chips { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 6px; }
.chips li { border: 1px solid var(--grid); border-radius: 12px; padding: 1px 10px; font-size: 14px; margin: 0; }
.picks { padding-left: 22px; margin: 0 0 16px; } .picks small { display: block; }
.picks li, .chips li, .facts td { overflow-wrap: anywhere; } .whole { white-space: nowrap; }
.hit { color: var(--accent); font-size: 13px; font-weight: 600; white-space: nowrap; }
footer { max-width: 1060px; margin: 0 auto; padding: 0 20px 30px; color: var(--soft); font-size: 14px; }
@media (max-width: 560px) { main { padding: 12px 8px 4px; } header, section { padding: 18px 14px; }
  h1 { font-size: 25px; } article { padding: 14px 12px; } }
@media print { body { background: none; } header, section { border: 0; padding: 0; }
  figure, article { break-inside: avoid; } }
"""
