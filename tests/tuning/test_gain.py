"""Whether tuning helped: both models on the same test users, and a sentence that does not claim more than was seen."""

import json

import numpy as np
import pytest

import offdiag as od
from offdiag.tuning import gain
from offdiag.tuning.gain import Gain


def result(values):
    values = np.asarray(values, dtype=np.float64)
    sem = values.std(ddof=1) / len(values) ** 0.5
    return od.Result({"ndcg@10": values.mean()}, {"ndcg@10": sem}, {"ndcg@10": values}, len(values), 0, 0.1)


def of_difference(mean, noise, n=50, same=False):
    """Two results whose paired difference has this mean and this noise."""
    rng = np.random.default_rng(0)
    base, steps = rng.random(n), rng.standard_normal(n)
    steps = (steps - steps.mean()) / steps.std(ddof=1)
    return Gain("ndcg@10", result(base + mean + noise * steps), result(base), same=same)


def test_both_models_are_measured_on_the_same_test_users(split):
    tuned = od.tune(od.EASE, split, "ndcg@20", trials=5, fixed={"user_power": 0.25})
    found = tuned.gain(split)
    automatic = od.EASE(user_power=0.25).fit(split.train)
    chosen = od.EASE(**tuned.settings).fit(split.train)
    one, other = (od.evaluate(model, split.test, "ndcg@20") for model in (chosen, automatic))
    assert found.tuned.mean == pytest.approx(one.mean)
    assert found.automatic.mean == pytest.approx(other.mean)
    assert found.comparison.p_value == pytest.approx(one.compare(other).p_value)
    assert json.loads(json.dumps(found.to_dict()))["difference"] == pytest.approx(one.compare(other).difference)


def test_a_clear_gain_is_stated_with_its_error():
    found = of_difference(0.0041, 0.0006 * 50**0.5)
    assert found.measurable
    assert str(found) == "+0.0041 ± 0.0006 ndcg@10 over automatic (p < 0.0001)"


def test_a_notebook_shows_the_gain_and_both_results():
    html = of_difference(0.0041, 0.0006 * 50**0.5)._repr_html_()
    assert "over automatic" in html
    assert html.count("±") == 3


def test_a_difference_that_may_be_noise_is_no_gain():
    found = of_difference(0.0009, 0.0011 * 50**0.5)
    assert not found.measurable
    assert str(found) == "no measurable gain over automatic (p = 0.42): +0.0009 ± 0.0011 ndcg@10"


def test_a_loss_is_called_worse():
    found = of_difference(-0.01, 0.001 * 50**0.5)
    assert found.worse
    assert not found.measurable
    assert str(found) == "-0.0100 ± 0.0010 ndcg@10, worse than automatic (p < 0.0001)"


def test_the_automatic_settings_may_be_the_ones_chosen(split):
    found = od.tune(od.EASE, split, trials=1).gain(split)
    assert found.same
    assert not found.measurable
    assert str(found) == "none: the automatic settings were chosen"


def test_one_user_is_too_few_for_a_test():
    one = od.Result({"ndcg@10": 0.5}, {"ndcg@10": np.nan}, {"ndcg@10": np.array([0.5])}, 1, 0, 0.1)
    found = Gain("ndcg@10", one, one)
    assert not found.measurable
    assert str(found).startswith("no measurable gain over automatic (")


def test_an_interrupted_fit_is_not_judged(split, monkeypatch):
    def interrupted(self, X, **words):
        self.stopped_ = "interrupted"
        return self

    monkeypatch.setattr(od.LowRankEDLAE, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gain.measure(od.LowRankEDLAE(rank=3), split, ["ndcg@10"])
