"""Figures of the theory papers: the same bytes every time, and a clear error without matplotlib."""

import sys

import numpy as np
import pytest

import offdiag as od
from offdiag.plots import papers


def figure():
    drawn, axes = papers.panels(1, 2)
    papers.lines(axes[0, 0], [1, 2, 3], {"one": [1, 2, 3], "two": [3, 2, 1]})
    return drawn


def test_the_same_figure_gives_the_same_file():
    one, other = (papers.rendered(figure(), "svg") for _ in range(2))
    assert one == other
    assert papers.rendered(figure(), "png") == papers.rendered(figure(), "png")


def test_figures_without_matplotlib_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(od.OffdiagError, match=r"pip install 'offdiag\[plot\]'"):
        papers.panels(1, 1)


def test_the_figure_of_shrinkages_shows_each_of_them():
    model = od.Spectral(rank=5).fit((np.random.default_rng(0).random((40, 9)) < 0.4).astype(np.float32))
    drawn = papers.shrinkages(model, ["hard", "ridge", "early-stop"])
    lines = drawn.axes[0].get_lines()
    assert [line.get_label().split()[0] for line in lines] == ["hard", "ridge", "early-stop"]
    np.testing.assert_array_equal(lines[1].get_ydata(), model.with_shrink("ridge").weights_.shrink)
