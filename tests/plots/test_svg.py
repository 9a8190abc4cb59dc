"""The building blocks of figures: ticks, colours and files."""

import pytest

from offdiag.plots import svg
from tests.fixtures.figures import check_figure


def test_figures_can_be_saved_and_shown_in_a_notebook(tmp_path):
    figure = svg.Figure("a <label>", 20, svg.text(0, 10, "text"))
    figure.save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8") == figure.svg() == figure._repr_svg_()
    assert "prefers-color-scheme: dark" in figure.svg()
    check_figure(figure)


def test_ticks_are_round_enclose_the_values_and_have_equal_decimals():
    for low, high in ((0.341, 0.437), (-0.3, 1.0), (0.0, 0.0), (5.0, 5.0), (-2e-5, 1e-4), (0.1, 0.1000001)):
        ticks = svg.ticks_between(low, high)
        assert ticks[0] <= low + 1e-12
        assert ticks[-1] >= high - 1e-12
        assert 2 <= len(ticks) <= 8
        texts = [svg.tick_text(v, ticks) for v in ticks]
        assert len(set(texts)) == len(texts)
        assert len({len(t.partition(".")[2]) for t in texts}) == 1


@pytest.mark.parametrize("setting", [svg.LIGHT, svg.DARK])
def test_text_and_bars_stand_out_from_the_page(setting):
    def luminance(colour):
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one, other):
        high, low = sorted((luminance(setting[one]), luminance(setting[other])), reverse=True)
        return (high + 0.05) / (low + 0.05)

    # The figures of the accessibility guidelines: 4.5 for text, 3 for marks.
    assert min(contrast(name, "paper") for name in ("ink", "soft")) >= 4.5
    assert min(contrast(f"c{n}", "paper") for n in range(svg.COLOURS)) >= 3
    assert contrast("minus", "paper") >= 3
