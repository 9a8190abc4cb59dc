"""How a column becomes numbers: tags, words, numbers and vectors, each learned from one table and applied to others.

A coder is made from the cells of a column (``learn``) and turns cells of the same column into rows of unit length
(``encode``), so that items that come later have the same features as those known first. Cells that nothing is known
of are empty rows. Rows of one item are merged: its tags and words are united, of its numbers the mean is taken.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.texts import Texts

if TYPE_CHECKING:
    import polars as pl

BUCKETS = 1 << 18  # of words: two of 10,000 words that matter rarely share one
COMMON = 0.5  # a word in more than this share of the texts says nothing
ENOUGH = 20  # texts from which that share is known
KNOTS = 8  # of numbers
WORD = r"[\p{L}\p{N}]+"

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


class Coder(Protocol):
    """A column of features."""

    kind: ClassVar[str]

    @property
    def width(self) -> int: ...

    def names(self) -> list[str]: ...

    def encode(self, cells: Any, n: int) -> sparse.csr_array: ...

    def arrays(self) -> Arrays: ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self: ...  # ValueError if they do not fit


@dataclass(frozen=True, eq=False)
class Tags:
    """A tag of an item counts for the more, the fewer items have it; cells are rows of (item, tag)."""

    kind: ClassVar[str] = "category"
    tags: Texts  # ascending
    idf: Floats

    @property
    def width(self) -> int:
        return len(self.idf)

    @classmethod
    def learn(cls, cells: pl.DataFrame, n: int) -> tuple[Tags, list[str]]:
        """The tags that not all items have, and those that are left out."""
        import polars as pl

        users = cells.unique().group_by("tag").agg(pl.len().alias("df")).sort("tag")
        shared = users.filter(pl.col("df") == n)["tag"].to_list() if n > 1 else []
        users = users.filter(~pl.col("tag").is_in(shared))
        return cls(Texts.of(users["tag"].to_list()), _rarity(users["df"].to_numpy(), n)), shared

    def names(self) -> list[str]:
        return self.tags.to_list()

    def encode(self, cells: pl.DataFrame, n: int) -> sparse.csr_array:
        import polars as pl

        known = pl.DataFrame({"tag": pl.Series(self.names(), dtype=pl.String)}).with_row_index("column")
        found = cells.unique().join(known, on="tag").sort("row", "column")
        columns = found["column"].to_numpy()
        return _unit(_matrix(self.idf[columns], found["row"].to_numpy(), columns, (n, self.width)))

    def arrays(self) -> Arrays:
        return {"offsets": self.tags.offsets, "utf8": self.tags.utf8, "idf": self.idf}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Tags:
        tags, idf = Texts(arrays["offsets"], arrays["utf8"]), _vector(arrays["idf"])
        tags.check(len(idf), "tags")
        return cls(tags, idf)


@dataclass(frozen=True, eq=False)
class Words:
    """Hashed tf-idf, with ``basis`` projected on its main directions; cells are rows of (item, word, n)."""

    kind: ClassVar[str] = "text"
    buckets: NDArray[np.int64]  # ascending
    idf: Floats
    words: Texts  # the most frequent of each bucket
    basis: Floats | None = None  # buckets × rank

    @property
    def width(self) -> int:
        return len(self.idf) if self.basis is None else self.basis.shape[1]

    @classmethod
    def learn(cls, cells: pl.DataFrame, n: int, rank: int | None, seed: int) -> tuple[Words, list[str]]:
        """The words that tell texts apart, and those that are left out because most texts have them."""
        import polars as pl

        found = _buckets(cells)
        texts = max(cells["row"].n_unique(), 1)
        by_word = found.group_by("bucket", "word").agg(pl.len().alias("n")).sort("n", "word", descending=[True, False])
        labels = by_word.unique("bucket", keep="first", maintain_order=True).select("bucket", "word")
        users = found.group_by("bucket").agg(pl.col("row").n_unique().alias("df")).join(labels, on="bucket")
        common = (pl.col("df") > COMMON * texts) if texts >= ENOUGH else (pl.col("df") == texts) & (texts > 1)
        left_out = users.filter(common).sort("word")["word"].to_list()
        users = users.filter(~common).sort("bucket")
        coder = cls(
            users["bucket"].cast(pl.Int64).to_numpy(), _rarity(users["df"].to_numpy(), texts),
            Texts.of(users["word"].to_list()),
        )  # fmt: skip
        return coder if rank is None else coder._projected(cells, n, rank, seed), left_out

    def names(self) -> list[str]:
        if self.basis is None:
            return self.words.to_list()
        return [f"direction {place + 1}" for place in range(self.width)]

    def encode(self, cells: pl.DataFrame, n: int) -> sparse.csr_array:
        sharp = self._tf_idf(cells, n)
        return sharp if self.basis is None else _unit(sparse.csr_array(sharp @ self.basis))

    def _tf_idf(self, cells: pl.DataFrame, n: int) -> sparse.csr_array:
        import polars as pl

        known = pl.DataFrame({"bucket": self.buckets}).with_row_index("column")
        sums = _buckets(cells).group_by("row", "bucket").agg(pl.col("n").sum()).join(known, on="bucket")
        sums = sums.sort("row", "column")
        columns = sums["column"].to_numpy()
        data = (1 + np.log(sums["n"].to_numpy())) * self.idf[columns]
        return _unit(_matrix(data, sums["row"].to_numpy(), columns, (n, len(self.idf))))

    def _projected(self, cells: pl.DataFrame, n: int, rank: int, seed: int) -> Words:
        """With the right singular vectors of the tf-idf, each with the sign that makes its largest entry positive."""
        from scipy.sparse.linalg import svds

        sharp = self._tf_idf(cells, n)
        rank = min(rank, min(sharp.shape) - 1)
        if rank < 1 or not sharp.nnz:
            return self  # nothing to project
        start = np.random.default_rng(seed).standard_normal(min(sharp.shape))
        _, sizes, right = svds(sharp, k=rank, v0=start)
        kept = np.argsort(-sizes, kind="stable")
        basis = right[kept[sizes[kept] > 1e-10 * sizes.max()]].T
        largest = np.abs(basis).argmax(axis=0)
        basis = basis * np.sign(basis[largest, np.arange(basis.shape[1])])
        return Words(self.buckets, self.idf, self.words, np.ascontiguousarray(basis))

    def arrays(self) -> Arrays:
        found: Arrays = {"buckets": self.buckets, "idf": self.idf}
        found |= {"offsets": self.words.offsets, "utf8": self.words.utf8}
        return found if self.basis is None else found | {"basis": self.basis}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Words:
        idf, basis = _vector(arrays["idf"]), arrays.get("basis")
        words, buckets = Texts(arrays["offsets"], arrays["utf8"]), arrays["buckets"]
        words.check(len(idf), "words")
        if buckets.shape != idf.shape or buckets.dtype != np.int64 or np.any(np.diff(buckets) <= 0):
            raise ValueError("the buckets of words do not fit")
        if basis is not None and (basis.ndim != 2 or len(basis) != len(idf) or basis.dtype != np.float64):
            raise ValueError("the directions of words do not fit")
        return cls(buckets, idf, words, basis)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A number between two knots is a share of each, so close numbers are alike; cells are numbers, nan where unknown.

    The knots are quantiles, so the unit and outliers do not matter; beyond the last knot all numbers are alike.
    """

    kind: ClassVar[str] = "number"
    knots: Floats  # ascending

    @property
    def width(self) -> int:
        return len(self.knots)

    @classmethod
    def learn(cls, cells: Floats) -> Numbers:
        known = cells[np.isfinite(cells)]
        distinct = np.unique(known)
        if len(distinct) > KNOTS:
            distinct = np.unique(np.quantile(known, np.linspace(0, 1, KNOTS), method="closest_observation"))
        return cls(distinct)

    def names(self) -> list[str]:
        return [f"{knot:.6g}" for knot in self.knots]

    def encode(self, cells: Floats, n: int) -> sparse.csr_array:
        rows = np.flatnonzero(np.isfinite(cells))
        values = np.clip(cells[rows], self.knots[0], self.knots[-1])
        upper = np.clip(np.searchsorted(self.knots, values), 1, self.width - 1)
        share = (values - self.knots[upper - 1]) / (self.knots[upper] - self.knots[upper - 1])
        data, columns = np.stack([1 - share, share], axis=1), np.stack([upper - 1, upper], axis=1)
        return _unit(_matrix(data.ravel(), np.repeat(rows, 2), columns.ravel(), (n, self.width)))

    def arrays(self) -> Arrays:
        return {"knots": self.knots}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Numbers:
        knots = _vector(arrays["knots"])
        if len(knots) < 2 or np.any(np.diff(knots) <= 0):
            raise ValueError("the knots of numbers do not ascend")
        return cls(knots)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Embeddings less their mean, which says nothing about an item; cells are items × numbers, nan where unknown."""

    kind: ClassVar[str] = "vector"
    mean: Floats
    places: NDArray[np.int64]  # of the numbers that are not the same for all items

    @property
    def width(self) -> int:
        return len(self.places)

    @property
    def length(self) -> int:
        return len(self.mean)

    @classmethod
    def learn(cls, cells: Floats) -> Vectors:
        known = cells[np.isfinite(cells).all(axis=1)]
        mean = known.mean(axis=0) if len(known) else np.zeros(cells.shape[1])
        varies = np.ptp(known, axis=0) > 0 if len(known) > 1 else np.zeros(cells.shape[1], dtype=bool)
        return cls(mean, np.flatnonzero(varies))

    def names(self) -> list[str]:
        return [str(place) for place in self.places.tolist()]

    def encode(self, cells: Floats, n: int) -> sparse.csr_array:
        known = np.isfinite(cells).all(axis=1, keepdims=True)
        centred = np.where(known, cells - self.mean, 0.0)[:, self.places]
        largest = np.abs(centred).max(axis=1, initial=0.0, keepdims=True)  # so that no square overflows
        return _unit(sparse.csr_array(centred / np.where(largest > 0, largest, 1.0)))

    def arrays(self) -> Arrays:
        return {"mean": self.mean, "places": self.places}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Vectors:
        mean, places = _vector(arrays["mean"]), arrays["places"]
        if places.dtype != np.int64 or places.ndim != 1 or np.any((places < 0) | (places >= len(mean))):
            raise ValueError("the numbers of vectors do not fit")
        return cls(mean, places)


CODERS: dict[str, type[Tags] | type[Words] | type[Numbers] | type[Vectors]] = {
    coder.kind: coder for coder in (Tags, Words, Numbers, Vectors)
}


def _buckets(cells: pl.DataFrame) -> pl.DataFrame:
    """The bucket of each word. CRC-32 is the same in every process and on every machine, unlike Python's hash."""
    import polars as pl

    words = cells["word"].unique(maintain_order=True).to_list()
    hashed = [zlib.crc32(word.encode()) % BUCKETS for word in words]
    table = pl.DataFrame({"word": pl.Series(words, dtype=pl.String), "bucket": pl.Series(hashed, dtype=pl.Int64)})
    return cells.join(table, on="word")


def _rarity(df: NDArray[Any], n: int) -> Floats:
    """Inverse document frequency, at least 1."""
    return np.asarray(1 + np.log((1 + n) / (1 + df.astype(np.float64))))


def _matrix(data: Floats, rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((data, (rows.astype(np.int64), columns.astype(np.int64))), shape=shape)


def _unit(matrix: sparse.csr_array) -> sparse.csr_array:
    """Rows of length 1; empty rows stay empty."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    sums = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    lengths = np.sqrt(np.where(sums > 0, sums, 1.0))
    matrix.data = matrix.data / np.repeat(lengths, np.diff(matrix.indptr))
    return matrix


def _vector(array: NDArray[Any]) -> Floats:
    if array.ndim != 1 or array.dtype != np.float64:
        raise ValueError("expected a list of float64 numbers")
    return array
