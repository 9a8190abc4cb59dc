"""How the rows of a table, such as a catalogue, and the items of a model belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offdiag import wording


@dataclass(frozen=True)
class Coverage:
    """Items of a model without a row, and rows without an item of the model."""

    n_items: int
    without_row: list[Any]
    rows_without_item: int
    table: str = "catalogue"

    @property
    def n_covered(self) -> int:
        return self.n_items - len(self.without_row)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: nothing where all belong together."""
        notes = []
        if self.without_row:
            listed = wording.shorten(self.without_row)
            have = "has" if len(self.without_row) == 1 else "have"
            notes.append(
                f"{len(self.without_row):,} of {self.n_items:,} items {have} no row in the {self.table}: {listed}"
            )
        if n := self.rows_without_item:
            rows = "row is of an item" if n == 1 else "rows are of items"
            notes.append(f"{n:,} {rows} that the model does not know")
        return tuple(notes)
