"""The figures of a search for settings: complete SVG, true to the numbers, nothing outside the frame."""

import re

import numpy as np
import pytest

import offdiag as od
from offdiag.plots import tuning as plots
from offdiag.tuning import Trial, Tuned
from tests.fixtures.figures import SVG, check_figure, elements, points


def trial(number, value, origin="sampler", sem=0.01, small=None, **settings):
    state = "rejected" if value is None else "complete"
    return Trial(number, origin, settings, state, value, None if value is None else sem, small, seconds=0.1)


def tuned(trials, metric="ndcg@100"):
    best = max((t for t in trials if t.value is not None), key=lambda t: t.value)
    sem = float("nan") if best.sem is None else best.sem
    return Tuned(
        model=od.EDLAE(), settings=dict(best.settings), value=best.value, sem=sem, metric=metric, trials=trials,
        seconds=1.0, stopped="trials",
    )  # fmt: skip


def searched():
    """A search with every origin, rejected trials, one hopeless trial and one that could not be fitted."""
    rng = np.random.default_rng(0)
    out = [
        trial(0, 0.40, "automatic", dropout=0.65, l2=200.0, user_power=0.5),
        trial(1, 0.39, "given", dropout=0.3, l2=50.0, user_power=0.0),
        trial(2, 0.41, "screening", dropout=0.5, l2=150.0, user_power=0.5),
        trial(3, 0.02, "sampler", dropout=0.01, l2=1.0, user_power=0.5),
    ]
    for number in range(4, 20):
        l2 = float(10 ** rng.uniform(0, 4))
        value = None if l2 > 1000 else 0.42 - 0.02 * abs(np.log10(l2) - 2)
        out.append(trial(number, value, dropout=float(rng.uniform(0, 0.9)), l2=l2, user_power=0.5))
    out.append(Trial(20, "sampler", {"dropout": 0.5, "l2": 0.0, "user_power": 0.5}, "failed", note="singular <matrix>"))
    best = max((t for t in out if t.value is not None), key=lambda t: t.value)
    out += [
        trial(21 + n, best.value + 0.1 * power, "propensity", **best.settings, propensity_power=power)
        for n, power in enumerate((-0.1, 0.1))
    ]
    return tuned(out)


def figures():
    words = [trial(n, 0.1 * n + 0.1, "sampler", loss=("logistic", "squared")[n % 2], width=2**n) for n in range(6)]
    flat = [trial(n, 0.25, l2=float(n + 1), sem=0.0) for n in range(3)]
    return {
        "history": plots.history(searched()),
        "panels": plots.panels(searched()),
        "overview": plots.overview(searched()),
        "one trial": plots.overview(tuned([trial(0, 0.3, "automatic", sem=None, l2=5.0)])),
        "no settings": plots.overview(tuned([trial(0, 0.3, "automatic")])),
        "words": plots.overview(tuned(words)),
        "flat": plots.overview(tuned(flat)),
        "zero": plots.overview(tuned([trial(n, 0.0, l2=float(n)) for n in range(4)])),
        "bool": plots.panels(tuned([trial(n, 0.1 + n, non_negative=bool(n % 2)) for n in range(4)])),
    }


@pytest.mark.parametrize("name", list(figures()))
def test_a_figure_is_well_formed_and_stays_in_its_frame(name):
    check_figure(figures()[name])


def test_every_trial_is_drawn_once_in_the_history():
    search = searched()
    titles = [mark.text for mark in elements(plots.history(search), "title") if mark.text.startswith("trial ")]
    assert sorted(int(re.match(r"trial (\d+)", title)[1]) for title in titles) == [t.number for t in search.trials]
    assert any("singular <matrix>" in title for title in titles)
    assert any("trial 0, automatic: ndcg@100 0.4000 ± 0.0100; dropout 0.65, l2 200" in title for title in titles)


def test_heights_are_values_and_a_hopeless_trial_is_an_arrow():
    search = searched()
    figure = plots.history(search)
    dots = {}
    for circle in elements(figure, "circle"):
        if (title := circle.find(f"{SVG}title")) is not None and "sampler: " in (title.text or ""):
            dots[int(re.match(r"trial (\d+)", title.text)[1])] = float(circle.get("cy"))
    assert 3 not in dots
    values = {t.number: t.value for t in search.trials}
    numbers = sorted(dots)
    slope = np.polyfit([values[n] for n in numbers], [dots[n] for n in numbers], 1)[0]
    assert slope < 0
    lowest, highest = min(numbers, key=lambda n: values[n]), max(numbers, key=lambda n: values[n])
    for n in numbers:
        share = (values[n] - values[lowest]) / (values[highest] - values[lowest])
        assert dots[n] == pytest.approx(dots[lowest] + share * (dots[highest] - dots[lowest]), abs=0.15)
    arrows = [path.findtext(f"{SVG}title", "") for path in elements(figure, "path")]
    assert any("trial 3, sampler: ndcg@100 0.0200" in title for title in arrows)


def test_the_line_of_the_best_so_far_never_falls_and_ends_at_the_best():
    figure = plots.history(searched())
    (line,) = elements(figure, "polyline")
    heights = points(line)[:, 1]
    assert (np.diff(heights) <= 0).all()
    (ring,) = [c for c in elements(figure, "circle") if c.get("r") == "7"]
    assert float(ring.get("cy")) == pytest.approx(heights[-1], abs=0.1)


def test_there_is_a_panel_for_each_setting_that_was_searched():
    text = [element.text for element in elements(plots.panels(searched()), "text")]
    for name in ("dropout", "l2 (log scale)", "user_power", "propensity_power"):
        assert name in text
    with pytest.raises(od.OffdiagError, match="nothing to draw"):
        plots.panels(tuned([trial(0, 0.3, l2=5.0), trial(1, 0.2, l2=5.0)]))


def test_a_search_without_a_complete_trial_is_refused():
    one = tuned([trial(0, 0.3, l2=5.0)])
    empty = Tuned(one.model, {}, 0.3, 0.1, "ndcg@100", [trial(0, None, l2=5.0)], 1.0, "trials")
    with pytest.raises(od.OffdiagError, match="complete trial"):
        plots.history(empty)


# Which settings mattered


def test_influence_finds_the_setting_that_decided():
    rng = np.random.default_rng(1)
    trials = []
    for n in range(40):
        l2, dropout = float(10 ** rng.uniform(0, 4)), float(rng.uniform(0, 0.9))
        trials.append(trial(n, 0.4 - 0.05 * (np.log10(l2) - 2) ** 2 + 0.001 * rng.normal(), l2=l2, dropout=dropout))
    first, second = plots.influence(tuned(trials))
    assert (first.setting, second.setting) == ("l2", "dropout")
    assert first.share > 0.95
    assert second.share < 0.3
    best = tuned(trials).best
    assert first.best == best.settings["l2"]
    near = [t.settings["l2"] for t in trials if t.value >= 0.99 * best.value]
    assert first.good == [min(near), max(near)]


def test_influence_counts_rejected_trials_where_there_was_a_small_problem():
    trials = [trial(n, 0.3, small=0.3, l2=float(n + 1)) for n in range(4)]
    trials += [trial(4 + n, None, small=0.1, l2=100.0 + n) for n in range(4)]
    (part,) = plots.influence(tuned(trials))
    assert part.share > 0.8
    (part,) = plots.influence(tuned(trials[:4]))  # no difference to explain
    assert part.share is None


def test_influence_of_choices_is_that_of_their_means():
    trials = [trial(n, 0.3 + 0.1 * (n % 2), loss=("logistic", "squared")[n % 2]) for n in range(8)]
    (part,) = plots.influence(tuned(trials))
    assert part.share == pytest.approx(1.0)
    assert part.good == ["squared"]
    last = plots.influence(searched())[-1]
    assert (last.setting, last.share, last.best) == ("propensity_power", None, 0.1)
    assert last.good == [0.1, 0.1]


def test_shares_of_few_trials_are_not_claimed():
    (part,) = plots.influence(tuned([trial(n, 0.3 + 0.01 * n, l2=10.0**n) for n in range(3)]))
    assert part.share is None
