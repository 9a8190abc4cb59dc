"""The figures of low-rank models: complete SVG, true to the numbers, nothing outside the frame."""

import re

import numpy as np
import pytest

import offdiag as od
from offdiag.diagnostics import RankCurve, RankPoint
from offdiag.plots import ranks as plots
from tests.fixtures.figures import check_figure, elements, points


def result(mean):
    return od.Result({"ndcg@100": mean}, {"ndcg@100": 0.01}, {}, n_users=9, n_without_targets=0, seconds=0.0)


def curve(values=None, ranks=(10, 100, 1000), sem=0.01):
    values = values or {"EDLAE": (0.30, 0.35, 0.40), "zero <dia>": (0.2, 0.3, 0.4), "DLAE": (0.3, 0.33, 0.31)}
    return RankCurve(
        "ndcg@100",
        [
            RankPoint(name, rank, mean, sem, 8, 0.1, 1.0, {}, result(mean))
            for name, means in values.items()
            for rank, mean in zip(ranks, means, strict=True)
        ],
    )


def figures():
    rng = np.random.default_rng(0)
    pairs = {
        "EDLAE": (rng.normal(0.1, 0.1, 500), rng.normal(0.3, 0.1, 500)),
        "DLAE": (np.clip(rng.normal(0.8, 0.1, 500), -1, 1), rng.normal(0.6, 0.1, 500)),
    }
    cosines = plots.cosines(pairs)
    one = {"EDLAE": np.array([0.25])}
    return {
        "accuracy": plots.accuracy(curve(), result(0.42)),
        "high": plots.accuracy(curve(), result(0.405)),
        "one rank": plots.accuracy(curve({"EDLAE": (0.3,)}, ranks=(7,), sem=float("nan"))),
        "flat": plots.accuracy(curve({"EDLAE": (0.0, 0.0, 0.0)}, sem=0.0)),
        "encoder": cosines["EDLAE"],
        "decoder": cosines["DLAE"],
        "diagonals": plots.diagonals({name: pair[0] for name, pair in pairs.items()}),
        "one item": plots.diagonals(one),
        "zeros": plots.diagonals({"EDLAE": np.zeros(5)}),
        "nothing": plots.cosines({"EDLAE": (np.full(3, np.nan), np.full(3, np.nan))})["EDLAE"],
    }


@pytest.mark.parametrize("name", list(figures()))
def test_a_figure_is_well_formed_and_stays_in_its_frame(name):
    check_figure(figures()[name], lowest=262)


def test_accuracy_is_drawn_in_proportion_on_a_log_axis():
    lines = {line.get("class").split()[1]: points(line) for line in elements(plots.accuracy(curve()), "polyline")}
    edlae, zero = lines["s1"], lines["s2"]
    np.testing.assert_allclose(np.diff(edlae[:, 0]), np.diff(edlae[:, 0])[0], atol=0.2)  # 10, 100, 1000
    assert (edlae[0, 1] - edlae[2, 1]) / (zero[0, 1] - zero[2, 1]) == pytest.approx(0.10 / 0.20, abs=0.01)
    assert zero[2, 1] == edlae[2, 1]  # equal means, side by side
    assert zero[2, 0] > edlae[2, 0]


def test_error_bars_are_one_standard_error_to_each_side():
    figure = plots.accuracy(curve())
    bars = [b for b in elements(figure, "line") if b.get("style")]
    assert len(bars) == 9
    line = next(points(p) for p in elements(figure, "polyline") if "s1" in p.get("class"))
    unit = (line[0, 1] - line[2, 1]) / 0.1
    assert abs(float(bars[0].get("y1")) - float(bars[0].get("y2"))) == pytest.approx(0.02 * unit, abs=0.2)


def test_models_have_their_own_marks_and_keep_a_given_colour():
    figure = plots.accuracy(curve(), colours={"EDLAE": 3})
    assert '<circle class="f3' in figure.marks
    assert len(re.findall(r'<path class="line s2"', figure.marks)) == 4  # three points and the legend
    assert "zero &lt;dia&gt;" in figure.marks
    assert "full rank" not in figure.marks
    assert "full rank" in plots.accuracy(curve(), result(0.42)).marks


@pytest.mark.parametrize("mean", [0.405, 0.42, 0.30, 0.19])
def test_the_full_rank_line_is_at_its_value_and_in_the_legend(mean):
    figure = plots.accuracy(curve(), result(mean))
    sample, line = (mark for mark in elements(figure, "line") if mark.get("stroke-dasharray"))
    (name,) = (mark for mark in elements(figure, "text") if mark.text == "full rank")
    edlae = next(points(p) for p in elements(figure, "polyline") if "s1" in p.get("class"))
    unit = (edlae[0, 1] - edlae[2, 1]) / 0.1
    assert edlae[2, 1] - float(line.get("y1")) == pytest.approx((mean - 0.40) * unit, abs=0.3)
    assert float(sample.get("x2")) < float(name.get("x")) < float(sample.get("x2")) + 10


def test_long_names_are_cut_so_that_the_legend_fits():
    names = [f"a model with quite a long name {n}" for n in range(4)]
    figure = plots.accuracy(curve(dict.fromkeys(names, (0.1, 0.2, 0.3))), result(0.3))
    legend = [mark for mark in elements(figure, "text") if mark.get("y") == "12.5"]
    assert len(legend) == 5
    assert all(mark.text.endswith("…") for mark in legend[:4])
    assert float(legend[-1].get("x")) < 380


def test_histograms_hold_every_item_and_share_their_axes():
    rng = np.random.default_rng(1)
    narrow = np.full(400, 0.905)
    wide = rng.uniform(-0.4, 0.9, 400)
    drawn = plots.cosines({"a": (narrow, narrow), "b": (wide, wide)}, bins=28)
    heights = {}
    for name, figure in drawn.items():
        outline = points(elements(figure, "polyline")[0])
        steps = outline[1:-1:2]
        heights[name] = 262 - steps[:, 1]
        assert outline[0, 1] == outline[-1, 1] == 262
    unit = heights["a"].sum()  # all items in one bin: the height of 100 %
    assert len(heights["a"]) == 1
    assert heights["b"].sum() == pytest.approx(unit, rel=0.02)
    assert len(heights["b"]) > 15
    assert "100" in [t.text for t in elements(drawn["a"], "text")]  # per cent


def test_a_cosine_just_above_one_still_counts():
    figure = plots.cosines({"a": (np.full(3, 1 + 1e-7), np.ones(3))})["a"]
    assert len(elements(figure, "polyline")) == 2


def test_the_encoder_is_solid_and_the_decoder_dashed():
    lines = elements(figures()["encoder"], "polyline")
    assert [line.get("stroke-dasharray") for line in lines] == [None, "6 3"]
    assert [line.get("class") for line in lines] == ["line s1", "line s5"]


def test_far_diagonal_entries_share_the_last_bin():
    values = np.concatenate([np.linspace(0, 0.1, 999), [50.0]])
    figure = plots.diagonals({"a": values})
    labels = [float(t.text.replace("−", "-")) for t in elements(figure, "text") if t.get("y") == "280.0"]
    assert max(labels) <= 0.12
    assert "median 0.05" in figure.label


def test_the_axes_of_histograms_say_what_they_show():
    assert ">diagonal entry uᵢ·vᵢ<" in plots.diagonals({"a": np.array([0.0, 0.1])}).marks
    (figure,) = plots.cosines({"a": (np.array([0.1, 0.2]), np.array([0.3, 0.4]))}).values()
    assert ">median cosine within a group of similar items<" in figure.marks


def test_what_cannot_be_drawn_is_an_error():
    with pytest.raises(od.OffdiagError, match="at least one model"):
        plots.accuracy(RankCurve("ndcg@100", []))
    with pytest.raises(od.OffdiagError, match="at least one model"):
        plots.diagonals({})
    with pytest.raises(od.OffdiagError, match="finite"):
        plots.diagonals({"a": np.array([np.nan])})
