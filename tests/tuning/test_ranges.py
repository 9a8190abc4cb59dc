"""The searched space: every model has one that holds its defaults, and no trial leaves the caller's bounds."""

import numpy as np
import pytest

import offdiag as od
from offdiag import model_list
from offdiag.tuning import ranges


@pytest.mark.parametrize("name", model_list.MODELS)
def test_the_bounds_of_every_model_hold_its_defaults(name):
    model = model_list.model_class(name)
    scale = ranges.Scale(n_items=3000, n_interactions=10**6, mean_history=100.0, l2=500.0)
    space = ranges.space_of(model, scale, {}, {})
    fields = {name: field.default for name, field in model.__dataclass_fields__.items()}
    for setting, bounds in space.items():
        default = fields[setting]
        if isinstance(bounds, ranges.Range) and isinstance(default, int | float) and default > 0:
            assert bounds.low <= default <= bounds.high, setting
    ranges.distributions(space)


def test_no_trial_leaves_the_bounds_of_the_caller(split, little):
    space = {"l2": (1, 10, "log"), "dropout": [0.3, 0.5], "user_power": (0, 0.25)}
    tuned = od.tune(od.EDLAE, split, trials=14, space=space)
    for trial in tuned.trials:
        assert 1 <= trial.settings["l2"] <= 10
        assert trial.settings["dropout"] in (0.3, 0.5)
        assert 0 <= trial.settings["user_power"] <= 0.25
    assert tuned.trials[0].settings == {"l2": 10.0, "dropout": 0.5, "user_power": 0.25}
    assert {trial.origin for trial in tuned.trials} == {"automatic", "sampler"}


def test_a_range_of_a_whole_number_proposes_whole_numbers(split):
    tuned = od.tune(od.WeightDecayLAE, split, trials=5, space={"rank": (3, 30)}, fixed={"user_power": 0.0})
    ranks = [trial.settings["rank"] for trial in tuned.trials if trial.origin == "sampler"]
    assert len(ranks) == 4
    assert all(isinstance(rank, int) and 3 <= rank <= 30 for rank in ranks)
    with pytest.raises(od.OffdiagError, match="expected whole numbers for rank"):
        od.tune(od.WeightDecayLAE, split, space={"rank": (1.5, 3.5)})


def test_settings_are_moved_to_the_nearest_point_of_a_space():
    space = {"l2": ranges.Range(1.0, 10.0), "power": ranges.Range(0.0, 1.0, step=0.25), "dropout": (0.3, 0.5)}
    given = {"l2": 99.0, "power": 0.4, "dropout": 0.3, "other": 1}
    assert ranges.nearest(given, space) == {"l2": 10.0, "power": 0.5, "dropout": 0.3}
    assert ranges.nearest(given | {"dropout": 0.4}, space) is None
    assert ranges.nearest(given | {"l2": "auto"}, space) is None
    moved = given | {"l2": 10.0, "power": 0.5, "dropout": 0.5}
    assert ranges.move_inside(given | {"dropout": np.float64(0.45)}, space) == moved
