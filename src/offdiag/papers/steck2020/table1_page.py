"""How Table 1 is told: Markdown, one HTML page without script or outside resource, and JSON with every number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from offdiag.papers.steck2020.fits import JUDGE, METRICS, PUBLISHED, TUNED
from offdiag.papers.steck2020.rows import BY_KEY
from offdiag.papers.steck2020.table1 import Part, Table1
from offdiag.plots import comparison
from offdiag.report import writer
from offdiag.wording import size, with_error

TITLE = "Table 1 of “Autoencoders that don’t overfit towards the Identity”"
PUBLISHED_FIGURES = "published"
_PRIVATE = ("per_user", "fingerprint", "tuning")  # in the files of the rows, too long for a table
_UNSAID = ("products", "seed", "starts", "batch_users", "max_iterations", "tolerance", "dtype")  # technical
NOTE = (
    f"Means over the test users ± their standard error. Settings were chosen by {JUDGE} on the validation users; each "
    "line was measured on the test users once. The difference is paired, user by user, to the line of the EDLAE family "
    "that was best on the validation users. Memory is what the fit took at its peak above what was there before."
)


def as_json(table: Table1) -> dict[str, Any]:
    """Everything but the values per user and the single trials, which are in the files of the rows."""
    import offdiag as od

    return {
        "paper": "steck2020",
        "table": "table1",
        "version": od.__version__,
        "metrics": list(METRICS),
        "judge": JUDGE,
        "trials": table.plan.trials,
        "seconds_per_row": table.plan.seconds,
        "seed": table.plan.seed,
        "seconds": table.seconds,
        "data": [part_json(part) for part in table.parts],
    }


def part_json(part: Part) -> dict[str, Any]:
    train, test = part.data.split.train, part.records[0]
    return {
        "name": part.data.name,
        "title": part.data.title,
        "protocol": part.data.protocol,
        "notes": part.data.notes,
        "users": train.n_users,
        "items": train.n_items,
        "interactions": train.nnz,
        "test_users": test["n_users"],
        "without_targets": test["n_without_targets"],
        "rank": part.rank,
        "rows": [{name: value for name, value in r.items() if name not in _PRIVATE} for r in part.records],
        "left_out": part.left_out,
        "by_rank": [
            {"row": r["row"], "rank": r["rank"], "mean": r["mean"], "sem": r["sem"], "fit_seconds": r["fit_seconds"]}
            for r in part.by_rank
        ],
        "claims": [vars(claim) for claim in part.claims],
        "seconds": part.seconds,
    }


def write(table: Table1, folder: Path) -> list[str]:
    """table1.md, table1.html and table1.json; an older file stays whole until its successor is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    said = as_json(table)
    writer.replace_text(folder / "table1.md", markdown(said))
    writer.replace_text(folder / "table1.html", page(said))
    writer.replace_text(folder / "table1.json", json.dumps(said, indent=2, ensure_ascii=False) + "\n")
    return [str(folder / name) for name in ("table1.md", "table1.html", "table1.json")]


# What both forms share: cells as plain text


def facts(part: dict[str, Any]) -> list[tuple[str, str]]:
    """What was learned from and measured on."""
    sizes = f"{part['users']:,} users, {part['items']:,} items, {part['interactions']:,} interactions"
    pairs = [
        ("learned from", sizes),
        ("measured on", f"{part['test_users']:,} users held out of training"),
        ("split", part["protocol"]),
        ("rank", f"{part['rank']:,} of {part['items']:,} items"),
    ]
    return pairs + [("note", note) for note in part["notes"]]


def table(part: dict[str, Any], metrics: list[str]) -> tuple[list[str], list[list[str]]]:
    """Names of the columns and a list of cells per line; what was published only where something was."""
    head = ["", "model", "settings", *metrics, PUBLISHED_FIGURES, f"{JUDGE} − the best EDLAE"]
    head += ["fit", "memory", "weights", "trials"]
    lines = [_cells(row, metrics) for row in part["rows"]]
    if any(row["published"] for row in part["rows"]):
        return head, lines
    place = head.index(PUBLISHED_FIGURES)
    return head[:place] + head[place + 1 :], [line[:place] + line[place + 1 :] for line in lines]


def _cells(row: dict[str, Any], metrics: list[str]) -> list[str]:
    number = "" if row["number"] is None else str(row["number"])
    measured = [with_error(row["mean"][name], row["sem"][name]) for name in metrics]
    published = row["published"] or []
    told = " / ".join("–" if value is None else f"{value:.3f}" for value in published)
    gap = "best" if row["is_reference"] else with_error(row["difference"], row["difference_sem"], "+")
    peak = "" if row["extra_peak_bytes"] is None else _memory(row["extra_peak_bytes"])
    trials = str(row["trials"]) if row["kind"] == TUNED else "–"
    seconds = f"{row['fit_seconds']:.1f} s" if row["fit_seconds"] >= 0.1 else "< 0.1 s"
    return [number, _name(row), row["kind"], *measured, told, gap, seconds, peak, size(row["n_bytes"]), trials]


def _name(row: dict[str, Any]) -> str:
    return str(row["label"]) + (" (full rank)" if row["group"] == "full rank" else "")


def _memory(n_bytes: int) -> str:
    return size(n_bytes) if n_bytes >= 1_000_000 else "< 1 MB"


def settings_text(row: dict[str, Any]) -> str:
    """The settings a reader needs to fit the line again."""
    unsaid = (*_UNSAID, "rank") if row["group"] == "rank" else _UNSAID  # the rank of the table is said above it
    shown = {name: value for name, value in row["settings"].items() if name not in unsaid}
    return ", ".join(f"{name} {writer.setting_text(value)}" for name, value in shown.items()) or "none"


def settings_rows(part: dict[str, Any]) -> list[list[str]]:
    rows = []
    for row in part["rows"]:
        time = f"{row['tune_seconds']:.3g} s" if row["kind"] == TUNED else "–"
        rows.append([_name(row), row["kind"], settings_text(row), f"{row['validation']:.4f}", time])
    return rows


def left_out_rows(part: dict[str, Any]) -> list[list[str]]:
    return [[BY_KEY[key].label, why] for key, why in part["left_out"].items()]


def by_rank_rows(part: dict[str, Any], judge: str) -> list[list[str]]:
    """Rank, DLAE, EDLAE: the smaller ranks, then that of the table."""
    lines = [(r["rank"], r["row"], r) for r in part["by_rank"]]
    lines += [
        (part["rank"], r["row"], r) for r in part["rows"] if r["row"] in ("dlae", "edlae") and r["kind"] != PUBLISHED
    ]
    at = {(rank, key): with_error(r["mean"][judge], r["sem"][judge]) for rank, key, r in lines}
    return [
        [f"{rank:,}", at.get((rank, "dlae"), ""), at.get((rank, "edlae"), "")]
        for rank in sorted({r for r, *_ in lines})
    ]


# Markdown


def markdown(said: dict[str, Any]) -> str:
    lines = [f"# {TITLE}", "", NOTE, ""]
    for part in said["data"]:
        lines += [f"## {part['title']}", "", *markdown_part(part, said["metrics"], said["judge"])]
    return "\n".join([*lines, f"Made by offdiag {said['version']}, seed {said['seed']}.", ""])


def markdown_part(part: dict[str, Any], metrics: list[str], judge: str) -> list[str]:
    """The tables of one data set, without a heading."""
    lines = [f"- {name}: {value}" for name, value in facts(part)] + [""]
    lines += _md_table(*table(part, metrics))
    if part["left_out"]:
        lines += _md_table(("left out", "why"), left_out_rows(part))
    lines += _md_table(
        ("verdict", "the paper says", "here"), [[c["verdict"], c["text"], c["evidence"]] for c in part["claims"]]
    )
    if part["by_rank"]:
        lines += _md_table(("rank", f"DLAE, {judge}", f"EDLAE, {judge}"), by_rank_rows(part, judge))
    return lines + _md_table(
        ("model", "settings", "values", f"{judge} on validation", "time to tune"), settings_rows(part)
    )


def _md_table(head: Sequence[str], rows: list[list[str]]) -> list[str]:
    def line(some: Any) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in some) + " |"

    return [line(head), "|" + "---|" * len(head), *map(line, rows), ""]


# HTML


def page(said: dict[str, Any]) -> str:
    names = ", ".join(part["title"] for part in said["data"])
    sections = [
        f'<header><p class="kicker">offdiag</p><h1>{escape(TITLE)}</h1>'
        f'<p class="lead">On {escape(names)}.</p><p>{escape(NOTE)}</p></header>'
    ]
    for part in said["data"]:
        body = _html_table(None, [list(pair) for pair in facts(part)])
        body += _main_table(part, said["metrics"])
        if part["left_out"]:
            body += "<h3>Left out</h3>" + _html_table(("model", "why"), left_out_rows(part))
        sections.append(writer._section(part["title"], body))
        verdicts = [
            [f"<b>{escape(c['verdict'])}</b>", escape(c["text"]), escape(c["evidence"])] for c in part["claims"]
        ]
        body = writer._table(["", "claim", "here"], verdicts)
        if part["by_rank"]:
            head = ("rank", f"DLAE, {said['judge']}", f"EDLAE, {said['judge']}")
            body += "<h3>By rank, settings chosen among those of the two rows</h3>" + _html_table(
                head, by_rank_rows(part, said["judge"])
            )
        sections.append(writer._section("What the paper says, and what is seen here", body))
        columns = ("model", "settings", "values", f"{said['judge']} on validation", "time to tune")
        sections.append(writer._section("Settings", _html_table(columns, settings_rows(part))))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>offdiag: Table 1 of Steck (2020)</title>\n'
        f"<style>\n{comparison.palette(':root')}{comparison.CSS}{writer._CSS}{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + f"\n</main>\n<footer>Made by offdiag {escape(said['version'])} in {said['seconds']:.1f} seconds.</footer>\n"
        + "</body>\n</html>\n"
    )


def _html_table(head: Sequence[str] | None, rows: list[list[str]]) -> str:
    return writer._table(None if head is None else list(head), [[escape(cell) for cell in row] for row in rows])


def _main_table(part: dict[str, Any], metrics: list[str]) -> str:
    """The best figure of each metric in bold, errors small and below, a line above each group."""
    head, lines = table(part, metrics)
    best = {name: max(row["mean"][name] for row in part["rows"]) for name in metrics}
    body, last = "", None
    for row, texts in zip(part["rows"], lines, strict=True):
        line = ""
        for name, text in zip(head, texts, strict=True):
            value, _, error = escape(text).partition(" ± ")
            value = f"<b>{value}</b>" if name in best and row["mean"][name] == best[name] else value
            value = value.replace(" / ", "<br>") if name == PUBLISHED_FIGURES else value
            line += f"<td>{value}{f'<small>± {error}</small>' if error else ''}</td>"
        body += f"<tr{' class=group' if row['group'] != last else ''}>{line}</tr>"
        last = row["group"]
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f'<div class="scroll"><table class="table1"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


_CSS = """
main { max-width: 1320px; }
.table1 { font-size: 14px; } .table1 td, .table1 th { padding: 6px 10px 6px 0; }
.table1 td small { display: block; } .table1 td:nth-last-child(-n+5) { white-space: nowrap; }
.table1 tr.group td { border-top: 2px solid var(--soft); } .table1 tr.group:first-child td { border-top: 0; }
"""
