"""Generates docs/results.md from the JSON of benchmark runs: ``python benchmarks/results_page.py``.

Reads results/table1-*.json and the existing files of ``TITLES``; the text is in templates/results.md and one
template per section.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from offdiag.measured import with_verdict
from offdiag.papers.steck2020 import rows, table1_page
from offdiag.report.page import markdown
from offdiag.report.writer import setting_text
from offdiag.wording import size as readable

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "results.md"
ORDER = ("ml-20m", "netflix", "msd", "ml-1m", "lastfm", "citeulike-a", "ml-100k")  # by size, large first
TITLES = {
    "tune": "Tuning",
    "baselines": "Baselines beside their reference implementations",
    "slim": "SLIM and item neighbours",
    "sparse": "Sparse columns",
    "sequences": "What comes next",
    "features": "Features of items",
    "new_items": "New items",
    "living": "Living models",
    "evaluation": "A whole row at the size of ML-20M",
}
ARGUMENTS = {"sequences": " PATH", "features": " PATH", "new_items": " cold PATH ml-1m"}
ALSO = {  # sections measured by more than one command
    "slim": ["python benchmarks/slim.py knn"],
    "new_items": ["python benchmarks/new_items.py mixed PATH ml-1m", "python benchmarks/new_items.py speed"],
}


def page(folder: Path = RESULTS) -> str:
    """The whole page as text."""
    found = tables(folder)
    paths = {name: folder / f"{name}.json" for name in TITLES}
    sections = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    return markdown(
        HERE / "templates",
        "results.md",
        tables=found,
        sections=sections,
        titles=TITLES,
        commands=commands(found, list(sections)),
        note=table1_page.NOTE,
        table1_part=table1_page.markdown_part,
        readable=readable,
        machine=machine,
        plus_minus=plus_minus,
        measured=measured,
        difference=difference,
        settings=settings,
        given=lambda found: {name: value for name, value in found.items() if value is not None},
    )


def tables(folder: Path) -> list[dict[str, Any]]:
    """The available runs of Table 1, in the order of the page."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("table1-*.json"))]
    return sorted(found, key=lambda said: ORDER.index(said["data"][0]["name"]))


def commands(found: list[dict[str, Any]], sections: list[str]) -> list[tuple[str, str]]:
    """What each command measures, and the command."""
    pairs = []
    for said in found:
        (part,) = said["data"]
        command = f"offdiag reproduce steck2020 table1 --data {part['name']}=PATH {budget(said)}"
        pairs.append((f"{part['title']}: all of it", f"python benchmarks/table1.py {part['name']}{options(said)}"))
        if len(said.get("seeds", [])) < 2:
            pairs += [(f"{part['title']}: {named(row)}", f"{command} --rows {row}") for row in keys(part)]
    for name in sections:
        own = f"python benchmarks/{name}.py{ARGUMENTS.get(name, '')}"
        pairs += [(TITLES[name], command) for command in (own, *ALSO.get(name, []))]
    return pairs


def budget(said: dict[str, Any]) -> str:
    limit = "" if said["seconds_per_row"] is None else f" --seconds-per-row {said['seconds_per_row']:g}"
    return f"--trials {said['trials']}{limit} --seed {said['seed']}"


def options(said: dict[str, Any]) -> str:
    """Those of benchmarks/table1.py that differ from its own."""
    if "seeds" not in said:
        return ""
    seeds = " ".join(str(seed) for seed in said["seeds"])
    processor = " --processor" if said["processor"] else ""
    return f" --trials {said['trials']} --seconds {said['seconds_per_row']:g} --seeds {seeds}{processor}"


def keys(part: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["row"] for row in part["rows"]))


def named(row: str) -> str:
    found = rows.BY_KEY[row]
    return found.label + (" (full rank)" if found.group == "full rank" else "")


# Formatting of measurements in the templates


def machine(found: dict[str, Any]) -> str:
    return f"{found['cores']} cores of {found['processor']}, {readable(found['memory_bytes'])} of memory"


def plus_minus(found: dict[str, Any], metric: str = "ndcg@100") -> str:
    return f"{found[metric]:.4f} ± {found['sem']:.4f}"


def measured(result: dict[str, Any], metric: str) -> str:
    sem = result["sem"][metric]
    return f"{result['mean'][metric]:.4f}" + ("" if sem is None else f" ± {sem:.4f}")


def difference(test: dict[str, Any], metric: str) -> str:
    return with_verdict(test["difference"][metric], test["sem"][metric])


def settings(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {setting_text(value)}" for name, value in found.items())


def renew() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    renew()
