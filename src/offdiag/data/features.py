"""What is known about items besides who chose them: a sparse row of numbers for each, from tags, text and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, notebook, tables, wording
from offdiag.data.coverage import Coverage
from offdiag.data.feature_columns import CODERS, Coder
from offdiag.data.ids import places_of, text_array
from offdiag.data.texts import Texts
from offdiag.errors import OffdiagError


@dataclass(frozen=True, eq=False)
class Block:
    """The features that come from one column, or from several that are one vector."""

    name: str
    columns: tuple[str, ...]  # of the table
    coder: Coder
    weight: float = 1.0
    separator: str | None = None  # of the tags in a cell

    @property
    def kind(self) -> str:
        """category, text, number or vector."""
        return self.coder.kind


@dataclass(frozen=True, eq=False)
class Features(tables.Tabular):
    """Features by item id: a sparse row for each, of length 1 where all of its columns are known.

    ``od.read_features`` makes one from a table; ``fit(X, item_features=…)`` learns from it. Each column is a block
    of features. The rows of a block have length 1, times the weight of the block, so that columns are comparable
    whatever their kind; the part of an item about which nothing is known is 0.

    ``notes`` says what was guessed, left out or missing. A Features also knows how its columns were turned into
    numbers, so that ``od.read_features(source, like=…)`` does the same with other items.

    Example:
        >>> import offdiag as od
        >>> films = {"id": [7, 8, 9], "genre": ["horror|sf", "sf", "drama"], "year": [1979, 1985, 1997]}
        >>> features = od.read_features(films, item="id", categories=["genre"], numbers=["year"])
        >>> features
        Features(3 items: genre (3 features), year (3 features))
        >>> features.names[:3]
        ['genre=drama', 'genre=horror', 'genre=sf']
    """

    items: NDArray[Any]  # ids, ascending: whole numbers or text
    matrix: sparse.csr_array  # items × features, float64
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def names(self) -> list[str]:
        """What each feature is: the name of its column and its value there.

        Example:
            >>> import offdiag as od
            >>> od.read_features({"item": ["a", "b"], "brand": ["Nokia", "Sony"]}, categories=["brand"]).names
            ['brand=Nokia', 'brand=Sony']
        """
        return [f"{block.name}={name}" for block in self.blocks for name in block.coder.names()]

    @property
    def kinds(self) -> NDArray[np.int64]:
        """The place of each feature's block among the blocks."""
        return np.repeat(np.arange(len(self.blocks)), [block.coder.width for block in self.blocks])

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each block by name."""
        return {block.name: block.weight for block in self.blocks}

    def with_weights(self, weights: Mapping[str, float]) -> Features:
        """The same with other weights for the blocks named; 0 leaves a block out.

        Example:
            >>> import offdiag as od
            >>> shop = {"item": ["a", "b"], "brand": ["Nokia", "Sony"], "colour": ["red", "blue"]}
            >>> features = od.read_features(shop, categories=["brand", "colour"])
            >>> features.with_weights({"brand": 2.0}).weights
            {'brand': 2.0, 'colour': 1.0}
        """
        new = checked_weights(weights, self.blocks)
        blocks = tuple(replace(block, weight=new.get(block.name, block.weight)) for block in self.blocks)
        old, wanted = (_shares([block.weight for block in some]) for some in (self.blocks, blocks))
        if any(a == 0 < b for a, b in zip(old, wanted, strict=True)):
            raise OffdiagError("a block of weight 0 cannot be weighted again; read the features again")
        ratio = [b / a if a else 0.0 for a, b in zip(old, wanted, strict=True)]
        matrix = self.matrix.copy()
        matrix.data *= np.repeat(ratio, [block.coder.width for block in blocks])[matrix.indices]
        matrix.eliminate_zeros()
        return replace(self, matrix=matrix, blocks=blocks)

    def rows(self, item_ids: Sequence[Any] | NDArray[Any]) -> sparse.csr_array:
        """The rows of these items in this order, empty where an item has none; 7 and "7" are the same item.

        Example:
            >>> import offdiag as od
            >>> features = od.read_features({"item": [7, 8], "brand": ["Nokia", "Sony"]}, categories=["brand"])
            >>> features.rows(["8", 9, 7]).toarray().tolist()
            [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
        """
        places = places_of(item_ids, self.items)
        found = places >= 0
        lengths = np.where(found, np.diff(self.matrix.indptr)[places] if len(self) else 0, 0)
        picked = self.matrix[places[found]] if found.any() else self.matrix[:0]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return sparse.csr_array((picked.data, picked.indices, indptr), shape=(len(places), self.matrix.shape[1]))

    def select(self, items: Sequence[Any] | NDArray[Any]) -> Features:
        """The features of these items; those that are not known are left out.

        Example:
            >>> import offdiag as od
            >>> features = od.read_features({"item": [7, 8], "brand": ["Nokia", "Sony"]}, categories=["brand"])
            >>> features.select([8, 9])
            Features(1 item: brand (2 features))
        """
        places = np.unique(places_of(items, self.items))
        places = places[places >= 0]
        return replace(self, items=self.items[places], matrix=sparse.csr_array(self.matrix[places]))

    def coverage(self, item_ids: NDArray[Any]) -> Coverage:
        """How the features and the items of a model belong together.

        Example:
            >>> import offdiag as od
            >>> features = od.read_features({"item": [7, 8], "brand": ["Nokia", "Sony"]}, categories=["brand"])
            >>> features.coverage(np.array([8, 9])).notes
            ('1 of 2 items has no row in the features: 9', '1 row is of an item that the model does not know')
        """
        places = places_of(item_ids, self.items)
        return Coverage(len(item_ids), item_ids[places < 0].tolist(), len(self) - int((places >= 0).sum()), "features")

    @property
    def nbytes(self) -> int:
        """The size of its rows."""
        return int(self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything but ``about`` as plain arrays, for a file; notes are left out.

        Example:
            >>> import offdiag as od
            >>> features = od.read_features({"item": [7, 8], "brand": ["Nokia", "Sony"]}, categories=["brand"])
            >>> sorted(features.arrays())
            ['0.idf', '0.offsets', '0.utf8', 'data', 'indices', 'indptr', 'items']
        """
        ids = self.items
        if ids.dtype.kind == "U":
            texts = Texts.of(ids.tolist())
            found: dict[str, NDArray[Any]] = {"items.offsets": texts.offsets, "items.utf8": texts.utf8}
        else:
            found = {"items": ids.astype(np.int64)}
        matrix = self.matrix
        found |= {"data": matrix.data, "indices": matrix.indices.astype(np.int32)}
        found |= {"indptr": matrix.indptr.astype(np.int64)}
        for place, block in enumerate(self.blocks):
            found |= {f"{place}.{name}": array for name, array in block.coder.arrays().items()}
        return found

    def about(self) -> dict[str, Any]:
        """What the arrays are, in JSON types.

        Example:
            >>> import offdiag as od
            >>> od.read_features({"item": [7, 8], "brand": ["Nokia", "Sony"]}, categories=["brand"]).about()
            {'blocks': [{'name': 'brand', 'kind': 'category', 'columns': ['brand'], 'weight': 1.0, 'separator': None}]}
        """
        return {
            "blocks": [
                {"name": block.name, "kind": block.kind, "columns": list(block.columns), "weight": block.weight,
                 "separator": block.separator}
                for block in self.blocks
            ]
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> Features:
        """From ``arrays()`` and ``about()``, checked, since a file may hold anything; ValueError if they do not fit.

        Example:
            >>> import offdiag as od
            >>> features = od.read_features({"item": [7, 8], "brand": ["Nokia", "Sony"]}, categories=["brand"])
            >>> od.Features.from_arrays(features.arrays(), features.about())
            Features(2 items: brand (2 features))
        """
        blocks = []
        for place, entry in enumerate(about["blocks"]):
            own = {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{place}.")}
            coder = CODERS[entry["kind"]].from_arrays(own)
            separator = None if entry["separator"] is None else str(entry["separator"])
            columns = tuple(map(str, entry["columns"]))
            blocks.append(Block(str(entry["name"]), columns, coder, float(entry["weight"]), separator))
        data, indices, indptr = arrays["data"], arrays["indices"], arrays["indptr"]
        n = len(indptr) - 1
        matrix = sparse.csr_array((data, indices, indptr), shape=(n, sum(block.coder.width for block in blocks)))
        matrix.check_format(full_check=True)
        if data.dtype != np.float64 or not np.isfinite(data).all():
            raise ValueError("the features are not finite numbers")
        if "items" in arrays:
            items = np.array(arrays["items"])
        else:
            texts = Texts(arrays["items.offsets"], arrays["items.utf8"])
            texts.check(n, "the items of features")
            items = text_array(texts.to_list())
        if items.shape != (n,) or items.dtype.kind not in "iU" or np.any(items[1:] <= items[:-1]):
            raise ValueError("the items of the features are not in ascending order, one per row")
        return cls(items, matrix, tuple(blocks))

    def _columns(self, form: str) -> Mapping[str, Any]:
        rows = np.repeat(np.arange(len(self)), np.diff(self.matrix.indptr))
        names = np.array(self.names, dtype=object)
        return {"item": self.items[rows], "feature": names[self.matrix.indices], "value": self.matrix.data}

    def __repr__(self) -> str:
        shown = ", ".join(f"{block.name} ({block.coder.width:,} features)" for block in self.blocks)
        return f"Features({len(self):,} item{'s' * (len(self) != 1)}: {shown})"

    def _repr_html_(self) -> str:
        facts = {f"{block.name} ({block.kind})": f"{block.coder.width:,} features" for block in self.blocks}
        facts |= {f"note {number}": note for number, note in enumerate(self.notes, 1)}
        first = self.select(self.items[: notebook.ROWS])
        title = f"Features of {len(self):,} items"
        return notebook.card(title, facts, first.to_polars(), n_rows=int(self.matrix.nnz))


def assemble(
    items: NDArray[Any], parts: Sequence[sparse.csr_array], blocks: Sequence[Block], notes: Sequence[str] = ()
) -> Features:
    """Features from ascending ids and the rows of each block, of length 1 or 0."""
    weights = _shares([block.weight for block in blocks])
    scaled = [part * weight for part, weight in zip(parts, weights, strict=True)]
    matrix = sparse.csr_array(sparse.hstack(scaled, format="csr", dtype=np.float64))
    matrix.eliminate_zeros()
    return Features(items, matrix, tuple(blocks), tuple(notes))


def checked_weights(weights: Mapping[str, float], blocks: Sequence[Block]) -> dict[str, float]:
    """Weights by the name of a block; an unknown name is an error, and so is no weight above 0."""
    names = [block.name for block in blocks]
    if not isinstance(weights, Mapping):
        raise OffdiagError(f"expected weights by column, such as {{{names[0]!r}: 2.0}}, received {weights!r}")
    if unknown := [name for name in weights if name not in names]:
        near = wording.suggestion(str(unknown[0]), names)
        raise OffdiagError(f"expected weights of {', '.join(names)}, received {unknown[0]!r}{near}")
    found = {name: checks.number(f"the weight of {name}", weight, 0) for name, weight in weights.items()}
    if not any(found.get(block.name, block.weight) > 0 for block in blocks):
        raise OffdiagError("expected a weight above 0 for one column at least, received none")
    return found


def check_features(features: Any, item_ids: NDArray[Any]) -> Coverage:
    """Reject features that cannot be of these items, and say what does not belong together."""
    if not isinstance(features, Features):
        raise OffdiagError(
            f"expected features of items, received {type(features).__name__}; make them with od.read_features(source)"
        )
    coverage = features.coverage(item_ids)
    if not coverage.n_covered:
        raise OffdiagError(
            f"expected features of the items learned from, such as {wording.shorten(item_ids[:3].tolist())}, received "
            f"none of them but {wording.shorten(features.items[:3].tolist())}; name another column with item=…"
        )
    return coverage


def same_columns(one: Features, other: Features) -> bool:
    """Whether two Features mean the same by each column: read from one table, or one like the other."""
    if one.about() != other.about():
        return False
    for mine, theirs in zip(one.blocks, other.blocks, strict=True):
        a, b = mine.coder.arrays(), theirs.coder.arrays()
        if mine.coder is not theirs.coder and not all(np.array_equal(a[name], b[name]) for name in a.keys() | b.keys()):
            return False
    return True


def united(one: Features, other: Features) -> Features:
    """The rows of both, those of the second where both have an item; of the same columns."""
    rest = one.select(one.items[places_of(one.items, other.items) < 0]) if len(other) else one
    theirs = other.items.astype(one.items.dtype) if one.items.dtype.kind == "i" else other.items.astype(np.str_)
    items = np.concatenate([rest.items, theirs])
    order = np.argsort(items)
    matrix = sparse.csr_array(sparse.vstack([rest.matrix, other.matrix], format="csr")[order])
    return replace(one, items=items[order], matrix=matrix)


def _shares(weights: Sequence[float]) -> NDArray[np.float64]:
    """Weights such that a row of which every block is known has length 1."""
    total = float(np.sqrt(sum(weight * weight for weight in weights)))
    return np.asarray(weights, dtype=np.float64) / (total or 1.0)
