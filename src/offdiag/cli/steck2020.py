"""Figure 1 and Table 1 of [Steck20] on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from offdiag.cli import console
from offdiag.errors import OffdiagError
from offdiag.papers.steck2020 import figure1_page, sources, table1, table1_page
from offdiag.papers.steck2020.figure1 import Figure1, middle

LEAST = 50  # fewest users and items of a synthetic catalogue that leave something to measure


def show_figure1(figure: Figure1, files: list[str]) -> None:
    """Print the figure on stdout."""
    console.show_source(figure.source, figure.train, figure.n_test)
    console.say(f"Full-rank model: {figure1_page.settings_text(figure)}\n")
    model, rank, _, *others = figure1_page.HEAD
    head = [model, *(f">{name}" for name in (rank, figure.metric, *others))]
    console.show_table(head, figure1_page.rows(figure))
    cosines = [
        [name, *(f"{middle(values):.3f}" for values in pair), f"{middle(figure.diagonals[name]):.3f}"]
        for name, pair in figure.cosines.items()
    ]
    console.say(f"\nAt rank {figure.rank:,}, the median item has")
    console.show_table(["model", ">median cosine, encoder", ">median cosine, decoder", ">diagonal of UVᵀ"], cosines)
    console.say("\nWhat the paper says, and what is seen here:")
    console.show_table(["verdict", "claim", "here"], [[c.verdict, c.says, c.measured] for c in figure.claims])
    console.show_written(files)


def table1_sources(data: list[str] | None, users: int, items: int) -> list[sources.Source]:
    """The named data sets, or a synthetic catalogue."""
    if data:
        return sources.parse(data)
    if users < LEAST or items < LEAST:
        raise OffdiagError(
            f"the synthetic catalogue needs {LEAST} users and items or more, received {users} and {items}"
        )
    return [sources.Source(sources.INVENTED, users=users, items=items)]


def make_table1(given: list[sources.Source], folder: Path, **words: Any) -> tuple[table1.Table1, list[str]]:
    """Run and write; after Ctrl-C, one line reports that the finished rows are kept."""
    try:
        with console.working() as work:
            found = table1.run(given, folder=folder, progress=work, **words)
            return found, table1_page.write(found, folder)
    except KeyboardInterrupt:
        finished = len(list((folder / "rows").glob("*.json")))
        console.note(f"{finished:,} finished rows are kept in {folder}; the same command resumes from there")
        raise


def show_table1(about: dict[str, Any], files: list[str]) -> None:
    """Print the table on stdout."""
    for part in about["data"]:
        console.say(f"\n{part['title']}", style="bold")
        console.show_pairs({name: value for name, value in table1_page.facts(part) if name != "note"})
        for note in part["notes"]:
            console.say(f"note: {note}")
        console.say()
        head, rows = table1_page.table(part, about["metrics"])
        console.show_table([*head[:3], *(f">{name}" for name in head[3:])], rows)
        if part["left_out"]:
            console.show_table(["left out", "why"], table1_page.left_out_rows(part))
        console.say("\nWhat the paper says, and what is seen here:")
        verdicts = [[claim["verdict"], claim["text"], claim["evidence"]] for claim in part["claims"]]
        console.show_table(["verdict", "claim", "here"], verdicts)
    console.say()
    console.show_written(files)
