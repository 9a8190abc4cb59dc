"""Item vectors of low-rank models for nearest-neighbour indexes: the score of an item is an inner product."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data.ids import positions
from offdiag.errors import OffdiagError, UnknownItemsWarning
from offdiag.export.arrays import linear_weights

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender

_BATCH = 256  # points sent to Qdrant at once, rows of one SQL statement


@dataclass(frozen=True, eq=False)
class Vectors:
    """Two vectors per item: a history is the sum of its encoder rows, an item scores by its decoder row.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> found = od.export.vectors(od.LowRankDLAE(rank=8).fit(X))
        >>> found.decoder.shape, found.query(X.item_ids[:3].tolist()).shape
        ((40, 8), (8,))
    """

    item_ids: NDArray[Any]
    encoder: NDArray[np.float32]  # (n_items, rank)
    decoder: NDArray[np.float32]  # (n_items, rank)

    def query(self, history: list[Any]) -> NDArray[np.float32]:
        """The vector to search with: the inner product with an item's decoder row is its score.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.export.vectors(od.LowRankDLAE(rank=8).fit(X)).query([]).tolist()
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        """
        place = positions(list(history), self.item_ids)
        if (place < 0).any():
            unknown = [item for item, at in zip(history, place.tolist(), strict=True) if at < 0]
            warnings.warn(f"{len(unknown)} unknown items were ignored: {unknown[:5]}", UnknownItemsWarning, 2)
        total: NDArray[np.float32] = self.encoder[np.unique(place[place >= 0])].sum(axis=0)
        return total


def vectors(model: Recommender) -> Vectors:
    """The vectors of a low-rank model, as float32.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.export.vectors(od.Spectral(rank=8).fit(X)).encoder.shape
        (40, 8)
    """
    weights = linear_weights(model)
    U, V = weights.embedding("encoder"), weights.embedding("decoder")
    if U is None or V is None:
        raise OffdiagError(
            f"expected a low-rank model, which has a vector per item, received {type(model).__name__}; "
            "fit LowRankEDLAE, LowRankDLAE or Spectral"
        )
    return Vectors(np.asarray(model.item_ids_), np.array(U, dtype=np.float32), np.array(V, dtype=np.float32))


def faiss_index(model: Recommender) -> Any:
    """An exact FAISS index of the decoder vectors; positions in it are those of ``model.item_ids_``.

    Needs the package faiss-cpu (``pip install 'offdiag[export]'``).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.LowRankDLAE(rank=8).fit(X)
        >>> scores, places = od.export.faiss_index(model).search(od.export.vectors(model).encoder[:1], 5)
        >>> places.shape
        (1, 5)
    """
    try:
        import faiss
    except ImportError:
        raise OffdiagError(
            "faiss_index needs faiss-cpu, which is not installed; pip install 'offdiag[export]'"
        ) from None

    found = vectors(model)
    index = faiss.IndexFlatIP(found.decoder.shape[1])
    index.add(found.decoder)
    return index


def fill_qdrant(model: Recommender, client: Any, collection: str) -> int:
    """Create a Qdrant collection of the decoder vectors, with the item ids as payload, and return its size.

    ``client`` is a ``qdrant_client.QdrantClient``. An existing collection of that name is an error.

    Example:
        >>> import offdiag as od
        >>> from qdrant_client import QdrantClient
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.export.fill_qdrant(od.LowRankDLAE(rank=8).fit(X), QdrantClient(":memory:"), "items")
        40
    """
    try:
        from qdrant_client import models
    except ImportError:
        raise OffdiagError(
            "fill_qdrant needs qdrant-client, which is not installed; pip install 'offdiag[export]'"
        ) from None

    found = vectors(model)
    if client.collection_exists(collection):
        raise OffdiagError(f"expected a new collection, received {collection!r}, which exists; choose another name")
    size = found.decoder.shape[1]
    client.create_collection(collection, models.VectorParams(size=size, distance=models.Distance.DOT))
    for low in range(0, len(found.item_ids), _BATCH):
        rows = range(low, min(low + _BATCH, len(found.item_ids)))
        points = [
            models.PointStruct(id=row, vector=found.decoder[row].tolist(), payload={"item": found.item_ids[row].item()})
            for row in rows
        ]
        client.upsert(collection, points)
    return len(found.item_ids)


def pgvector_sql(model: Recommender, table: str = "items") -> Iterator[str]:
    """SQL statements that create a table of items and decoder vectors for PostgreSQL with pgvector.

    Rank with ``select item from items order by vector <#> '[…]' limit 10``, where ``[…]`` is ``Vectors.query``:
    ``<#>`` is the negative inner product.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, names=False, seed=0)
        >>> next(od.export.pgvector_sql(od.LowRankDLAE(rank=8).fit(X)))
        'create table "items" (item bigint primary key, vector vector(8));'
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", table):
        raise OffdiagError(f"expected a plain table name such as items, received {table!r}; use letters and digits")
    found = vectors(model)
    kind = "text" if found.item_ids.dtype.kind == "U" else "bigint"
    return _statements(found, table, kind)


def _statements(found: Vectors, table: str, kind: str) -> Iterator[str]:
    yield f'create table "{table}" (item {kind} primary key, vector vector({found.decoder.shape[1]}));'
    for low in range(0, len(found.item_ids), _BATCH):
        rows = range(low, min(low + _BATCH, len(found.item_ids)))
        values = ", ".join(f"({_literal(found.item_ids[row].item())}, '{_vector(found.decoder[row])}')" for row in rows)
        yield f'insert into "{table}" (item, vector) values {values};'


def _literal(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    if "\\" in value:  # the meaning of a backslash depends on a setting of the server
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + value.replace("'", "''") + "'"


def _vector(row: NDArray[np.float32]) -> str:
    return "[" + ",".join(repr(float(x)) for x in row) + "]"
