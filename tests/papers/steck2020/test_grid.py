"""The grid search: it finds the top of a hill, looks at no point twice, and stops at Ctrl-C."""

import pytest

import offdiag as od
from offdiag.papers.steck2020 import grid


def test_the_top_of_a_hill_is_found_and_no_point_is_seen_twice():
    seen = []

    def score(dropout, l2):
        seen.append((dropout, l2))
        return -((dropout - 0.6) ** 2) - (l2 / 90 - 1) ** 2

    assert grid.climb(score, (0.1, 10.0)) == (0.6, pytest.approx(90))
    assert len(seen) == len(set(seen))
    assert {dropout for dropout, _ in seen} <= set(grid.DROPOUTS)


def test_without_dropout_only_l2_is_searched():
    assert grid.climb(lambda dropout, l2: -abs(l2 - 1), (0.5, 81.0), grid.NO_DROPOUT) == (0.0, pytest.approx(1))


def test_an_interrupted_fit_is_no_measurement(monkeypatch):
    inter = od.synthetic.interactions(60, 20, 400)
    model = od.LowRankEDLAE(rank=2)
    assert grid.complete_fit(model, inter) is model
    monkeypatch.setattr(type(model), "fit", lambda self, *args, **words: setattr(self, "stopped_", "interrupted"))
    with pytest.raises(KeyboardInterrupt):
        grid.complete_fit(model, inter)
