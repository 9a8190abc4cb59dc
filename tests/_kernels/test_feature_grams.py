import numpy as np
from scipy import sparse

from offdiag._kernels import feature_grams


def test_grams_of_sets_are_those_of_dense_rows():
    rng = np.random.default_rng(0)
    F = sparse.csr_array(rng.random((6, 4)) * (rng.random((6, 4)) < 0.6))
    sets = np.array([[0, 3, 5], [2, -1, 1], [-1, -1, -1]])
    out = np.full((3, 3, 3), np.nan)
    feature_grams.grams(F.indptr, F.indices, F.data, 4, sets, 0, 2, out)
    feature_grams.grams(F.indptr, F.indices, F.data, 4, sets, 2, 3, out)
    padded = np.vstack([F.toarray(), np.zeros(4)])  # row −1 is empty
    for one, found in zip(sets, out, strict=True):
        np.testing.assert_allclose(found, padded[one] @ padded[one].T)
