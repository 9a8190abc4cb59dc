"""The README's tables are made from the JSON of benchmark runs, never typed: ``python benchmarks/readme.py``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from offdiag.report.page import markdown

HERE = Path(__file__).parent
README = HERE.parent / "README.md"


def replace_between(text: str, name: str, table: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
    if not pattern.search(text):
        raise SystemExit(f"the README has no place for the table {name!r}")
    return pattern.sub(lambda found: found.group(1) + table + "\n" + found.group(2), text)


def renew() -> None:
    text = README.read_text()
    for name in ("speed", "defaults"):
        path = HERE / "results" / f"{name}.json"
        if path.exists():
            table = markdown(HERE / "templates", f"{name}.md", found=json.loads(path.read_text()))
            text = replace_between(text, name, table.rstrip())
    README.write_text(text)


if __name__ == "__main__":
    renew()
