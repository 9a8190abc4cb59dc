"""Which spectra sums of projections have: the linear program against sums, known theorems and searches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offdiag.lab import hives
from tests.fixtures.mistakes import rejects


def projections(rng, n, s, k):
    return [Q @ Q.T for Q in (np.linalg.qr(rng.standard_normal((n, s)))[0] for _ in range(k))]


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(1, 6))
def test_the_spectrum_of_every_sum_is_possible(seed, n, k):
    rng = np.random.default_rng(seed)
    s = int(rng.integers(1, n))
    spectrum = np.linalg.eigvalsh(sum(projections(rng, n, s, k)))
    assert hives.violation(spectrum, s, k) <= 1e-7


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_for_rank_one_it_is_the_theorem_of_schur_and_horn(seed, n):
    """A diagonal of ones exists for every spectrum of that sum: k ≥ n vectors do, fewer do not."""
    t = np.random.default_rng(seed).dirichlet(np.ones(n)) + 0.02
    t /= t.sum()
    for k in range(1, n + 2):
        assert (hives.violation(k * t, 1, k) <= 1e-7) is (k >= n)


# [Casazza11]: equal eigenvalues, k projections of rank s in n dimensions
POSSIBLE = [(4, 2, 5), (2, 2, 4), (4, 3, 7), (6, 2, 9), (4, 3, 8), (3, 2, 4)]
IMPOSSIBLE = [(3, 2, 5), (2, 2, 3), (3, 3, 7), (5, 2, 9), (3, 3, 8), (4, 3, 11)]


@pytest.mark.parametrize(("k", "s", "n"), POSSIBLE + IMPOSSIBLE)
def test_tight_fusion_frames_exist_where_the_literature_says(k, s, n):
    assert (hives.violation(np.full(n, k * s / n), s, k) <= 1e-7) is ((k, s, n) in POSSIBLE)


def test_the_order_of_the_spectrum_does_not_matter():
    spectrum = np.array([0.4, 1.6, 0.8, 1.2])
    assert hives.violation(spectrum, 2, 2) == 0
    assert hives.violation(spectrum[::-1], 2, 2) == 0


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: hives.violation(np.full(100, 0.5), 1, 50), "at most 64 eigenvalues, received 100"),
    (lambda: hives.violation(np.ones(3), 1, 2), "have the trace 2, received a sum of 3"),
)
