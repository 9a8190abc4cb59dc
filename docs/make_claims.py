"""Writes docs/theory/claims.md: every claim of the papers once, from the committed runs; nothing is computed here.

Run from the root of the tree: python -m docs.make_claims
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from offdiag.papers.driver import TITLES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "theory" / "claims.md"
PAPERS = {
    "steck2020": "Steck 2020, *Autoencoders that don't overfit towards the Identity*, with its supplement",
    "mianjy2018": "Mianjy, Arora & Vidal 2018, *On the Implicit Bias of Dropout*",
    "pal2020": "Pal, Lane, Vidal & Haeffele 2020, *On the Regularization Properties of Structured Dropout*",
    "pretorius2018": "Pretorius, Kroon & Kamper 2018, *Learning Dynamics of Linear Denoising Autoencoders*, supplement",
}
PARTS = {"steck2020": " figure1 DATA"}  # what follows the name of the paper in the command
HEAD = """# 25. Every claim of the papers, and what became of it

Each claim of the papers is listed once, with the verdict, the figures that decide and the command that measures them
again. The rows come from the runs committed in [docs/papers](../papers/README.md) and, for Table 1 of Steck 2020, in
[benchmarks/results](../../benchmarks/results); `python -m docs.make_claims` writes this page, and a test compares it
with them. [Papers](../papers/README.md) states the rule for verdicts; a claim that "holds when corrected" has an
entry among the [errata](errata.md).
"""
END = "\nBack to [the contents](README.md)\n"


def page() -> str:
    papers = {name: list(claims(name)) for name in PAPERS}
    rows = [
        (f"[{title}](#{name})", str(len(papers[name])), tally(claim["verdict"] for claim in papers[name]))
        for name, title in PAPERS.items()
    ]
    parts = [HEAD, table(("paper", "claims", "verdicts"), rows)]
    for name, title in PAPERS.items():
        parts += [f"\n## {name}\n\n{title}.\n", about(name), chapter(papers[name])]
        parts += [table_1()] if name == "steck2020" else []
    return "\n".join(parts) + END


def claims(paper: str) -> Iterator[dict[str, str]]:
    """The claims of the committed run; without one those of expected.json, as not run. Then those of a supplement."""
    run = committed(paper)
    yield from run["claims"] if run is not None else not_run(paper)
    yield from supplement["claims"] if (supplement := committed(paper, "supplement.json")) else ()


def not_run(paper: str) -> Iterator[dict[str, str]]:
    known = json.loads((ROOT / "src" / "offdiag" / "papers" / paper / "expected.json").read_text())
    for words in known["claims"].values():
        yield {"code": "", **words, "verdict": "not run", "measured": ""}


def committed(paper: str, name: str = "numbers.json") -> dict[str, Any] | None:
    file = ROOT / "docs" / "papers" / paper / name
    return json.loads(file.read_text()) if file.exists() else None


def about(paper: str) -> str:
    """The command, the data and the pictures of the committed run."""
    run, supplement = committed(paper), committed(paper, "supplement.json")
    name = f"offdiag reproduce {paper}{PARTS.get(paper, '')}"
    more = f" For the supplement: `{supplement['command']}`; data: {supplement['data']}." if supplement else ""
    if run is None:
        return f"`{name}`; no run of it is committed.{more}\n"
    folders = "".join(f" --{option} FOLDER" for option, title in TITLES.items() if title in run["data"])
    pictures = sorted(path.name for path in (ROOT / "docs" / "papers" / paper).glob("*.png"))
    links = ", ".join(f"[{name}](../papers/{paper}/{name})" for name in pictures)
    shown = f" Figures: {links}." if pictures else ""
    return f"`{name} --size {run['size']} --seed {run['seed']}{folders}`; data: {run['data']}.{shown}{more}\n"


def chapter(found: list[dict[str, str]]) -> str:
    rows = [(c["where"], c["says"], f"**{c['verdict']}**", c["measured"], code(c["code"])) for c in found]
    return table(("where", "the paper says", "verdict", "measured here", "function"), rows)


def table_1() -> str:
    """The claims on Table 1, judged on every data set with a committed run."""
    runs = {}
    for file in sorted((ROOT / "benchmarks" / "results").glob("table1-*.json")):
        runs |= {data["name"]: data for data in json.loads(file.read_text())["data"]}
    known: dict[str, dict[str, tuple[str, str]]] = {}
    for name, data in runs.items():
        for claim in data["claims"]:
            known.setdefault(claim["text"], {})[name] = claim["verdict"], claim["evidence"]
    rows = [
        (text, *(f"**{found[name][0]}**: {found[name][1]}" if name in found else "" for name in runs))
        for text, found in known.items()
    ]
    titles = [f"{name}, rank {data['rank']} of {data['items']:,} items" for name, data in runs.items()]
    commands = ", ".join(f"`python benchmarks/table1.py {name}`" for name in runs)
    return f"\n**Table 1**, on the public sets at hand: {commands}.\n\n" + table(("the paper says", *titles), rows)


def tally(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in Counter(verdicts).most_common())


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
