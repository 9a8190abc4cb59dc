"""The figure of an ageing model."""

from xml.etree import ElementTree

import offdiag as od
from offdiag import plots
from tests.fixtures.ordered_logs import DAY, drifting, steady


def test_the_figure_shows_both_lines_and_the_age_that_costs():
    over = od.evaluate_over_time(od.MarkovChain(), drifting(), 21 * DAY, 7 * DAY, "hit@1", exclude_seen=False)
    figure = plots.ageing(over)
    tree = ElementTree.fromstring(figure.svg())
    names = [text.text for text in tree.iter() if text.tag.endswith("text")]
    assert {"as fitted", "kept up to date", "hit@1", "periods since the fit"} <= set(names)
    assert len([one for one in tree.iter() if one.tag.endswith("circle")]) == 2 * len(over.periods)
    assert "after 1 period" in figure.label


def test_a_single_period_can_be_drawn():
    over = od.evaluate_over_time(od.Popularity(), steady(), "2024-09-01", every=1000 * DAY)
    ElementTree.fromstring(plots.ageing(over).svg())
