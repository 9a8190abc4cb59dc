"""Pal et al. (2020) at the small size: every claim is measured, every number as expected, every figure drawn."""

import pytest

from offdiag.papers.pal2020 import extension_chapters
from offdiag.papers.pal2020.sizes import SIZES
from tests.laws.reproduction import Reproduced

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")
pytest.importorskip("torch")


class TestPal2020(Reproduced):
    paper = "pal2020"
    stages = ("descent", "formulas", "DropConnect", "blocks", "residual net")
    covers = (
        *("2.1", "2.2", "2.3", "2.5", "2.6", "2.7", "2.8", "3.1", "3.2", "3.3", "4.1", "4.2", "Algorithm 1"),
        *(f"Figure {n}" for n in range(1, 7)),
    )
    figures = (
        *("training", "minima", "capacity", "spectra", "balance", "last_layer"),
        *("connect", "connect_thetas", "anywhere", "deep"),
    )
    refuted = ("Theorem 4.1, Corollary 4.2",)
    corrected = (
        "Theorem 2.7; Figure 1 and Figure 5, bottom",
        "Theorems 2.3 and 2.7, the assumption",
        "Theorem 2.3",
        "Theorem 2.6, Corollary 2.8",
        "Corollary 3.2",
        "Proposition 3.3",
        "Figure 3 and Figure 6, top",
        "Figure 3 and Figure 6, bottom",
        "Section 5.3",
        "Figure 4",
    )
    folders = ("mnist", "cifar10")

    def test_synthetic_images_are_named(self, found):
        assert "synthetic images" in found.data


def test_without_torch_the_deep_part_is_not_run():
    chapter = extension_chapters.deep([], SIZES["small"].net)
    assert chapter.claims[0].verdict == "not run"
    assert not chapter.drawings
    assert not chapter.numbers
