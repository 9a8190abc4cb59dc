"""Columns on their supports, by conjugate gradients and by Cholesky."""

import numpy as np

import offdiag as od
from offdiag.solvers import support
from tests.fixtures.sparse_catalogue import example, solve_densely


def test_conjugate_gradients_agree_with_cholesky(monkeypatch):
    X = example()
    for words in ({"dropout": 0.5, "l2": 5.0}, {"dropout": 0.0, "l2": 1e-3}):
        words |= {"neighbours": 30, "user_power": 0.0, "dtype": "float64"}
        both = od.SparseEDLAE(**words).fit(X).weights_.toarray()
        monkeypatch.setattr(support.solve_block, "__defaults__", (0.0, None))
        monkeypatch.setattr(support.solve, "__kwdefaults__", support.solve.__kwdefaults__ | {"steps": 0.0})
        factors = od.SparseEDLAE(**words).fit(X).weights_.toarray()
        monkeypatch.undo()
        np.testing.assert_allclose(both, factors, rtol=0, atol=1e-9)
        np.testing.assert_allclose(both, solve_densely(X, 30, words["dropout"], words["l2"])[0], rtol=0, atol=1e-8)
