"""What models that know order learn from: the events of each user, and the pairs that they make up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences
from offdiag.errors import OffdiagError
from offdiag.living.order import ordered_events
from offdiag.models.source import Source, data_of, read_data


def read_ordered(
    X: Any, reading: Mapping[str, Any], name: str, *, timed: bool = False
) -> tuple[Sequences, sparse.csr_array, Source]:
    """The events in order, the same as 0/1 pairs, and what else a model keeps of its data; values are not used."""
    X = data_of(X, reading, keep="events")
    sequences = ordered_events(X, name, timed=timed)
    if not (sequences.lengths > 1).any():
        raise OffdiagError("expected a user with two events or more, received none; nothing follows anything here")
    return sequences, *read_data(as_pairs(X))


def as_pairs(inter: Interactions) -> Interactions:
    """The same pairs, each with the value 1."""
    if (inter.matrix.data == 1).all():
        return inter
    ones = np.ones(inter.nnz, dtype=np.float32)
    matrix = sparse.csr_array((ones, inter.matrix.indices, inter.matrix.indptr), shape=inter.shape)
    return replace(inter, matrix=matrix)
