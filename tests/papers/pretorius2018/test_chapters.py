"""Pretorius (2018) at its small size: every number as expected, every claim with evidence, figures with ink in them."""

import numpy as np
import pytest

from offdiag.lab import dynamics
from offdiag.papers import claims
from offdiag.papers.pretorius2018 import curve_chapters, end_chapters
from tests.laws.reproduction import Reproduced

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")


class TestPretorius2018(Reproduced):
    paper = "pretorius2018"
    stages = ("theory", "MNIST", "CIFAR-10")
    covers = (*(f"Section {letter}" for letter in "ABCDEF"), "section G", "Figure 6")
    figures = (
        "expected_loss",
        "curves",
        "surfaces",
        "decay",
        "ends",
        "rates",
        "whole_net",
        "learning_mnist",
        "learning_cifar10",
    )
    refuted = ("Section C", "Section D")
    corrected = (
        "Section A, Eq. 1 of the paper",
        "Section C, Eq. 7 of the paper",
        "Section E",
        "Section D, Eq. 8 of the paper",
        "Section D, the ratio R",
        "Section F",
    )
    folders = ("mnist", "cifar10")

    def test_synthetic_images_are_named(self, found):
        assert "synthetic images in place of MNIST" in found.data


@pytest.mark.parametrize("part", [curve_chapters.expected_loss, end_chapters.ends, end_chapters.whole_net])
def test_another_seed_comes_to_the_same_verdicts(part):
    """The theory chapters alone; the nets take longer."""
    chapter = part(1)
    bounds = claims.expected("pretorius2018", "small")
    assert all(check.ok for check in claims.check(chapter.numbers, bounds))
    assert all(claim.verdict != "does not hold" for claim in chapter.claims)


def test_the_printed_formulas_are_ours_where_they_can_be_computed():
    assert curve_chapters._printed_dae(1.5, 0.2, 0.5, 1.3, 0.4) == pytest.approx(
        dynamics.dae(1.5, 0.2, 0.5, 1.3, 0.4, 1.0), rel=1e-9
    )
    assert np.isnan(curve_chapters._printed_dae(1.5, 0.3, 0.3, 1.0, 0.4))
    t = np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(curve_chapters._printed_wdae(t, 0.1, 1.0, 0.4), dynamics.wdae(t, 0.1, 1.0, 0.4, 1.0))


def test_steps_needed_counts_until_the_end_is_not_left_again():
    steps = end_chapters._steps_needed(1.0, np.array([1.0]), np.array([0.0]), np.array([0.2]))
    u, count = 0.1, 0
    while abs(u * u - 0.5) > 0.005:
        u += 0.2 * u * (1 - 2 * u * u)
        count += 1
    assert steps[0] == pytest.approx(count, abs=1)
