"""A split that nets learn from in a moment."""

import pytest

import offdiag as od


@pytest.fixture(scope="package")
def split():
    return od.split.strong(od.synthetic.interactions(900, 120, 20_000, seed=1), held_out=0.2, seed=0)
