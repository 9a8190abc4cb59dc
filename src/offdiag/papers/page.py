"""A reproduction as files: one HTML page (claim → what was measured → erratum), its figures, and the numbers."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from offdiag.files import atomic
from offdiag.papers.claims import Check, Reproduction, Verdict, check, expected
from offdiag.plots import papers
from offdiag.report import writer
from offdiag.report.page import html

# CSS class of a claim on the page, and the wording of the counts.
VERDICTS: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds when corrected": ("corrected", "hold when corrected"),
    "within error": ("corrected", "hold within error"),
    "barely": ("corrected", "barely hold"),
    "depends on the gauge": ("corrected", "depend on the gauge"),
    "does not hold": ("fails", "do not hold"),
    "not run": ("", "not run"),
}


def checks(found: Reproduction) -> list[Check]:
    return check(found.numbers, expected(found.paper, found.size))


def as_json(found: Reproduction) -> dict[str, Any]:
    import offdiag as od

    return {
        "paper": found.paper,
        "size": found.size,
        "seed": found.seed,
        "data": found.data,
        "seconds": found.seconds,
        "version": od.__version__,
        "claims": [asdict(claim) for claim in found.claims],
        "checks": [
            asdict(c) | {"value": c.value if c.value is not None and math.isfinite(c.value) else None, "met": c.verdict}
            for c in checks(found)
        ],
    }


def write(found: Reproduction, folder: Path) -> list[str]:
    """index.html, numbers.json and figures/*.png, *.svg; an older file stays intact until the new one is complete."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    files = [folder / "index.html", folder / "numbers.json"]
    pictures: dict[str, bytes] = {}
    for chapter in found.chapters:
        for drawing in chapter.drawings:
            for suffix in ("png", "svg"):
                path = figures / f"{drawing.name}.{suffix}"
                content = papers.rendered(drawing.figure, suffix)
                with atomic.replacing(path) as file:
                    file.write(content)
                files.append(path)
                if suffix == "png":
                    pictures[drawing.name] = content
    writer.replace_text(folder / "numbers.json", json.dumps(as_json(found), indent=2) + "\n")
    writer.replace_text(folder / "index.html", page(found, pictures))
    return [str(path) for path in files]


def page(found: Reproduction, pictures: dict[str, bytes]) -> str:
    """One self-contained page: inline figures, no script, no external resource."""
    kinds = [claim.verdict for claim in found.claims]
    folders = "".join(f" --{name} FOLDER" for name in found.folders)
    name = f"{found.paper} {found.part}".strip()
    return html(
        "offdiag.papers",
        "paper.html",
        found=found,
        tally=", ".join(f"{kinds.count(kind)} {many}" for kind, (_, many) in VERDICTS.items() if kind in kinds),
        classes={kind: name for kind, (name, _) in VERDICTS.items()},
        checks=checks(found),
        command=f"offdiag reproduce {name} --size {found.size} --seed {found.seed}{folders}",
        pictures={name: base64.b64encode(content).decode() for name, content in pictures.items()},
    )
