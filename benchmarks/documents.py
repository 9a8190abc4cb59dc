"""Tables in documents from the JSON of benchmark runs: ``python benchmarks/documents.py`` renews all of them.

A table stands in its document between ``<!-- name -->`` and ``<!-- end name -->``; templates/tables/name.md makes it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import peers_page

from offdiag.report.page import markdown

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ROOT = HERE.parent
TABLES = {  # table: its document, and the results it needs; the first of them is ``found`` in the template
    "why": ("README.md", ("peers",)),
    "speed": ("docs/performance.md", ("speed",)),
    "defaults": ("docs/performance.md", ("defaults",)),
    "batch-output": ("docs/performance.md", ("batch_output",)),
    "next-item": ("docs/performance.md", ("next_item",)),
    "compression-sizes": ("docs/compression.md", ("compression",)),
    "compression-choices": ("docs/compression.md", ("compression",)),
    "dislikes": ("docs/dislikes.md", ("dislikes",)),
    "user-features": ("docs/dislikes.md", ("dislikes",)),
    "completion-gaps": ("docs/theory/completion.md", ("completion",)),
    "completion-ranking": ("docs/theory/completion.md", ("completion",)),
    "gowalla": ("docs/large-catalogues.md", ("gowalla",)),
    "growth": ("docs/growth.md", ("growth",)),
    "hidden-dropout": ("docs/models.md", ("hidden_dropout",)),
    "order": ("docs/order.md", ("sequences",)),
    "order-published": ("docs/order.md", ("sequences",)),
    "sasrec": ("docs/baselines.md", ("sasrec",)),
    "ageing": ("docs/order.md", ("ageing",)),
    "ranks": ("docs/ranks.md", ("ranks",)),
    "capacity": ("docs/production.md", ("capacity",)),
    "torture": ("docs/torture.md", ("torture",)),
    "serving": ("docs/serving.md", ("serving",)),
    "soak": ("docs/serving.md", ("serving",)),
    "servers": ("docs/serving.md", ("serving_servers",)),
    "features": ("docs/features.md", ("features",)),
    "sampled": ("docs/theory/denoising.md", ("sampled",)),
    "dropblock-gap": ("docs/theory/structured.md", ("dropblock_gap",)),
    "emphasis": ("docs/theory/emphasis.md", ("emphasis",)),
    "rivals": ("docs/theory/rivals.md", ("rivals",)),
    "emphasis-pays": ("docs/papers/steck2020/README.md", ("emphasis_pays",)),
    "steck2020-scale": ("docs/papers/steck2020/README.md", ("steck2020_scale",)),
    "spectral": ("docs/theory/spectral.md", ("spectral",)),
    "new-items": ("docs/features.md", ("new_items",)),
    "new-items-mixed": ("docs/features.md", ("new_items",)),
    "theory": ("docs/theory/README.md", ("theory",)),
    "auto": ("docs/autopilot.md", ("auto",)),
    "auto-published": ("docs/autopilot.md", ("auto",)),
    "drift": ("docs/autopilot.md", ("drift",)),
    "near": ("docs/models.md", ("drift",)),
    "tune-sparse": ("docs/tuning.md", ("tune_sparse",)),
}


def table(name: str) -> str | None:
    """One table as Markdown, or None while a result it needs has not been measured."""
    paths = [RESULTS / f"{result}.json" for result in TABLES[name][1]]
    if not all(path.exists() for path in paths):
        return None
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    words: dict[str, Any] = {"found": results[0], "results": results, "summary": peers_page.summary}
    words |= {"seconds": peers_page.seconds, "seconds_of": peers_page.fit_seconds}
    return markdown(HERE / "templates", f"tables/{name}.md", **words).strip()


def place(text: str, name: str, made: str) -> str:
    """The document with the table in its place."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
    if not pattern.search(text):
        raise SystemExit(f"the document has no place for the table {name!r}")
    return pattern.sub(lambda found: found.group(1) + made + "\n" + found.group(2), text)


def renew(*names: str) -> None:
    """Write these tables, or all of them, into their documents."""
    for name in names or TABLES:
        path = ROOT / TABLES[name][0]
        if made := table(name):
            path.write_text(place(path.read_text(encoding="utf-8"), name, made), encoding="utf-8")


if __name__ == "__main__":
    renew()
