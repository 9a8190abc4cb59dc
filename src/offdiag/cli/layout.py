"""Text in the width of a terminal: words stay whole, continued lines hang below their column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import cell_len

GAP = "  "  # between columns
NO_BREAK = "\u00a0"
LONGEST = 40  # columns of words that are kept together


def together(words: str) -> str:
    """Words that stay on one line if they are few."""
    return words.replace(" ", NO_BREAK) if cell_len(words) <= LONGEST else words


def fill(text: str, width: int, hang: int = 0) -> list[str]:
    """Lines of at most ``width`` columns, those after the first indented by ``hang``.

    Spaces at the beginning of the text stay. A word that is longer than a line stays whole, on a line of its own, so
    that it can be copied.
    """
    if cell_len(text) <= width:
        return [text.replace(NO_BREAK, " ")]
    first, *rest = text.lstrip().split(" ")
    lines, line = [], " " * (len(text) - len(text.lstrip())) + first
    for word in rest:
        if word and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line.rstrip())
            line = " " * hang + word
        else:
            line += f" {word}"
    return [line.replace(NO_BREAK, " ") for line in (*lines, line.rstrip())]


def pairs(
    rows: Iterable[tuple[str, str]], width: int, indent: int = 0, least: int = 0, most: int | None = None
) -> list[str]:
    """Names and values, one pair per line, the values below each other.

    The names take at least ``least`` columns. A name longer than ``most`` has a line of its own, so that it does not
    push all values to the right.
    """
    rows = list(rows)
    room = max([least, *(n for name, _ in rows if (n := cell_len(name)) <= (n if most is None else most))])
    hang = indent + room + len(GAP)
    lines = []
    for name, value in rows:
        if cell_len(name) > room:
            lines.append(" " * indent + name)
            lines += fill(" " * hang + value, width, hang)
        else:
            lines += fill(" " * indent + _padded(name, room) + GAP + value, width, hang)
    return [line.rstrip() for line in lines]


def table(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int, rule: str = "─"
) -> tuple[list[str], list[str]]:
    """The lines of the header, and those below it. Too wide even with wrapped cells, each row is a block of pairs."""
    widths = _widths([names, *rows], width)
    if widths is None:
        blocks = [pairs(zip(names, row, strict=True), width) for row in rows]
        return [], [line for block in blocks for line in [*block, ""]][:-1]
    head = _row(names, widths, right)
    body = [line for row in rows for line in _row(row, widths, right)]
    return head, [rule * (sum(widths) + len(GAP) * (len(widths) - 1)), *body]


def fits(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table has room without a wrapped cell."""
    return sum(max(map(cell_len, column)) + len(GAP) for column in zip(names, *rows, strict=True)) - len(GAP) <= width


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Widths of the columns: the widest give way, as long as their words fit; None if that is not enough."""
    columns = list(zip(*rows, strict=True))
    wanted = [max(map(cell_len, column)) for column in columns]
    least = [max((cell_len(word) for cell in column for word in cell.split(" ")), default=0) for column in columns]
    room = width - len(GAP) * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(wanted) > room:
        at = max((n for n in range(len(columns)) if wanted[n] > least[n]), key=lambda n: wanted[n])
        wanted[at] -= 1
    return wanted


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    wrapped = [fill(cell, room) for cell, room in zip(cells, widths, strict=True)]
    lines = zip_longest(*wrapped, fillvalue="")
    kinds = list(zip(widths, right, strict=True))
    return [
        GAP.join(_padded(part, room, to_right) for part, (room, to_right) in zip(line, kinds, strict=True)).rstrip()
        for line in lines
    ]


def _padded(text: str, width: int, to_right: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return space + text if to_right else text + space
