"""Read any table of what is known about items as Features: categories, text, numbers and vectors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, wording
from offdiag.data import feature_cells, feature_roles, formats
from offdiag.data.columns import Column, Options
from offdiag.data.failures import polars_failures
from offdiag.data.feature_columns import Numbers, Tags, Vectors, Words
from offdiag.data.features import Block, Features, assemble, checked_weights
from offdiag.data.frames import folded
from offdiag.data.ids import number
from offdiag.data.read_catalogue import USUAL
from offdiag.data.whole_table import item_ids, read_whole
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

_LOG = logging.getLogger("offdiag")
KINDS = {"categories": "category", "text": "text", "numbers": "number", "vectors": "vector"}
SHOWN = 40  # characters of a cell in a note
Columns = Column | Sequence[Column] | None


def read_features(
    source: Any,
    item: Column | None = None,
    categories: Columns = None,
    text: Columns = None,
    numbers: Columns = None,
    vectors: Columns = None,
    *,
    weights: Mapping[str, float] | None = None,
    tag_separator: str | None = None,
    text_rank: int | None = None,
    seed: int = 0,
    like: Features | None = None,
    format: formats.Name | None = None,  # noqa: A002 - the word of od.read
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    query: str | None = None,
    table: str | None = None,
) -> Features:
    """Read what is known about items: their categories and tags, texts, numbers and embeddings.

    ``source`` is any table that ``od.read`` takes, and the options from ``format`` on are those of ``od.read``.
    Columns are named or given by position from 0. If none is named, they are found by their types, contents and
    usual names, and ``notes`` says which.

    - categories: one value or many in a cell, as a list or separated by ``|``, ``;`` or ``,``. The mark is found and
      noted; ``tag_separator`` names another, "" none. Rare tags count for more, as in tf-idf.
    - text: hashed tf-idf of its words, in lower case and without accents; words that most texts have are left out.
      With ``text_rank`` projected on that many main directions, which also finds texts alike that share few words.
    - numbers: a share of the nearest quantiles, so that close numbers are alike and the unit does not matter.
    - vectors: a column of lists of numbers, or columns of numbers that are one vector. Their mean is subtracted.

    ``weights`` gives the weight of a column, 1 by default: ``{"genre": 2.0}``. Several columns of numbers that are
    one vector are named after the first. ``like`` reads other items into the features of these, for
    ``model.add_items``.

    An item may have several rows: its tags and words are united, of its numbers the mean is taken. What is missing
    is 0; columns that are the same for all items are left out. Both are noted and logged (logger "offdiag").

    Example:
        >>> import offdiag as od
        >>> films = {"id": [7, 8, 9], "genre": ["horror|sf", "sf", None], "year": [1979, 1985, 1997]}
        >>> films["studio"] = ["A", "A", "A"]
        >>> features = od.read_features(films, item="id", categories=["genre", "studio"], numbers="year")
        >>> features.rows([8]).toarray().round(2).tolist()
        [[0.0, 0.71, 0.0, 0.71, 0.0]]
        >>> for note in features.notes:
        ...     print(note)
        genre: the mark between tags is '|'
        genre: 1 of 3 items has none
        studio: left out, since all items have 'A'
    """
    given = {"categories": categories, "text": text, "numbers": numbers, "vectors": vectors}
    named = {name: _listed(columns) for name, columns in given.items() if columns is not None}
    if text_rank is not None:
        checks.whole("text_rank", text_rank, 1)
    if tag_separator is not None and not isinstance(tag_separator, str):
        raise OffdiagError(f"tag_separator must be text such as '|', or '' for none, received {tag_separator!r}")
    if like is not None and (named or weights or not isinstance(like, Features)):
        raise OffdiagError("expected Features as like=, and then no columns or weights: they are those of the Features")
    wanted = [column for columns in named.values() for column in columns]
    options = Options(format, separator, header, False, encoding, query, table)
    with polars_failures("a table of plain columns", "other content", "convert the columns to numbers or text"):
        frame, where, notes = read_whole(source, options, (*wanted, *(() if item is None else (item,))))
        frame, column, ids, rows = _items(frame, item, where, notes)
        if like is None:
            reader = _Reader(frame, ids, rows, notes, tag_separator, text_rank, seed)
            features = reader.read(_roles(frame, column, named, where, notes), weights or {}, where)
        else:
            features = _Reader(frame, ids, rows, notes).read_like(like, where)
    for note in features.notes:
        _LOG.info("%s: %s", where, note)
    return features


def _listed(columns: Any) -> list[Column]:
    if isinstance(columns, str) or checks.is_whole(columns):
        return [columns]
    if isinstance(columns, Sequence) and all(isinstance(one, str) or checks.is_whole(one) for one in columns):
        return list(columns)
    raise OffdiagError(f"expected names of columns or their positions, received {columns!r}")


def _named(frame: pl.DataFrame, column: Column, role: str, where: str) -> str:
    if isinstance(column, str) and column in frame.columns:
        return column
    if checks.is_whole(column) and 0 <= int(column) < frame.width:
        return frame.columns[int(column)]
    shown = ", ".join(frame.columns[:20]) + (", …" if frame.width > 20 else "")
    near = wording.suggestion(str(column), frame.columns)
    raise OffdiagError(f"expected {role}={column!r} among the columns of {where}, received {shown}{near}")


def _items(
    frame: pl.DataFrame, item: Column | None, where: str, notes: list[str]
) -> tuple[pl.DataFrame, str, NDArray[Any], NDArray[np.int64]]:
    """The table without rows of no item, its column of ids, these ids ascending, and the item of each row."""
    import polars as pl

    if item is None:
        usual = {folded(name): name for name in reversed(frame.columns)}
        found = next((usual[name] for name in USUAL["item"] if name in usual), None)
        if found is None:
            raise OffdiagError(
                f"expected a column of item ids in {where}, received {', '.join(frame.columns[:20])}; name it with "
                "item=…"
            )
        if found != "item":
            notes.append(f"item ids found in the column {found!r}")
        column = found
    else:
        column = _named(frame, item, "item", where)
    ids = item_ids(frame[column], where)
    if gaps := ids.null_count():
        notes.append(f"{gaps:,} {'row' if gaps == 1 else 'rows'} without an item id left out")
        frame, ids = frame.filter(ids.is_not_null()), ids.drop_nulls()
    if not ids.len():
        raise OffdiagError(f"expected the features of at least one item, received none in {where}; is it complete?")
    distinct, codes = number(ids if ids.dtype == pl.String else ids.cast(pl.Int64))
    if repeated := frame.height - len(distinct):
        notes.append(
            f"{repeated:,} {'row repeats an item and was' if repeated == 1 else 'rows repeat an item and were'} merged"
        )
    return frame, column, distinct, codes.astype(np.int64)


def _roles(
    frame: pl.DataFrame, item: str, named: Mapping[str, list[Column]], where: str, notes: list[str]
) -> feature_roles.Roles:
    if not named:
        roles, unused = feature_roles.guess(frame, item)
        if not roles:
            raise OffdiagError(
                f"expected columns of features in {where}, received {', '.join(frame.columns[:20]) or 'none'}; name "
                "them with categories=[…], text=[…], numbers=[…] or vectors=[…]"
            )
        shown = ", ".join(f"{columns[0]} ({kind})" for kind, columns in roles)
        rest = f"; not used: {', '.join(unused[:20])}" if unused else ""
        notes.append(f"columns found: {shown}{rest}")
        return roles
    roles = []
    for argument, columns in named.items():
        found = [_named(frame, column, argument, where) for column in columns]
        kind = KINDS[argument]
        if kind == "vector" and found and not feature_cells.holds_vectors(frame[found[0]]):
            roles.append((kind, tuple(found)))
        else:
            roles += [(kind, (name,)) for name in found]
    names = [item, *(name for _, columns in roles for name in columns)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OffdiagError(f"expected each column once, received {twice!r} twice; name it for one kind only")
    return roles


class _Reader:
    """The columns of one table, one after another."""

    def __init__(
        self,
        frame: pl.DataFrame,
        ids: NDArray[Any],
        rows: NDArray[np.int64],
        notes: list[str],
        separator: str | None = None,
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        self.frame, self.ids, self.rows, self.notes = frame, ids, rows, notes
        self.n, self.separator, self.rank, self.seed = len(ids), separator, rank, seed

    def read(self, roles: feature_roles.Roles, weights: Mapping[str, float], where: str) -> Features:
        found = [(block, self._encode(block)) for block in (self._learn(*role) for role in roles) if block is not None]
        if not found:
            raise OffdiagError(
                f"expected features that tell items apart in {where}, received none ({'; '.join(self.notes)})"
            )
        blocks, parts = zip(*found, strict=True)
        given = checked_weights(weights, blocks)
        weighted = [Block(b.name, b.columns, b.coder, given.get(b.name, 1.0), b.separator) for b in blocks]
        return assemble(self.ids, parts, weighted, self.notes)

    def read_like(self, like: Features, where: str) -> Features:
        for block in like.blocks:
            for column in block.columns:
                _named(self.frame, column, block.kind, where)
            if isinstance(block.coder, Tags):
                tags = self._cells(block)["tag"].unique().sort()
                if unknown := tags.filter(~tags.is_in(block.coder.names())).to_list():
                    self.notes.append(f"{block.name}: tags that are not known left out: {wording.shorten(unknown)}")
        parts = [self._encode(block) for block in like.blocks]
        return assemble(self.ids, parts, like.blocks, self.notes)

    def _learn(self, kind: str, columns: tuple[str, ...]) -> Block | None:
        """How a column is turned into numbers; None, with a note, if it says nothing."""
        name, column = columns[0], self.frame[columns[0]]
        if kind == "category":
            mark = feature_cells.tag_separator(column) if self.separator is None else self.separator or None
            if mark is not None and self.separator is None:
                self.notes.append(f"{name}: the mark between tags is {mark!r}")
            elif self.separator is None and (one := feature_cells.undivided(column)):
                cell, possible = one[0][:SHOWN], one[1]
                self.notes.append(
                    f"{name}: cells such as {cell!r} are one tag each; if they are several, give "
                    f"tag_separator={possible!r}"
                )
            tags, shared = Tags.learn(feature_cells.tags(column, self.rows, mark), self.n)
            if not tags.width:
                return self._drop(name, f"since all items have {shared[0]!r}" if shared else "since no item has any")
            if shared:
                self.notes.append(f"{name}: {wording.shorten(shared)} left out, since all items have it")
            return Block(name, columns, tags, separator=mark)
        if kind == "text":
            words, common = Words.learn(feature_cells.words(column, self.rows), self.n, self.rank, self.seed)
            if not words.width:
                return self._drop(name, "since its texts do not differ" if common else "since it has no words")
            if common:
                self.notes.append(f"{name}: words that most texts have left out: {wording.shorten(common)}")
            return Block(name, columns, words)
        if kind == "number":
            values, bad = feature_cells.numbers(column, self.rows, self.n)
            if bad:
                self.notes.append(f"{name}: {bad:,} {'cell is' if bad == 1 else 'cells are'} no number")
            numbers = Numbers.learn(values)
            return Block(name, columns, numbers) if numbers.width > 1 else self._drop(name, "since it is constant")
        vectors = Vectors.learn(self._vectors(columns))
        if constant := vectors.length - vectors.width:
            self.notes.append(f"{name}: {constant:,} of {vectors.length:,} numbers are the same for all items")
        return Block(name, columns, vectors) if vectors.width else self._drop(name, "since its vectors are constant")

    def _drop(self, name: str, why: str) -> Block | None:
        self.notes.append(f"{name}: left out, {why}")
        return None

    def _vectors(self, columns: tuple[str, ...]) -> NDArray[np.float64]:
        return feature_cells.vectors([self.frame[name] for name in columns], self.rows, self.ids)

    def _encode(self, block: Block) -> sparse.csr_array:
        """The rows of a block, with a note about items without any."""
        part = block.coder.encode(self._cells(block), self.n)
        if missing := int((np.diff(part.indptr) == 0).sum()):
            have = "has" if missing == 1 else "have"
            self.notes.append(f"{block.name}: {missing:,} of {self.n:,} items {have} none")
        return part

    def _cells(self, block: Block) -> Any:
        column = self.frame[block.columns[0]]
        if block.kind == "category":
            return feature_cells.tags(column, self.rows, block.separator)
        if block.kind == "text":
            return feature_cells.words(column, self.rows)
        if block.kind == "number":
            return feature_cells.numbers(column, self.rows, self.n)[0]
        cells = self._vectors(block.columns)
        assert isinstance(block.coder, Vectors)
        if cells.shape[1] != block.coder.length:
            raise OffdiagError(
                f"expected vectors of {block.coder.length} numbers in {block.name!r}, as before, received "
                f"{cells.shape[1]}; embed all items with the same model"
            )
        return cells
