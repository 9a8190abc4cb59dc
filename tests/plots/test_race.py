"""Accuracy against time: a dot per measured model, a ring on the chosen one."""

import offdiag as od
from offdiag import plots


def test_every_measured_model_has_a_dot_and_the_chosen_one_a_ring():
    found = od.auto(od.synthetic.interactions(200, 30, 2_000, seed=0), seconds=2)
    drawn = plots.race(found).svg()
    measured = [row for row in found.rows if row.result is not None]
    assert drawn.count("<circle") == len(measured) + 1
    assert all(row.family in drawn for row in measured)
    assert f"chosen: {found.chosen.family}" in drawn
