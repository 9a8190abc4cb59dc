"""Mianjy, Arora & Vidal (2018) reproduced at the small size: every claim, every number, every file."""

import pytest

from tests.laws.reproduction import Reproduced

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")


class TestMianjy2018(Reproduced):
    paper = "mianjy2018"
    stages = ("Section 1", "Section 2", "Section 3", "Section 4", "Figure 2", "Figure 3")
    covers = ("Figure 1", "Figure 2", "Figure 3", "Algorithm 1", "Algorithm 2", "Algorithm 3")
    figures = ("shrinkage", "figure1", "curvature", "figure2", "figure3")
    refuted = ("Section 3, before Theorem 3.3", "Section 6")
    corrected = (
        "Algorithm 1",
        "Theorem 2.2, Algorithm 2",
        "Remark 5.2",
        "Theorem 3.6",
        "Theorem 2.4",
        "Algorithm 3",
        "Lemmas A.2 and A.3",
        "Lemma D.1",
    )
