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


@pytest.mark.parametrize(("low", "high"), [(1.2, 1.6), (0.3, 0.9), (150.0, 1200.0), (1e-5, 0.02), (1.1e8, 1.5e9)])
def test_a_logarithmic_axis_has_ticks_one_can_read(low, high):
    figure, axes = papers.panels(1, 1)
    axes[0, 0].plot([0, 1], [low, high])
    papers.log_scale(axes[0, 0])
    figure.canvas.draw()
    bottom, top = axes[0, 0].get_ylim()
    shown = [
        text.get_text()
        for text, at in zip(axes[0, 0].get_yticklabels(), axes[0, 0].get_yticks(), strict=True)
        if bottom <= at <= top
    ]
    assert len(shown) >= 2
    assert not [text for text in shown if "e+" in text or "$" in text]


def test_large_ticks_are_short():
    assert [papers.tick_text(value) for value in (0.02, 300, 5e4, 2e6, 1.5e9)] == ["0.02", "300", "50k", "2M", "1.5G"]
