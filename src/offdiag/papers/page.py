"""A reproduction as files: one HTML page (claim → what was measured → erratum), its figures, and the numbers."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from offdiag.files import atomic
from offdiag.papers.claims import Chapter, Check, Claim, Reproduction, check, expected
from offdiag.plots import comparison, papers
from offdiag.report import writer

_CSS = """
.claim { border-left: 4px solid var(--c0); padding: .1em 0 .1em 1em; margin: 1.1em 0; }
.claim.holds { border-color: var(--c3); } .claim.corrected { border-color: var(--c2); }
.claim.fails { border-color: var(--c5); } .claim p { margin: .3em 0; }
.claim .where { color: var(--soft); font-size: .9em; } .verdict { font-weight: 650; }
figure.drawn { margin: 1.4em 0; background: #fff; border-radius: 6px; padding: .6em; }
figure.drawn img { width: 100%; height: auto; display: block; }
figure.drawn figcaption { color: #5b6575; font-size: .9em; padding: .4em .4em 0; }
table.claims { width: 100%; border-collapse: collapse; font-size: .9em; } table.claims th { text-align: left; }
table.claims td, table.claims th { padding: .4em .6em; vertical-align: top; border-bottom: 1px solid var(--grid); }
"""
_KIND = {"holds": "holds", "holds when corrected": "corrected", "does not hold": "fails", "not run": ""}

_MANY = {
    "holds": "hold",
    "holds when corrected": "hold when corrected",
    "does not hold": "do not hold",
    "not run": "not run",
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
    """index.html, numbers.json and figures/*.png, *.svg; an older file stays whole until its successor is complete."""
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
    """One self-contained page: pictures inside, no script, no outside resource."""
    import offdiag as od

    kinds = [claim.verdict for claim in found.claims]
    tally = ", ".join(f"{kinds.count(kind)} {_MANY[kind]}" for kind in _KIND if kind in kinds)
    table = [
        [f"<b>{escape(c.verdict)}</b>", f"{escape(c.where)}: {escape(c.says)}", escape(c.measured), escape(c.erratum)]
        for c in found.claims
    ]
    numbers = [
        [escape(c.name), c.shown, escape(c.expected), "<b>no</b>" if c.verdict == "NO" else c.verdict, escape(c.why)]
        for c in checks(found)
    ]
    sections = [
        f'<header><p class="kicker">offdiag · {escape(found.paper)}</p><h1>{escape(found.title)}</h1>'
        f'<p class="lead">{escape(found.authors)}, made again and measured.</p></header>',
        writer._section("In short", _paragraphs(found.summary) + f"<p>{len(kinds)} statements: {tally}.</p>"),
        *(_chapter(chapter, pictures) for chapter in found.chapters),
        writer._section(
            "All claims", writer._table(["", "the paper says", "what we measured", "erratum"], table, "claims")
        ),
        writer._section(
            "Numbers against what is expected",
            writer._table(["number", "here", "expected", "met", "why"], numbers, "claims"),
        ),
        writer._section(
            "How this was made",
            writer._table(
                None,
                [
                    ["command", f"<code>{_command(found)}</code>"],
                    ["data", escape(found.data)],
                    ["time", f"{found.seconds:.0f} seconds"],
                ],
            ),
        ),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>offdiag: {escape(found.title)}</title>\n"
        f"<style>\n{comparison.palette(':root')}{comparison.CSS}{writer._CSS}{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + f"\n</main>\n<footer>Made by offdiag {od.__version__}.</footer>\n</body>\n</html>\n"
    )


def _command(found: Reproduction) -> str:
    pictures = (("mnist", "pictures of MNIST"), ("cifar10", "pictures of CIFAR-10"))
    folders = "".join(f" --{option} FOLDER" for option, words in pictures if words in found.data)
    return f"offdiag reproduce {found.paper} --size {found.size} --seed {found.seed}{folders}"


def _chapter(chapter: Chapter, pictures: dict[str, bytes]) -> str:
    drawn = "".join(
        f'<figure class="drawn"><img alt="{escape(d.caption)}" '
        f'src="data:image/png;base64,{base64.b64encode(pictures[d.name]).decode()}">'
        f"<figcaption>{escape(d.caption)}</figcaption></figure>"
        for d in chapter.drawings
    )
    return writer._section(
        chapter.title, _paragraphs(chapter.text) + drawn + "".join(_claim(c) for c in chapter.claims)
    )


def _claim(claim: Claim) -> str:
    rows = [f'<p class="where">{escape(claim.where)}</p>', f"<p>The paper says: {escape(claim.says)}</p>"]
    rows.append(f'<p><span class="verdict">{escape(claim.verdict)}</span> · {escape(claim.measured)}</p>')
    if claim.erratum:
        rows.append(f"<p>Erratum: {escape(claim.erratum)}</p>")
    if claim.code:
        rows.append(f'<p class="where">in code: <code>{escape(claim.code)}</code></p>')
    return f'<div class="claim {_KIND[claim.verdict]}">{"".join(rows)}</div>'


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(' '.join(part.split()))}</p>" for part in text.split("\n\n") if part.strip())
