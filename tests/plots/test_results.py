"""Figures: complete SVG, true to the numbers, nothing outside the frame."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag import plots
from offdiag.ranking import Explanation
from tests.fixtures.figures import check_figure, elements


def result(means, n=50, seed=0, coverage=None):
    rng = np.random.default_rng(seed)
    per_user = {name: np.clip(rng.normal(mean, 0.1, n), 0, 1) for name, mean in means.items()}
    mean = {name: float(values.mean()) for name, values in per_user.items()}
    sem = {name: float(values.std(ddof=1) / np.sqrt(n)) for name, values in per_user.items()}
    if coverage is not None:
        mean["coverage@5"], sem["coverage@5"] = coverage, float("nan")
    return od.Result(mean=mean, sem=sem, per_user=per_user, n_users=n, n_without_targets=0, seconds=0.0)


@pytest.fixture
def results():
    means = {"ndcg@100": 0.3, "recall_all@1": 0.05, "recall_all@10": 0.2, "recall_all@100": 0.6}
    return {
        "Popularity": result(means, coverage=0.1),
        "A <b>bold</b> & long name of a model": result({k: v + 0.1 for k, v in means.items()}, seed=1, coverage=0.5),
    }


def explanation(parts):
    ids = np.array([f"item {n}" for n in range(len(parts))])
    return Explanation("target", float(np.sum(parts)), ids, np.array(parts, dtype=np.float64), [])


def test_a_figure_is_well_formed_and_stays_in_its_frame(results):
    for figure in (
        plots.comparison(results, ["ndcg@100", "coverage@5"]),
        plots.comparison(results, ["ndcg@100"], width=300),
        plots.curve(results),
        plots.distribution(results, "ndcg@100"),
        plots.popularity(od.synthetic.interactions(60, 40, 360, communities=3, names=False, seed=0)),
        plots.contributions(explanation([0.5, -0.2, 0.0])),
    ):
        check_figure(figure)


def test_the_bars_of_a_comparison_are_in_proportion(results):
    figure = plots.comparison(results, ["ndcg@100"])
    bars = [r for r in elements(figure, "rect") if r.get("rx")]
    widths = [float(bar.get("width")) for bar in bars]
    means = [r.mean["ndcg@100"] for r in results.values()]
    assert widths[0] / widths[1] == pytest.approx(means[0] / means[1], rel=0.01)
    whiskers = [line for line in elements(figure, "line") if line.get("class") == "error"]
    assert len(whiskers) == 2 * 3
    ends = [float(whiskers[0].get(k)) for k in ("x1", "x2")]
    sem = results["Popularity"].sem["ndcg@100"]
    assert (ends[1] - ends[0]) / widths[0] == pytest.approx(2 * 1.96 * sem / means[0], rel=0.02)


def test_a_metric_without_a_standard_error_has_no_whisker(results):
    assert 'class="error"' not in plots.comparison(results, ["coverage@5"]).marks


def test_a_model_keeps_its_colour_when_only_some_are_shown(results):
    name = list(results)[1]
    marks = plots.distribution(results, "ndcg@100", models=[name]).marks
    assert 'class="f1"' in marks
    assert 'class="f0"' not in marks


def test_contributions_are_drawn_to_both_sides_and_the_rest_is_summed():
    figure = plots.contributions(explanation([3.0, -1.0, 0.25, 0.25, 0.5]), most=2)
    bars = [r for r in elements(figure, "rect") if r.get("rx")]
    assert [b.get("class") for b in bars] == ["f3", "fm", "f3"]
    assert float(bars[0].get("x")) == pytest.approx(figure.width / 4, abs=0.1)  # zero is a quarter from the left
    assert "3 more items together" in figure.marks
    assert "+1.000" in figure.marks


def test_an_explanation_without_parts_is_still_a_figure():
    check_figure(plots.contributions(explanation([])))
    check_figure(plots.contributions(explanation([0.0, 0.0])))


def test_the_long_tail_names_the_share_of_the_top_tenth():
    matrix = sparse.csr_array(np.array([[1] * 20] + [[1, 1] + [0] * 18] * 9, dtype=np.float32))
    inter = od.Interactions(matrix, np.arange(10), np.arange(20))
    assert "53 % of all interactions" in plots.popularity(inter).marks  # 20 of 38


def test_a_catalogue_of_one_item_can_be_drawn():
    one = od.Interactions(sparse.csr_array(np.ones((2, 1), np.float32)), np.arange(2), np.arange(1))
    check_figure(plots.popularity(one))


def test_what_cannot_be_drawn_is_an_error(results):
    with pytest.raises(od.OffdiagError, match="at least one result"):
        plots.comparison({})
    with pytest.raises(od.OffdiagError, match="not every result"):
        plots.comparison(results, ["map@3"])
    with pytest.raises(od.OffdiagError, match="two values of k"):
        plots.curve(results, "ndcg")
    with pytest.raises(od.OffdiagError, match="no value per user"):
        plots.distribution(results, "coverage@5")
    empty = od.Interactions(sparse.csr_array((2, 2), dtype=np.float32), np.arange(2), np.arange(2))
    with pytest.raises(od.OffdiagError, match="at least one interaction"):
        plots.popularity(empty)
