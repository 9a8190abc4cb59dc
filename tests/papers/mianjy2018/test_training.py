"""The training runs of [Mianjy18]: their target, and how a variance settles."""

import numpy as np
import pytest

from offdiag.lab import dropout
from offdiag.papers.mianjy2018 import training
from offdiag.papers.mianjy2018.sizes import SIZES


def test_the_target_has_the_stated_spectrum():
    M = training.target(SIZES["small"], 3)
    assert M.shape == (24, 16)
    assert np.allclose(np.linalg.svd(M, compute_uv=False), np.exp(-np.arange(16) / 2), atol=1e-14)
    assert SIZES["paper"].runs == 50


def made(variances, lam=0.1, width=2):
    steps = np.arange(len(variances)) * 10
    values = np.array([variances])
    trace = dropout.Trace(steps, values + 3, values, np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), None)
    return training.Training(width, lam, dropout.optimum([[1.0]], 2, 0.5), trace)


def test_rise_and_settling_of_a_variance():
    down = made([1.0, 0.5, 0.04, 0.01])
    assert (down.rise, down.settling_time) == (0, 20)
    bumpy = made([1.0, 0.05, 0.3, 0.02])
    assert bumpy.rise == pytest.approx(0.25)
    assert bumpy.settling_time == 30
    never = made([1.0, 0.9])
    assert never.settling_time == float("inf")
    assert training.settle_in_order([down, made([1.0, 0.01, 0.01, 0.01], lam=1.0)])
    assert not training.settle_in_order([down, made([1.0, 0.9, 0.9, 0.01], lam=1.0)])
    assert training.settle_ratio([bumpy, made([1.0, 0.01, 0.01, 0.01], lam=1.0)], 2) == 3
    assert training.settle_ratio([never, made([1.0, 0.01], lam=1.0)], 2) == 1


def test_the_excess_is_relative_to_the_minimum():
    t = made([1.0, 0.5])
    assert t.excess == pytest.approx(3.5 / t.best.value - 1)
