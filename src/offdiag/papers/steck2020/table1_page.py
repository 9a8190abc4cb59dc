"""Table 1 of [Steck20] as files: Markdown, one HTML page, and JSON with every number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from offdiag.measured import with_verdict
from offdiag.papers.steck2020.fits import JUDGE, METRICS, PUBLISHED, TUNED
from offdiag.papers.steck2020.rows import BY_KEY
from offdiag.papers.steck2020.table1 import Part, Table1
from offdiag.report import page as templates
from offdiag.report import writer
from offdiag.wording import size, with_error

TITLE = "Table 1 of “Autoencoders that don’t overfit towards the Identity”"
PUBLISHED_FIGURES = "published"
_PRIVATE = ("per_user", "fingerprint", "tuning")  # in the files of the rows, too long for a table
_UNSAID = ("products", "seed", "starts", "batch_users", "max_iterations", "tolerance", "dtype")  # technical
Table = tuple[list[str], list[list[str]]]  # column names, and a list of cells per line
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
        "claims": [claim.as_row() for claim in part.claims],
        "seconds": part.seconds,
    }


def write(table: Table1, folder: Path) -> list[str]:
    """table1.md, table1.html and table1.json; an older file stays intact until the new one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    said = as_json(table)
    writer.replace_text(folder / "table1.md", markdown(said))
    writer.replace_text(folder / "table1.html", page(said))
    writer.replace_text(folder / "table1.json", json.dumps(said, indent=2, ensure_ascii=False) + "\n")
    return [str(folder / name) for name in ("table1.md", "table1.html", "table1.json")]


# Shared by both forms: cells as plain text


def facts(part: dict[str, Any]) -> list[tuple[str, str]]:
    """The data for training and for measuring."""
    sizes = f"{part['users']:,} users, {part['items']:,} items, {part['interactions']:,} interactions"
    pairs = [
        ("learned from", sizes),
        ("measured on", f"{part['test_users']:,} users held out of training"),
        ("split", part["protocol"]),
        ("rank", f"{part['rank']:,} of {part['items']:,} items"),
    ]
    return pairs + [("note", note) for note in part["notes"]]


def table(part: dict[str, Any], metrics: list[str]) -> Table:
    """Column names and a list of cells per line; published numbers only where they exist."""
    head = ["", "model", "settings", *metrics, PUBLISHED_FIGURES, f"{JUDGE} − the best EDLAE"]
    head += ["fit", "memory", "weights", "trials"]
    lines = [_cells(row, metrics) for row in part["rows"]]
    if any(row["published"] for row in part["rows"]):
        return head, lines
    place = head.index(PUBLISHED_FIGURES)
    return head[:place] + head[place + 1 :], [line[:place] + line[place + 1 :] for line in lines]


def _cells(row: dict[str, Any], metrics: list[str]) -> list[str]:
    number = "" if row["number"] is None else str(row["number"])
    measured = [_with_errors(row, name) for name in metrics]
    published = row["published"] or []
    printed = " / ".join("–" if value is None else f"{value:.3f}" for value in published)
    gap = "best" if row["is_reference"] else with_verdict(row["difference"], row["difference_sem"], *_seed_error(row))
    peak = "" if row["extra_peak_bytes"] is None else _memory(row["extra_peak_bytes"])
    trials = str(row["trials"]) if row["kind"] == TUNED else "–"
    seconds = f"{row['fit_seconds']:.1f} s" if row["fit_seconds"] >= 0.1 else "< 0.1 s"
    return [number, _name(row), row["kind"], *measured, printed, gap, seconds, peak, size(row["n_bytes"]), trials]


def _with_errors(row: dict[str, Any], metric: str) -> str:
    over_seeds = f" ± {row['sem_seeds'][metric]:.4f}" if "sem_seeds" in row else ""
    return with_error(row["mean"][metric], row["sem"][metric]) + over_seeds


def _seed_error(row: dict[str, Any]) -> list[float]:
    return [row["difference_sem_seeds"]] if "difference_sem_seeds" in row else []


def _name(row: dict[str, Any]) -> str:
    return str(row["label"]) + (" (full rank)" if row["group"] == "full rank" else "")


def _memory(n_bytes: int) -> str:
    return size(n_bytes) if n_bytes >= 1_000_000 else "< 1 MB"


def settings_text(row: dict[str, Any]) -> str:
    """The settings a reader needs to fit the line again."""
    unsaid = (*_UNSAID, "rank") if row["group"] == "rank" else _UNSAID  # the rank of the table is given above it
    shown = {name: value for name, value in row["settings"].items() if name not in unsaid}
    return ", ".join(f"{name} {writer.setting_text(value)}" for name, value in shown.items()) or "none"


def left_out_rows(part: dict[str, Any]) -> list[list[str]]:
    return [[BY_KEY[key].label, why] for key, why in part["left_out"].items()]


def by_rank_table(part: dict[str, Any], judge: str) -> Table:
    """Rank, DLAE, EDLAE: the smaller ranks, then the rank of the table."""
    lines = [(r["rank"], r["row"], r) for r in part["by_rank"]]
    lines += [
        (part["rank"], r["row"], r) for r in part["rows"] if r["row"] in ("dlae", "edlae") and r["kind"] != PUBLISHED
    ]
    at = {(rank, key): with_error(r["mean"][judge], r["sem"][judge]) for rank, key, r in lines}
    ranks = sorted({r for r, *_ in lines}) if part["by_rank"] else []
    rows = [[f"{rank:,}", at.get((rank, "dlae"), ""), at.get((rank, "edlae"), "")] for rank in ranks]
    return ["rank", f"DLAE, {judge}", f"EDLAE, {judge}"], rows


def settings_table(part: dict[str, Any], judge: str) -> Table:
    rows = []
    for row in part["rows"]:
        time = f"{row['tune_seconds']:.3g} s" if row["tune_seconds"] else "–"
        rows.append([_name(row), row["kind"], settings_text(row), f"{row['validation']:.4f}", time])
    first = next((row["by_seed"][0]["seed"] for row in part["rows"] if "by_seed" in row), None)
    values = "values" if first is None else f"values at seed {first}"
    return ["model", "settings", values, f"{judge} on validation", "time to tune"], rows


def tables(part: dict[str, Any], metrics: list[str], judge: str) -> list[Table]:
    """All tables of one data set that have rows, in the order of the document."""
    verdicts = [[c["verdict"], c["text"], c["evidence"]] for c in part["claims"]]
    found: list[Table] = [
        table(part, metrics),
        (["left out", "why"], left_out_rows(part)),
        (["verdict", "the paper says", "here"], verdicts),
        by_rank_table(part, judge),
        settings_table(part, judge),
    ]
    return [(head, rows) for head, rows in found if rows]


def markdown(said: dict[str, Any]) -> str:
    return templates.markdown("offdiag.papers", "table1.md", said=said, title=TITLE, note=NOTE, part_of=markdown_part)


def markdown_part(part: dict[str, Any], metrics: list[str], judge: str) -> str:
    """The tables of one data set, without a heading."""
    words = {"facts": facts(part), "tables": tables(part, metrics, judge)}
    return templates.markdown("offdiag.papers", "table1_part.md", **words)


def page(said: dict[str, Any]) -> str:
    """One self-contained HTML page: no script, no external resource."""
    judge = said["judge"]
    parts = []
    for part in said["data"]:
        head, lines = table(part, said["metrics"])
        parts.append(
            part
            | {
                "facts": facts(part),
                "head": head,
                "lines": list(zip(part["rows"], lines, strict=True)),
                "best": {name: max(row["mean"][name] for row in part["rows"]) for name in said["metrics"]},
                "left_out_rows": left_out_rows(part),
                "by_rank_table": by_rank_table(part, judge),
                "settings_table": settings_table(part, judge),
            }
        )
    return templates.html(
        "offdiag.papers",
        "table1.html",
        title=TITLE,
        note=NOTE,
        parts=parts,
        published=PUBLISHED_FIGURES,
        seconds=said["seconds"],
    )
