"""`offdiag reproduce steck2020`: Figure 1 and Table 1 of [Steck20] on any data."""

from __future__ import annotations

import json as dump
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from offdiag.cli import console, inputs, outputs
from offdiag.cli.commands import DataOrSynthetic, Items, Json, Seed, Users
from offdiag.cli.inputs import OptionalColumns
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.papers.claims import Reproduction, Size
    from offdiag.papers.steck2020.figure1 import Figure1
    from offdiag.papers.steck2020.sources import Source
    from offdiag.papers.steck2020.table1 import Table1

LEAST = 50  # fewest users and items of a synthetic catalogue that leave something to measure


def figure1(
    data: DataOrSynthetic = None,
    out: Annotated[
        str, Option("--out", "-o", metavar="FOLDER", help="Where the page, the figures and the numbers go.")
    ] = "steck2020",
    size: Annotated[
        str, Option(metavar="SIZE", help="small: three ranks; paper: ranks from 10 to a third of the items.")
    ] = "paper",
    name: Annotated[str | None, Option("--name", help="What to call the data on the page.")] = None,
    ranks: Annotated[str | None, Option(help="Ranks of the curve, separated by commas. Default: see --size.")] = None,
    rank: Annotated[int | None, Option(help="Rank of the histograms. Default: the largest of the curve.")] = None,
    dropout: Annotated[str, Option(help="Dropout probability of all models; auto: tuned, see --l2.")] = "auto",
    l2: Annotated[
        str, Option(help="Penalty on the weights of all models; auto for both: tuned for each model and rank.")
    ] = "auto",
    held_out: Annotated[float, Option(help="Share of users to measure on; as many more are tuned on.")] = 0.1,
    metric: Annotated[str, Option(help="What is measured, e.g. recall@20.")] = "ndcg@100",
    seed: Seed = 0,
    json: Json = False,
    columns: OptionalColumns = OptionalColumns(),  # noqa: B008 - frozen
) -> None:
    """Figure 1: accuracy by rank, and how close similar items are.

    For EDLAE, the zero-diagonal model and DLAE, each tuned by itself at each rank on validation users; with a given
    dropout or l2, the same for all models.
    """
    from offdiag.papers import page, steck2020
    from offdiag.papers.steck2020 import figure1_page
    from offdiag.papers.steck2020.figure1 import parse_ranks, run
    from offdiag.plots import papers
    from offdiag.report import writer

    given: Any = {name: console.number_or_auto(name, text) for name, text in (("dropout", dropout), ("l2", l2))}
    given |= {"ranks": parse_ranks(ranks), "rank": rank, "held_out": held_out, "metric": metric, "seed": seed}
    checked = _checked_size(size)
    folder = Path(out)
    outputs.check_folder(folder)
    papers.load_matplotlib()  # now, not after minutes of work
    with console.working() as work:
        inter, source = inputs.read_or_generate(data, columns, seed, work)
        figure = run(inter, name or source, size=checked, progress=work, **given)
        work.begin("theorems and drawing")
        found = steck2020.reproduce(figure, checked, given=data is not None)
        numbers = figure1_page.as_json(figure, found.claims)
        files = page.write(found, folder)
        writer.replace_text(folder / "figure1.json", dump.dumps(numbers, indent=2) + "\n")
        files.append(str(folder / "figure1.json"))
    checks = page.checks(found)
    if json:
        console.show_json(numbers | {"files": files})
    else:
        show_figure1(figure, found, files)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def show_figure1(figure: Figure1, found: Reproduction, files: list[str]) -> None:
    """Print the figure on stdout."""
    from offdiag.papers.steck2020 import figure1_page

    console.show_source(figure.source, figure.train, figure.n_test)
    console.say(f"Full-rank EDLAE: {figure1_page.settings_text(figure)}\n")
    model, rank, _, *others = figure1_page.HEAD
    head = [model, *(f">{name}" for name in (rank, figure.metric, *others))]
    console.show_table(head, figure1_page.rows(figure))
    console.say(f"\nAt rank {figure.rank:,}, the median item has")
    console.show_table(
        ["model", "gauge", ">median cosine, encoder", ">median cosine, decoder", ">diagonal of UVᵀ"],
        figure1_page.cosine_rows(figure),
    )
    console.say("\nWhat the paper says, and what is seen here:")
    console.show_table(["verdict", "claim", "here"], [[c.verdict, c.says, c.measured] for c in found.claims])
    console.show_written([file for file in files if not file.endswith((".png", ".svg"))])


def table1(
    data: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=PATH",
            help="ml-20m, netflix, msd, ml-1m, ml-100k, lastfm or citeulike-a, and where it is; repeatable. "
            "Default: a synthetic catalogue.",
        ),
    ] = None,
    size: Annotated[
        str,
        Option(
            metavar="SIZE",
            help="Of the synthetic catalogue. small: --users, --items; paper: the shape of ML-20M at rank 1,000 with "
            "automatic settings, for time and memory only, about an hour.",
        ),
    ] = "small",
    rank: Annotated[
        int | None,
        Option(help="Rank of the low-rank rows. Default: 1,000 as published, a twentieth of small catalogues."),
    ] = None,
    trials: Annotated[
        int | None, Option(help="Settings tried for each row; 0: automatic settings. Default: 20; 0 at --size paper.")
    ] = None,
    seconds_per_row: Annotated[
        float | None, Option(help="Time limit for tuning a row, the same for every row.")
    ] = None,
    rows: Annotated[
        str | None, Option(help="Only these rows, separated by commas, e.g. dlae,edlae,edlae-full.")
    ] = None,
    out: Annotated[
        str, Option("--out", "-o", metavar="FOLDER", help="Where the tables go; finished rows there are not redone.")
    ] = "steck2020",
    users: Users = 6000,
    items: Items = 1000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Table 1: low-rank autoencoders compared with published rivals.

    Five low-rank autoencoders, five published rivals and the full-rank family, tuned on validation users and shown next
    to the published values, with standard errors, time and memory. A stopped run resumes where it was.
    """
    from offdiag.papers.steck2020 import table1_page
    from offdiag.papers.steck2020.rows import OWN_ROWS
    from offdiag.papers.steck2020.table1 import TRIALS

    sources = _table1_sources(data, _checked_size(size), users, items)
    some = None if rows is None else [part.strip() for part in rows.split(",") if part.strip()]
    if sources[0].interactions:  # a stand-in: settings do not matter
        some, trials = some or list(OWN_ROWS), trials or 0
    outputs.check_folder(Path(out))
    found, files = _make_table1(
        sources,
        Path(out),
        rank=rank,
        trials=TRIALS if trials is None else trials,
        seconds=seconds_per_row,
        rows=some,
        seed=seed,
    )
    about = table1_page.as_json(found)
    if json:
        console.show_json(about | {"files": files})
    else:
        _show_table1(about, files)


def _checked_size(size: str) -> Size:
    if size not in ("small", "paper"):
        raise OffdiagError(f"--size must be small or paper, received {size!r}")
    return "paper" if size == "paper" else "small"


def _table1_sources(data: list[str] | None, size: Size, users: int, items: int) -> list[Source]:
    """The named data sets, or a synthetic catalogue."""
    from offdiag.papers.steck2020 import sources

    if data:
        return sources.parse(data)
    if size == "paper":
        return [sources.stand_in()]
    if users < LEAST or items < LEAST:
        raise OffdiagError(
            f"the synthetic catalogue needs {LEAST} users and items or more, received {users} and {items}"
        )
    return [sources.Source(sources.INVENTED, users=users, items=items)]


def _make_table1(given: list[Source], folder: Path, **words: Any) -> tuple[Table1, list[str]]:
    """Run and write; after Ctrl-C, one line reports that the finished rows are kept."""
    from offdiag.papers.steck2020 import table1, table1_page

    try:
        with console.working() as work:
            found = table1.run(given, folder=folder, progress=work, **words)
            return found, table1_page.write(found, folder)
    except KeyboardInterrupt:
        finished = len(list((folder / "rows").glob("*.json")))
        console.note(f"{finished:,} finished rows are kept in {folder}; the same command resumes from there")
        raise


def _show_table1(about: dict[str, Any], files: list[str]) -> None:
    """Print the table on stdout."""
    from offdiag.papers.steck2020 import table1_page

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
