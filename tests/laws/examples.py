"""Small data on which the laws are tested, and the tolerance for each precision."""

import numpy as np
from scipy import sparse

from tests.laws import oracles


def example(seed=0, n=60, m=14):
    rng = np.random.default_rng(seed)
    taste = rng.random((n, 2)) @ rng.random((2, m))
    X = (rng.random((n, m)) < 0.7 * taste).astype(np.float32)
    X[3] = 0
    X[:, 5] = 0
    return sparse.csr_array(X)


def close(a, b, dtype):
    np.testing.assert_allclose(a, b, rtol=0, atol=oracles.TOLERANCE[dtype] * max(1.0, float(np.abs(b).max(initial=0))))
