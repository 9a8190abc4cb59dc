"""A component of a denoising net against its differential equation."""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from offdiag.solvers import shrinkage


def test_a_denoising_component_follows_its_differential_equation():
    for lam, noise, start, time in itertools.product([0.0, 1e-9, 0.3, 50.0], [0.0, 2.0], [1e-4, 0.9], [0.1, 3.0]):
        there = shrinkage.denoised(time, start, np.array([lam]), noise)[0]
        ode = solve_ivp(
            lambda _, w, lam=lam, noise=noise: 2 * w * (lam - w * (lam + noise)), (0, time), [start],
            method="Radau", rtol=1e-11, atol=1e-14,
        )  # fmt: skip
        assert there == pytest.approx(ode.y[0, -1], rel=1e-7)
