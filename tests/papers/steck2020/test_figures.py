"""The drawing of Figure 1: the paper's markers, colours and strokes."""

import numpy as np
import pytest

import offdiag as od
from offdiag.papers.steck2020 import figure1, figures

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def found():
    inter = od.synthetic.interactions(150, 24, 1500, names=False, seed=1)
    return figure1.run(inter, "a table", ranks=[2, 6], dropout=0.3, l2=5.0)


def test_curves_have_the_markers_and_colours_of_the_paper(found):
    accuracy, *histograms = figures.figure1(found).axes
    lines = [container[0] for container in accuracy.containers]
    assert [(line.get_marker(), line.get_color()) for line in lines] == [
        ("o", "black"), ("x", "tab:green"), ("+", "tab:blue"),
    ]  # fmt: skip
    for name, line in zip(("EDLAE", "zero diagonal", "DLAE"), lines, strict=True):
        means = [point.mean for point in (*found.curve.of(name), found.full_rank[name])]
        np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), means)
        assert list(line.get_xdata()) == [2, 6, 24]
    assert [axis.get_title(loc="left") for axis in histograms] == ["EDLAE, rank 6", "DLAE, rank 6"]


def test_histograms_of_both_gauges_count_every_group(found):
    axes = figures.gauges(found).axes
    assert len(axes) == 6
    for axis in axes:
        encoder, decoder = axis.patches
        assert (encoder.get_linestyle(), decoder.get_linestyle()) == ("-", "--")
        for outline in (encoder, decoder):
            assert outline.get_data().values.sum() == pytest.approx(100)
