"""Shared by all commands: results on stdout, messages on stderr, and progress."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import typer

from offdiag import wording
from offdiag.cli import layout
from offdiag.data import sql
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from rich.progress import Progress

    from offdiag import Interactions

WIDE = 100_000  # columns of a pipe: a program reads it, so nothing is truncated or wrapped
BAR = 30  # characters of the longest bar
PREFIX = "offdiag: "

_hidden: dict[str, str] = {}  # connection strings of this run, and the text shown instead


def hide(words: Sequence[str]) -> None:
    """From now on, show connection strings from the command line without user name and password."""
    typed = [found[0] for word in words if (found := re.search(r"[A-Za-z][A-Za-z0-9+.-]*://.*", word, re.DOTALL))]
    _hidden.clear()
    _hidden.update({url: sql.shown(url) for url in typed if sql.shown(url) != url})


def safe(text: str) -> str:
    """The text without passwords from the command line."""
    for url, shown in _hidden.items():
        text = text.replace(url, shown)
    return text


_FLAGS = {
    "text_ids=True": "--text-ids",
    "normalise_users=True": "--normalise-users",
    "keep='events'": "--in-order",
    ", or write positions=… if these are positions": "",
    "read other files with od.read": "other data is named by its path",
}
_OPTIONS = (
    "user", "item", "value", "time", "event", "format", "separator", "encoding", "header", "table", "missing",
    "negative", "decimal", "date_format", "where", "action", "weights",
    "history_decay",
)  # fmt: skip


def as_options(text: str) -> str:
    """The library gives hints in Python, such as user='customer'; here that is --user 'customer'."""
    for flag, option in _FLAGS.items():
        text = text.replace(flag, option)
    text = re.sub(
        r"call datasets\.download\('([\w-]+)'\) or give folder=<where its files are>",
        r"run offdiag datasets --download \1, or give the path of its files",
        text,
    )
    name = rf"(?<![\w.(?&/'-])({'|'.join(_OPTIONS)})="
    text = re.sub(name + r"(?=['\d…<])", lambda found: f"--{found[1].replace('_', '-')} ", text)
    return re.sub(name + r"(?=\W|$)", lambda found: f"--{found[1].replace('_', '-')}", text)


def message(text: str) -> None:
    """A message on stderr: one line, wrapped only on a terminal."""
    line = PREFIX + printable(" ".join(text.split()))
    try:
        print("\n".join(layout.fill(line, width_of(sys.stderr), len(PREFIX))), file=sys.stderr, flush=True)
    except OSError:  # a full disk, a closed pipe: what cannot be read must not turn a result into a failure
        with suppress(OSError, ValueError):  # Python flushes stderr once more at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def note(text: str) -> None:
    message(f"note: {text}")


def printable(value: Any) -> str:
    """An id that is safe to print: control characters, which could affect the terminal, are escaped."""
    text = safe(str(value))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def columns(otherwise: int) -> int:
    """Columns that the environment asks for."""
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else otherwise


def width_of(stream: TextIO) -> int:
    """Columns of a terminal; a pipe has no end."""
    if not stream.isatty():
        return WIDE
    with suppress(OSError):
        return columns(os.get_terminal_size(stream.fileno()).columns)
    return columns(80)


def say(text: str = "", style: str | None = None, hang: int = 0) -> None:
    """A line of the result; on a terminal it is wrapped, and continued lines are indented by ``hang``."""
    for part in text.split("\n"):
        _show_lines(layout.fill(part, width_of(sys.stdout), hang), style)


def styled(text: str, style: str | None) -> str:
    """The text, on a terminal with colours in a style of ``typer.style``: bold or dim."""
    plain_terminal = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    if style is None or plain_terminal or not sys.stdout.isatty():
        return text
    return typer.style(text, **{style: True})


def _show_lines(lines: Sequence[str], style: str | None = None) -> None:
    for line in lines:
        print(styled(line, style))


def show_json(value: Any) -> None:
    """The whole result as one JSON document."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=not _is_unicode(), allow_nan=False))


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def plain(value: Any) -> Any:
    """Like ``wording.plain``, without passwords from the command line."""
    return wording.plain(value, safe)


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    narrow: tuple[Sequence[str], Iterable[Sequence[Any]]] = ((), ()),
) -> None:
    """Print a table, or where it has no room the one given as ``narrow``. ">name" is a column aligned to the right."""
    width = width_of(sys.stdout)
    names, cells = _cells(columns, rows)
    if narrow[0] and not layout.fits(names, cells, width):
        columns, (names, cells) = narrow[0], _cells(*narrow)
    right = [name.startswith(">") for name in columns]
    head, body = layout.table(names, cells, right, width, "─" if _is_unicode() else "-")
    _show_lines(head, "bold")
    _show_lines(body)


def _cells(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[list[str], list[list[str]]]:
    return [name.removeprefix(">") for name in columns], [[_cell(cell) for cell in row] for row in rows]


def _cell(value: Any) -> str:
    """The text of a value; the parts of a list are separated by commas and not broken."""
    if isinstance(value, list):
        return ", ".join(layout.together(printable(part)) for part in value)
    return printable(value)


def show_pairs(pairs: Mapping[str, Any]) -> None:
    """Names and values, one pair per line."""
    rows = [(name, _cell(value)) for name, value in pairs.items()]
    _show_lines(layout.pairs(rows, width_of(sys.stdout)))


def show_bars(
    name: str,
    total: float,
    parts: Sequence[tuple[Any, float]],
    *,
    head: tuple[str, str] = ("because of", ">adds"),
    digits: int = 4,
    more: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Signed contributions as bars, and their sum; ``more``: extra columns."""
    more = more or {}
    block = "█" if _is_unicode() else "#"
    most = max((abs(part) for _, part in parts), default=0.0) or 1.0
    rows = []
    for at, (item, part) in enumerate(parts):
        bar = (block if part >= 0 else "-") * max(round(BAR * abs(part) / most), int(part != 0))
        rows.append([item, f"{part:+.{digits}f}", bar, *(cells[at] for cells in more.values())])
    show_table([*head, "", *more], [*rows, [name, f"{total:+.{digits}f}", "", *([""] * len(more))]])


def show_source(source: str, train: Interactions, n_test: int) -> None:
    """What a comparison learns from."""
    say(f"Data: {source}")
    say(
        f"{train.n_users:,} users to learn from, {train.n_items:,} items, {train.nnz:,} interactions; "
        f"measured on {n_test:,} new users"
    )


def show_written(files: Sequence[str]) -> None:
    for name in files:
        say(f"written: {printable(name)}", hang=2)


class Work:
    """The progress line: called by the library with (stage, fraction done).

    Text after " · " in a stage is shown but does not start a new stage: the bar and the time left continue.
    """

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: Any = None
        self._stage: str | None = None
        self._prefix = ""

    def __call__(self, stage: str, fraction: float) -> None:
        label = f"{self._prefix}: {stage}" if self._prefix else stage
        name = stage.partition(" · ")[0]
        if name != self._stage:
            self._start(label, name, 1.0)
        self._bars.update(self._task, completed=fraction, description=label)

    def begin(self, what: str) -> None:
        """Start work without a known fraction done."""
        self._start(what, None, None)
        self._prefix = what

    def _start(self, label: str, stage: str | None, total: float | None) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task, self._stage = self._bars.add_task(label, total=total), stage


@contextmanager
def working() -> Iterator[Work]:
    """A progress line on stderr with the time left; it disappears at the end and is silent in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, markup=False, highlight=False)
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield Work(bars)


def number_or_auto(name: str, text: str) -> float | str:
    """The value of an option that takes a number or the word auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise OffdiagError(f"--{name} takes a number or auto, received {text!r}") from None
