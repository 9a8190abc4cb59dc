"""The formulas of Pal et al. (2020) as printed, against the minimum and the norm."""

import numpy as np
import pytest

from offdiag.lab import dropblock
from offdiag.papers.pal2020 import formulas


@pytest.mark.parametrize(("m", "order", "missed"), [([5.0, 1.0, 0.9, 0.8], 3, False), ([5.0, 4.0, 0.1], 2, True)])
def test_the_printed_search_can_be_right_and_is_never_below_the_minimum(m, order, missed):
    m = np.array(m)
    best = formulas._objective(dropblock.prox(m, order, 0.5), m, order, 0.5)
    found = formulas._as_printed(m, order, 0.5)
    assert found > best + 0.05 if missed else found == pytest.approx(best)


def test_the_dual_of_the_norm_never_exceeds_it():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = np.sort(rng.random(6))[::-1] + 0.01
        assert formulas._dual(a, 3) <= dropblock.k_support_squared(a, 3) * (1 + 1e-12)
