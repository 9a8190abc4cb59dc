"""docs/results.md from the JSON of benchmark runs, never typed: ``python benchmarks/results_page.py``.

Reads results/table1-*.json, and of evaluation.json, tune.json, slim.json and baselines.json those that are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from living_page import living
from results_page_parts import Lines, machine, measured, plus_minus, settings, table
from sparse_page import sparse

from offdiag.papers.steck2020 import rows, table1_page
from offdiag.wording import size as readable

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "results.md"
ORDER = ("ml-20m", "netflix", "msd", "ml-1m", "lastfm", "citeulike-a", "ml-100k")  # by size, large first
INTRO = """# Results

Every figure on this page was measured; `python benchmarks/results_page.py` makes the page from the JSON files in
[benchmarks/results](../benchmarks/results), which the commands at its end write.
"""


def page(folder: Path = RESULTS) -> str:
    """The whole page as text."""
    lines: Lines = [INTRO]
    commands: list[tuple[str, str]] = []
    for said in tables(folder):
        (part,) = said["data"]
        lines += table1(said, part)
        command = f"offdiag reproduce steck2020 table1 --data {part['name']}=PATH {budget(said)}"
        commands.append((f"{part['title']}: all of it", f"python benchmarks/table1.py {part['name']}"))
        commands += [(f"{part['title']}: {named(row)}", f"{command} --rows {row}") for row in keys(part)]
    for name, section in SECTIONS:
        path = folder / f"{name}.json"
        if path.exists():
            lines += section(json.loads(path.read_text(encoding="utf-8")))
            commands += [(TITLES[name], command) for command in (f"python benchmarks/{name}.py", *ALSO.get(name, []))]
    if not commands:
        return INTRO + "\nNothing has been measured yet.\n"
    lines += [
        "## How to reproduce each number",
        "",
        "PATH is the folder or archive of the data set as its publisher gives it away. The same seed draws the same "
        "users and the same trials. A row that ended by time, not by its number of trials, may end elsewhere on "
        "another machine: its settings above give its figures again.",
        "",
        *table(("number", "command"), [[what, f"`{command}`"] for what, command in commands]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def tables(folder: Path) -> list[dict[str, Any]]:
    """The runs of Table 1 that are there, in the order of the page."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("table1-*.json"))]
    return sorted(found, key=lambda said: ORDER.index(said["data"][0]["name"]))


def table1(said: dict[str, Any], part: dict[str, Any]) -> Lines:
    late = [row["label"] for row in part["rows"] if row.get("tune_stopped") == "seconds"]
    return [
        f"## {part['title']}",
        "",
        table1_page.NOTE,
        "",
        *table1_page.markdown_part(part, said["metrics"], said["judge"]),
        *([f"Tuning ended by time: {', '.join(late)}.", ""] if late else []),
        f"Measured in {said['seconds'] / 60:.0f} minutes on {machine(said['machine'])}.",
        "",
    ]


def budget(said: dict[str, Any]) -> str:
    limit = "" if said["seconds_per_row"] is None else f" --seconds-per-row {said['seconds_per_row']:g}"
    return f"--trials {said['trials']}{limit} --seed {said['seed']}"


def keys(part: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["row"] for row in part["rows"]))


def named(row: str) -> str:
    found = rows.BY_KEY[row]
    return found.label + (" (full rank)" if found.group == "full rank" else "")


def evaluation(found: dict[str, Any]) -> Lines:
    data, ours, dense = found["data"], found["ours"], found["dense"]
    metrics = ", ".join(f"{name} {mean:.4f} ± {found['sem'][name]:.4f}" for name, mean in found["mean"].items())
    return [
        f"## {TITLES['evaluation']}",
        "",
        f"Invented data, {data['users']:,} users × {data['items']:,} items, {data['interactions']:,} interactions; "
        f"{data['held_out']:,} users held out for validation and for test. The dense recipe is `X.toarray() @ B` for "
        f"{found['batch_users']:,} users at a time and a partition of the scores for each metric. Measured on "
        f"{machine(found['machine'])}.",
        "",
        *table(
            ("step", "time", "memory at the peak", "beside it"),
            [
                ["split", f"{found['split_seconds']:.2f} s", "", ""],
                ["fit", f"{found['fit']['seconds']:.1f} s", readable(found["fit"]["extra_peak_bytes"]), ""],
                [
                    f"evaluate {found['users_evaluated']:,} users",
                    f"{ours['seconds']:.2f} s",
                    readable(ours["extra_peak_bytes"]),
                    f"dense recipe {dense['seconds']:.1f} s, {readable(dense['extra_peak_bytes'])}: "
                    f"ratio {found['ratio']:.3f} (goal ≤ {found['goal']:g})",
                ],
            ],
        ),
        f"{metrics} at {settings(found['settings'])}.",
        "",
    ]


def tune(found: dict[str, Any]) -> Lines:
    """od.tune beside irspack's tuner, and on a published split."""
    lines = [f"## {TITLES['tune']}", ""]
    if "irspack" in found:
        r = found["irspack"]
        metric = "ndcg@100"
        rows = []
        for name, runs in r["runs"].items():
            for seed, run in enumerate(runs):
                figures = [measured(run["test"], which) for which in (metric, "recall@20")]
                rows.append([name, str(seed), f"{run['seconds']:.1f} s", *figures, settings(run["settings"])])
        gaps = [f"{t['difference'][metric]:+.4f} ± {t['sem'][metric]:.4f}" for t in r["ours_minus_theirs"]]
        lines += [
            f"EDLAE on MovieLens 1M, strong generalisation, {r['trials']} trials on the validation users, the settings "
            "found measured once on the test users. The tuners ran alternately in fresh processes. Ratio of the median "
            f"times {r['ratio']:.3f} (goal ≤ 0.3); {metric} of ours minus theirs, paired, by seed: {'; '.join(gaps)}.",
            "",
            *table(("tuner", "seed", "time", metric, "recall@20", "settings found"), rows),
        ]
    if "ultragcn" in found:
        r = found["ultragcn"]
        lines += [
            f"The UltraGCN split of MovieLens 1M, validation carved out of train: {r['trials']} trials in "
            f"{r['seconds']:.0f} s found {settings(r['settings'])}; on test recall@20 is "
            f"{measured(r['test'], 'recall_all@20')} (goal ≥ 0.283) and ndcg@20 {measured(r['test'], 'ndcg@20')} "
            "(goal ≥ 0.272).",
            "",
        ]
    if "ties" in found:
        r = found["ties"]
        means = ", ".join(f"{value:.4f} ({name})" for name, value in r["mean"].items())
        lines += [
            f"Few validation users: MovieLens 100K, ratings ≥ 4, {r['splits']} splits. Mean ndcg@100 on test of the "
            "trial with the largest value, of the one that the left-out error picks among its equals, and of the "
            f"automatic settings: {means}. Picked minus largest: {r['gain']['mean']:+.4f} ± {r['gain']['sem']:.4f}. "
            "This rule was set after looking at test users of MovieLens 100K: the results on that set above are not "
            "independent of it.",
            "",
        ]
    return [*lines, f"Measured on {machine(found['machine'])}.", ""]


def slim(found: dict[str, Any]) -> Lines:
    """Ours and irspack's at the same distance from the optimum; neighbours at the same settings."""
    lines = [f"## {TITLES['slim']}", "", f"{found['data']}.", ""]
    if "slim" in found:
        rows = []
        for r in found["slim"]:
            for who in ("ours", "irspack"):
                one = r[who]
                row = [f"{r['l1']:.3g}", f"{r['l2']:.3g}", who, f"{one['seconds']:.2f} s", f"{one['excess']:.1e}"]
                row += [f"{one['certified']:.1e}", f"{int(one['weights']):,}", plus_minus(one)]
                rows.append([*row, f"{r['time_ratio']:.2f}" if who == "ours" else ""])
        head = (
            "l1",
            "l2",
            "program",
            "time",
            "above the minimum",
            "certified gap",
            "weights",
            "ndcg@100",
            "time ratio",
        )
        lines += [
            "Our tolerance is the loosest that ends no farther from the optimum than irspack (goal: time ratio ≤ 1).",
            "",
            *table(head, rows),
        ]
    if "neighbours" in found:
        rows = [
            [r["settings"], plus_minus(r["ours"]), plus_minus(r["irspack"]), f"{r['ratio']:.3f}"]
            for r in found["neighbours"]
        ]
        lines += [
            "Item neighbours at the same settings are not the same method: irspack keeps the best neighbours of each "
            "item of a history, we keep those of each item to be scored.",
            "",
            *table(("item neighbours", "ours", "irspack", "ratio"), rows),
        ]
    return [*lines, f"Measured on {machine(found['machine'])}.", ""]


def baselines(found: dict[str, Any]) -> Lines:
    """Every baseline beside a reference implementation on the same users."""
    metric = found["metric"]
    rows = []
    for name, r in found["models"].items():
        ours, theirs = r["ours"], r["reference"]
        row = [name, theirs.get("name", ""), plus_minus(ours, metric), plus_minus(theirs, metric)]
        row += [f"{r['ratio']:.4f} ± {r['ratio_sem']:.4f}", f"{ours['seconds']:.1f} s", settings(ours["settings"])]
        rows.append(row)
    return [
        f"## {TITLES['baselines']}",
        "",
        f"{metric} on the test users of {found['data']}, strong generalisation (goal: ratio ≥ 0.97).",
        "",
        *table(("model", "reference", "ours", "its", "ratio, paired", "fit", "settings of ours"), rows),
        f"Measured on {machine(found['machine'])}.",
        "",
    ]


TITLES = {
    "living": "Living models",
    "sparse": "Sparse columns",
    "evaluation": "A whole row at the size of ML-20M",
    "tune": "Tuning",
    "slim": "SLIM and item neighbours",
    "baselines": "Baselines beside their reference implementations",
}
SECTIONS: list[tuple[str, Callable[[dict[str, Any]], Lines]]] = [
    ("tune", tune),
    ("baselines", baselines),
    ("slim", slim),
    ("sparse", sparse),
    ("living", living),
    ("evaluation", evaluation),
]
ALSO = {"slim": ["python benchmarks/slim.py knn"]}  # what more than one command measures


def renew() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    renew()
