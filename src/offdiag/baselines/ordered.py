"""What the baselines that know order learn from: the events of each user, and the pairs that they make up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences, sequences_of
from offdiag.errors import OffdiagError
from offdiag.models.source import Source, data_of, read_data


def read_ordered(X: Any, reading: Mapping[str, Any], name: str) -> tuple[Sequences, sparse.csr_array, Source]:
    """The events in order, the same as 0/1 pairs, and what else a model keeps of its data; values are not used."""
    X = data_of(X, reading, keep="events")
    sequences = sequences_of(X) if isinstance(X, Interactions) else None
    if sequences is None:
        received = "Interactions without times" if isinstance(X, Interactions) else type(X).__name__
        raise OffdiagError(
            f"{name} learns from the order of events, but received {received}; read a table with "
            "od.read(…, time=<column>), or keep='events' if its rows are in order"
        )
    ones = sparse.csr_array((np.ones(X.matrix.nnz, np.float32), X.matrix.indices, X.matrix.indptr), shape=X.shape)
    matrix, source = read_data(replace(X, matrix=ones))
    if not (sequences.lengths > 1).any():
        raise OffdiagError("expected a user with two events or more, received none; nothing follows anything here")
    return sequences, matrix, source
