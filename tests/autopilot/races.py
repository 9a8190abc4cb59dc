"""Small races for the tests of all stages."""

import numpy as np

import offdiag as od
from offdiag.autopilot.clock import Clock
from offdiag.autopilot.entrants import Entrant
from offdiag.autopilot.race import Race


def race(seconds=600.0, n=400, X=None, **words):
    X = od.synthetic.interactions(n, 60, 15 * n, seed=2) if X is None else X
    return Race(od.split.weak(X, 0.2, 0.1, seed=0), "ndcg@20", Clock(seconds, None), 0, **words)


def entrant(family, model, **words):
    return Entrant(family, model, 1.0, **words)


def tastes(n_users, n_items, seed=0):
    """Users who like items of one of ten kinds, and those kinds."""
    rng = np.random.default_rng(seed)
    kinds, taste = rng.integers(0, 10, n_items), rng.integers(0, 10, n_users)
    likes = rng.random((n_users, n_items)) < np.where(taste[:, None] == kinds, 0.12, 0.004)
    return od.read(likes.astype(np.float32)), kinds
