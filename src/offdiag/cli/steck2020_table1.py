"""Table 1 of [Steck20] on the terminal: options and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from offdiag.cli import console
from offdiag.errors import OffdiagError
from offdiag.papers.steck2020 import sources, table1, table1_page

LEAST = 50  # fewest users and items of a synthetic catalogue that leave something to measure


def asked(data: list[str] | None, users: int, items: int) -> list[sources.Source]:
    """The named data sets, or a synthetic catalogue."""
    if data:
        return sources.parsed(data)
    if users < LEAST or items < LEAST:
        raise OffdiagError(
            f"the synthetic catalogue needs {LEAST} users and items or more, received {users} and {items}"
        )
    return [sources.Source(sources.INVENTED, users=users, items=items)]


def parsed_rows(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def make(given: list[sources.Source], folder: Path, **words: Any) -> tuple[table1.Table1, list[str]]:
    """Run and write; after Ctrl-C, one line reports that the finished rows are kept."""
    try:
        with console.working() as work:
            found = table1.run(given, folder=folder, progress=work, **words)
            return found, table1_page.write(found, folder)
    except KeyboardInterrupt:
        finished = len(list((folder / "rows").glob("*.json"))) if (folder / "rows").is_dir() else 0
        console.note(f"{finished:,} finished rows are kept in {folder}; the same command resumes from there")
        raise


def show(said: dict[str, Any], files: list[str]) -> None:
    """Print the table on stdout."""
    for part in said["data"]:
        console.say(f"\n{part['title']}", style="bold")
        console.show_pairs({name: value for name, value in table1_page.facts(part) if name != "note"})
        for note in part["notes"]:
            console.say(f"note: {note}")
        console.say()
        head, rows = table1_page.table(part, said["metrics"])
        console.show_table([*head[:3], *(f">{name}" for name in head[3:])], rows)
        if part["left_out"]:
            console.show_table(["left out", "why"], table1_page.left_out_rows(part))
        console.say("\nWhat the paper says, and what is seen here:")
        verdicts = [[claim["verdict"], claim["text"], claim["evidence"]] for claim in part["claims"]]
        console.show_table(["verdict", "claim", "here"], verdicts)
    console.say()
    for name in files:
        console.say(f"written: {console.printable(name)}")
