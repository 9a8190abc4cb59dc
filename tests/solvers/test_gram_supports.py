"""Which columns of a sparse model a change of the Gram may affect."""

import numpy as np

from offdiag.gramian.sparse import sparse_gram
from offdiag.solvers import gram_supports
from tests.fixtures.sparse_catalogue import neighbours_by_hand


def test_every_column_that_changes_is_touched():
    rng = np.random.default_rng(5)
    for seed in range(30):
        X = (rng.random((40, 30)) < 0.12).astype(np.float32)
        k, user = int(rng.integers(1, 5)), int(rng.integers(40))
        left = np.delete(X, user, axis=0)
        (before, _), (after, _) = neighbours_by_hand(X, k), neighbours_by_hand(left, k)
        changed = np.flatnonzero(X[user])
        H = [2 * part.sum(axis=0).astype(np.float64) + 2.0 for part in (X, left)]
        marked = gram_supports.touched(sparse_gram(left), changed, *H, k)
        must = {i for i in range(30) if before[i] != after[i] or after[i] & set(changed)}
        assert must <= set(np.flatnonzero(marked)), seed
