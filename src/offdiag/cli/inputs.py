"""How the command line reads its input: tables with named columns, lists of ids, and ids from the command line."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from offdiag.cli import commands, console
from offdiag.data import formats, places
from offdiag.data.columns import Cleaning, Options, Roles
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Interactions
    from offdiag.models.recommender import Recommender

PANEL = "Data"
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ","}


def option(names: str, text: str, default: Any = None, **more: Any) -> Any:
    """A field that becomes an option of a command."""
    return field(default=default, metadata={"option": typer.Option(names, help=text, rich_help_panel=PANEL, **more)})


@dataclass(frozen=True)
class Source:
    """How a table is read. Each field is an option of every command that reads data."""

    user: str | None = option("--user", "Column of users: its name, or its position from 0.", "user")
    item: str | None = option("--item", "Column of items: its name, or its position from 0.", "item")
    value: str | None = option("--value", "Column of ratings or counts, if they matter.")
    time: str | None = option("--time", "Column of times; the latest of repeated pairs counts.")
    separator: str | None = option("--separator", "Separator of columns, e.g. ';', '::' or tab. Default: detected.")
    form: str | None = option("--format", formats.listing())
    header: bool | None = option("--header/--no-header", "Whether the first line names the columns.")
    encoding: str = option("--encoding", "Encoding of a text file, e.g. latin-1.", "utf-8")
    query: str | None = option("--query", "What to select from a database (postgresql://…, duckdb:///…, env:NAME).")
    table: str | None = option("--table", "Of a database a table, of a workbook a sheet, of an archive a file.")
    missing: str | None = option("--missing", "Rows without user or item: error (default) or drop.")
    negative: str | None = option("--negative", "Negative values: error (default), drop, or net of the other rows.")
    decimal: str | None = option("--decimal", "Decimal sign of values: '.' (default) or ','.")
    date_format: str | None = option("--date-format", "How times are written, e.g. '%d.%m.%Y %H:%M'.")
    normalise_users: bool = option("--normalise-users", "Ignore case and white space around user ids.", False)
    where: str | None = option("--where", "Only rows for which this holds, e.g. \"event = 'purchase'\".")
    action: str | None = option("--action", "Column of actions, which --weights weighs.")
    weights: str | None = option("--weights", "What each action counts, e.g. view=1,cart=3,purchase=5.")


@dataclass(frozen=True)
class Columns(Source):
    """Also what repeated pairs and ids mean."""

    duplicates: str | None = option("--duplicates", "Repeated pairs: once, or sum (only with --value).")
    in_order: bool = option("--in-order", "Keep every row as an event, in order, for models that know it.", False)
    text_ids: bool = option("--text-ids", "Keep ids as text even when all are whole numbers.", False)
    dislike_below: float | None = option("--dislike-below", "Values below this are dislikes: never recommended.")


@dataclass(frozen=True)
class FilteredColumns(Columns):
    """Also which of the interactions count, for the commands that learn."""

    at_least: float | None = option("--at-least", "Keep values of at least this and count each as 1.")
    min_users: int = option("--min-users", "Keep users with at least this many items.", 1, min=0)
    min_items: int = option("--min-items", "Keep items with at least this many users.", 1, min=0)


@dataclass(frozen=True)
class OptionalColumns(FilteredColumns):
    """Also the size of the synthetic catalogue, for the commands that need no data."""

    users: int = option("--users", "Without DATA: users of the synthetic catalogue.", 6000, min=1)
    items: int = option("--items", "Without DATA: items of the synthetic catalogue.", 1000, min=1)


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose last parameter is `columns: Columns = Columns()` one option for each of its fields."""
    own = inspect.signature(command, eval_str=True).parameters
    kind = type(own["columns"].default)
    hints = get_type_hints(kind)
    kept = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.items() if name != "columns"]
    extra = [commands.parameter(f.name, hints[f.name], f.default, f.metadata["option"]) for f in fields(kind)]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        columns = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        command(**given, columns=columns)

    return commands.with_parameters(call, [*kept, *extra])


def name_of(source: str) -> str:
    """The name to show: a file without its folders, a database without the password."""
    from offdiag.data import sql

    return sql.shown(source) if sql.is_source(source) else places.name_of(source)


def read(source: str, columns: Columns, *, text_ids: bool = False, remembered: Roles | None = None) -> Interactions:
    """A file or a database, or the name of a public data set that is already on this machine; notes are printed.

    Columns that are not named are the ``remembered`` ones, if they are there.
    """
    import offdiag as od
    from offdiag.data.remembered import NAMED, read_remembered

    if is_dataset(source):
        return od.datasets.load(source)
    how = options(columns)
    named = {role: column(name) for role in NAMED if (name := getattr(columns, role)) is not None}
    words: Any = named | vars(how) | vars(how.cleaning)
    del words["cleaning"], words["more"]
    words["text_ids"] = columns.text_ids or text_ids
    words["keep"] = "events" if columns.in_order else "pairs"
    inter = read_remembered(source, remembered, duplicates=columns.duplicates, **words)
    if not text_ids:  # otherwise they are printed already
        note_reading(inter.notes)
    return inter


def note_reading(notes: Iterable[str]) -> None:
    """What was left out or changed when the data was read."""
    for note in notes:
        console.note(console.as_options(note))


def is_dataset(source: str) -> bool:
    import offdiag as od

    return source in od.datasets.names() and not Path(source).exists()


def roles(columns: Columns, event: str | None = None) -> Roles:
    """The columns to read."""
    names = (columns.user, columns.item, columns.value, columns.time, event)
    return Roles(*(name if name is None else column(name) for name in names))  # type: ignore[arg-type]


def options(columns: Source) -> Options:
    """How to read the source."""
    given = {f.name: getattr(columns, f.name) for f in fields(Options) if hasattr(columns, f.name)}
    separator = given.pop("separator")
    return Options(columns.form, SEPARATORS.get(separator, separator), **given, cleaning=cleaning(columns))


def cleaning(columns: Source, otherwise: Cleaning = Cleaning()) -> Cleaning:  # noqa: B008 - frozen
    """What to do about rows that are not as they should be; options that are not given are as in `otherwise`."""
    given = {f.name: getattr(columns, f.name, None) for f in fields(Cleaning)}
    given["action"] = None if columns.action is None else column(columns.action)
    given["weights"] = None if columns.weights is None else parse_weights(columns.weights)
    return replace(
        otherwise, **{name: value for name, value in given.items() if value is not None and value is not False}
    )


def parse_weights(text: str) -> dict[str, float]:
    """`view=1,cart=3`: the weight of each action."""
    weights: dict[str, float] = {}
    for part in next(csv.reader([text], skipinitialspace=True), []):
        action, mark, weight = part.rpartition("=")
        try:
            number = float(weight)
        except ValueError:
            mark = ""
        if not mark or not action.strip():
            raise OffdiagError(
                f"--weights takes ACTION=NUMBER separated by commas, received {part!r}; e.g. view=1,cart=3"
            )
        if action.strip() in weights:
            raise OffdiagError(f"--weights takes each action once, received {action.strip()!r} twice; leave one out")
        weights[action.strip()] = number
    return weights


def column_text(columns: Mapping[str, Any]) -> str:
    """Which column plays which role, for the screen."""
    return ", ".join(f"{role} {name!r}" for role, name in columns.items())


def column(name: str) -> str | int:
    """A name, or a position from 0."""
    return int(name) if name.isascii() and name.isdigit() else name


def read_filtered(source: str, columns: FilteredColumns) -> Interactions:
    """What a model learns from: a threshold on the values, then minimum counts."""
    import offdiag as od

    inter = read(source, columns)
    check_threshold(source, columns)
    if columns.at_least is not None:
        inter = od.prepare.binarize(inter, at_least=columns.at_least)
    return od.prepare.min_counts(inter, users=max(columns.min_users, 1), items=max(columns.min_items, 1))


def check_threshold(source: str, columns: FilteredColumns) -> None:
    import offdiag as od

    if columns.at_least is not None and columns.value is None and source not in od.datasets.names():
        raise OffdiagError("--at-least compares values, but no column was named; add --value COLUMN")


def read_or_generate(
    source: str | None, columns: OptionalColumns, seed: int, work: console.Work
) -> tuple[Interactions, str]:
    """The table, or a synthetic catalogue with readable names, and where it comes from."""
    import offdiag as od

    if source is not None:
        work.begin(f"reading {name_of(source)}")
        return read_filtered(source, columns), name_of(source)
    work.begin("generating a catalogue")
    n_users, n_items = columns.users, columns.items
    if n_users < 20 or n_items < 20:
        raise OffdiagError(
            f"the synthetic catalogue needs 20 users and items or more, received {n_users} and {n_items}"
        )
    nnz = int(n_users * min(30, n_items / 8))  # about 30 items per user, fewer if there are few
    made = od.synthetic.catalogue(n_users, n_items, nnz, communities=max(2, min(12, n_items // 10)), seed=seed)
    return made.interactions, f"a synthetic catalogue (seed {seed})"


def parse_ids(texts: Iterable[str], model: Recommender) -> list[Any]:
    """Ids as typed, converted to whole numbers if the model's ids are; anything that is not a number stays text."""
    from offdiag.data.ids import of_type

    whole = model.item_ids_.dtype.kind in "iu"
    return [of_type(text, whole) for text in texts]


def read_ids(path: Path, model: Recommender) -> list[Any]:
    """A text file with one item id per line."""
    return parse_ids(read_lines(path), model)


def read_lines(path: Path) -> list[str]:
    """The ids of a text file, one per line, as text."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise OffdiagError(f"expected a text file with one id per line, received {str(path)!r}") from None
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise OffdiagError(f"expected one id per line, received no id in {str(path)!r}")
    return ids


def note_unknown(unknown: Sequence[Any], source: str = "") -> None:
    """Ids that the model does not know are reported, not silently dropped."""
    if unknown:
        shown = list(dict.fromkeys(map(str, unknown)))
        more = f" and {len(shown) - 5:,} more" if len(shown) > 5 else ""
        console.note(f"not known to the model, left out{source}: {', '.join(map(repr, shown[:5]))}{more}")
