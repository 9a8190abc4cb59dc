"""The leading eigenvectors of a product."""

import numpy as np
import pytest

from offdiag.solvers import spectral
from tests.fixtures.low_rank_problems import GivenGram


def test_many_components_of_a_wide_spectrum_stay_orthonormal():
    """Many rounds and restarts, eigenvalues over five decades: the basis must not fall apart."""
    rng = np.random.default_rng(0)
    m, rank = 1500, 150
    R, _ = np.linalg.qr(rng.standard_normal((m, m)))
    values = 6e3 / (1 + np.arange(m)) ** 1.1
    found = spectral.decompose(GivenGram(((R * values) @ R.T).astype(np.float32)), rank)
    Q = found.Q.astype(np.float64)
    assert np.abs(Q.T @ Q - np.eye(rank)).max() < 1e-5
    assert np.abs(found.eigenvalues / values[:rank] - 1).max() < 2e-2
    assert found.eigenvalues.sum() == pytest.approx(values[:rank].sum(), rel=1e-3)
