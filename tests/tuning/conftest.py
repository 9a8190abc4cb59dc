"""A split to tune on, and a model whose best setting is known."""

from dataclasses import dataclass

import numpy as np
import pytest

import offdiag as od
from offdiag.models.recommender import Recommender
from offdiag.tuning import trial_runner
from offdiag.weights import Constant


@pytest.fixture(scope="package")
def split():
    return od.split.strong(od.synthetic.interactions(900, 120, 18_000, seed=4), held_out=0.2, seed=0)


@pytest.fixture
def little(monkeypatch):
    """Allows a small problem within data that would be too small for one."""
    monkeypatch.setattr(trial_runner, "SMALL_ITEMS", 40)


@dataclass(kw_only=True, eq=False)
class Knob(Recommender):
    """A model whose value on validation is known: it ranks well when its setting is near 0.3."""

    at: float = 0.9
    calls = 0
    interrupt = -1
    fail = False

    def fit(self, X, *, progress=None):
        type(self).calls += 1
        if type(self).calls == type(self).interrupt:
            raise KeyboardInterrupt
        if self.fail or self.at > 0.95:
            raise od.OffdiagError(f"cannot fit at {self.at}")
        good = np.asarray(X.matrix.sum(axis=0)).ravel().astype(np.float32)
        noise = np.random.default_rng(0).random(len(good)).astype(np.float32) * good.max()
        share = min(abs(self.at - 0.3), 1.0)
        weights = Constant((1 - share) * good + share * noise)
        return self._store(weights, X.item_ids, good.astype(np.float64), 1, {"at": self.at})


@pytest.fixture
def knob():
    Knob.calls, Knob.interrupt, Knob.fail = 0, -1, False
    return Knob
