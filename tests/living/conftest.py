"""Small data and models that are changed after the fit."""

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import offdiag as od
from offdiag.solvers import woodbury


@pytest.fixture
def always_woodbury(monkeypatch):
    """Small problems are cheaper to fit again; here they are not."""
    monkeypatch.setattr(woodbury, "flops", lambda m, s: 0.0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def X(rng):  # noqa: N802 - the name of the matrix
    return sparse.csr_array((rng.random((60, 15)) < 0.3).astype(np.float32))


@pytest.fixture
def model(X):
    return od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)


@pytest.fixture
def table():
    """Four users and three items, with names."""
    users = ["ann", "ann", "bob", "bob", "cid", "cid", "dee", "dee", "dee"]
    return pl.DataFrame({"user": users, "item": ["ale", "bun", "ale", "cod", "bun", "cod", "ale", "bun", "cod"]})


@pytest.fixture
def shop(table):
    return od.read(table)
