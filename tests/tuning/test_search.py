"""od.tune: validation only, the order of trials, budgets, interruption, and every way to misuse it."""

import pytest

import offdiag as od
from offdiag.tuning import trial_loop


class NoTest:
    """A split whose test users must not be touched."""

    def __init__(self, split):
        self.train, self.validation = split.train, split.validation

    @property
    def test(self):
        raise AssertionError("tuning looked at the test users")


def test_the_best_trial_is_returned_and_can_be_measured_again(split):
    tuned = od.tune(od.EDLAE, NoTest(split), trials=12, metric="ndcg@20", seed=3)
    values = [trial.value for trial in tuned.trials if trial.state == "complete"]
    assert max(values) - 0.25 * tuned.sem * 1.1 <= tuned.value == tuned.best.value <= max(values)
    assert tuned.settings == tuned.best.settings
    assert [trial.number for trial in tuned.trials] == list(range(12))
    assert tuned.stopped == "trials"
    again = od.evaluate(tuned.model.fit(split.train), split.validation, ["ndcg@20"])
    assert again.mean["ndcg@20"] == pytest.approx(tuned.value, rel=1e-3)
    assert again.sem["ndcg@20"] == pytest.approx(tuned.sem, rel=1e-2)


@pytest.mark.parametrize("model", [od.EDLAE, od.EASE, od.SLIM, od.ItemKNN, od.WMF, od.Spectral, od.LowRankDLAE])
def test_the_first_trial_has_the_automatic_settings_of_the_model(model, split):
    held = {"rank": 20} if "rank" in model.__dataclass_fields__ else {}
    tuned = od.tune(model, split, trials=1, fixed=held)
    own = model(**held).fit(split.train).settings_
    assert {name: pytest.approx(own[name]) for name in tuned.settings} == tuned.settings
    assert [trial.origin for trial in tuned.trials] == ["automatic"]
    assert model is not od.EDLAE or tuned.settings.keys() == {"dropout", "l2", "user_power"}


def test_tuning_recovers_from_defaults_that_are_far_off(split):
    """With the l2 range moved, the best lies at its edge; without, tuning is at least as good as the defaults."""
    tuned = od.tune(od.EASE, split, trials=15)
    forced = od.tune(od.EASE, split, trials=15, space={"l2": (1e4, 1e6, "log")}, fixed={"user_power": 0.5})
    assert tuned.value >= tuned.trials[0].value - 0.25 * tuned.sem
    assert forced.trials[0].settings == {"l2": 1e4}  # the defaults, moved to the bounds
    assert all(1e4 <= trial.settings["l2"] <= 1e6 for trial in forced.trials)
    assert forced.value < tuned.value


def test_a_failed_trial_does_not_spoil_the_next(split):
    """SLIM starts from the solution of the previous trial, which must have one."""
    tuned = od.tune(od.SLIM, split, trials=4, start=[{"l1": 0.0, "l2": 0.0, "user_power": 0.5}])
    assert [trial.state for trial in tuned.trials] == ["complete", "failed", "complete", "complete"]


def test_auto_can_be_held_fixed(split, little):
    tuned = od.tune(od.EDLAE, split, trials=6, fixed={"user_power": "auto"})
    assert tuned.settings["user_power"] == 0.5
    assert any(trial.origin == "screening" for trial in tuned.trials)


def test_an_instance_holds_what_it_was_given(split):
    tuned = od.tune(od.EDLAE(kept_weight=0.2, user_power=0.25), split, trials=4, fixed={"dtype": "float64"})
    assert tuned.model.get_params() | tuned.settings == tuned.model.get_params()
    assert tuned.model.kept_weight == 0.2
    assert tuned.model.user_power == 0.25
    assert tuned.model.dtype == "float64"
    assert all("user_power" not in trial.settings for trial in tuned.trials)


def test_given_settings_are_tried_early_and_completed(split):
    start = [{"dropout": 0.8}, {"dropout": 0.1, "l2": 5.0, "kept_weight": 0.5}]
    tuned = od.tune(od.EDLAE, split, trials=3, start=start)
    assert [trial.origin for trial in tuned.trials] == ["automatic", "given", "given"]
    assert set(tuned.trials[1].settings) == {"dropout", "l2", "user_power"}
    assert tuned.trials[2].settings["kept_weight"] == 0.5


@pytest.mark.parametrize("model", [od.DLAE, od.RDLAE, od.WeightDecayLAE, od.Popularity])
def test_other_models_have_a_space_of_their_own(model, split):
    tuned = od.tune(model, split, trials=4)
    assert tuned.value > 0
    assert len(tuned.trials) == (1 if model is od.Popularity else 4)


def test_hopeless_settings_are_rejected_on_the_small_problem(split, little):
    tuned = od.tune(od.EDLAE, split, trials=25, space={"l2": (0.01, 1e5, "log")}, fixed={"propensity_power": 0.0})
    behind = [trial for trial in tuned.trials if trial.state == "rejected"]
    assert len(behind) >= 3
    assert all(trial.value is None and trial.small_value is not None for trial in behind)
    rejected = [od.EDLAE(**trial.settings).fit(split.train) for trial in behind]
    values = [od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"] for model in rejected]
    assert max(values) < tuned.value, "what was rejected would not have won"


def test_propensities_come_last_and_cost_no_fit(split):
    tuned = od.tune(od.EASE, split, trials=20)
    last = tuned.trials[-len(trial_loop.PROPENSITIES) :]
    assert [trial.origin for trial in last] == ["propensity"] * len(trial_loop.PROPENSITIES)
    assert [trial.settings["propensity_power"] for trial in last] == list(trial_loop.PROPENSITIES)
    for trial in last[::2]:
        fitted = od.EASE(**trial.settings).fit(split.train)
        direct = od.evaluate(fitted, split.validation, ["ndcg@100"]).mean["ndcg@100"]
        assert trial.value == pytest.approx(direct, abs=1e-3)


# Budgets and interruption


@pytest.mark.slow
def test_a_budget_of_time_ends_the_search_with_the_best_so_far(split):
    tuned = od.tune(od.EDLAE, split, trials=100_000, seconds=2.0)
    assert tuned.stopped == "seconds"
    assert 1 <= len(tuned.trials) < 100_000
    assert tuned.value >= max(trial.value or 0 for trial in tuned.trials) - 0.5 * tuned.sem


def test_a_foreign_model_needs_a_space_and_its_best_setting_is_found(knob, split):
    with pytest.raises(od.OffdiagError, match="a space for Knob"):
        od.tune(knob, split)
    tuned = od.tune(knob, split, trials=30, space={"at": (0.0, 0.95)})
    assert abs(tuned.settings["at"] - 0.3) < 0.1


def test_ctrl_c_gives_the_best_so_far(knob, split):
    knob.interrupt = 5
    with pytest.warns(od.InterruptedFitWarning, match="after 4 trials"):
        tuned = od.tune(knob, split, trials=30, space={"at": (0.0, 0.95)})
    assert tuned.stopped == "interrupted"
    assert len(tuned.trials) == 4
    knob.calls, knob.interrupt = 0, 1
    with pytest.raises(KeyboardInterrupt):
        od.tune(knob, split, trials=30, space={"at": (0.0, 0.95)})


def test_a_trial_that_cannot_be_fitted_is_noted_and_others_follow(knob, split):
    tuned = od.tune(knob, split, trials=12, space={"at": [0.3, 0.99]})
    failed = [trial for trial in tuned.trials if trial.state == "failed"]
    assert failed
    assert failed[0].note == "cannot fit at 0.99"
    assert tuned.settings == {"at": 0.3}
    knob.fail = True
    with pytest.raises(od.OffdiagError, match="none of the 3 trials could be fitted; the last: cannot fit"):
        od.tune(knob, split, trials=3, space={"at": (0.0, 0.9)})


def test_progress_names_the_trial_and_the_best_and_never_goes_back(split):
    reported = []
    od.tune(od.EDLAE, split, trials=6, progress=lambda stage, share: reported.append((stage, share)))
    assert any("trial 1 of 6" in stage for stage, _ in reported)
    assert any("trial 6 of 6 · best ndcg@100 0." in stage for stage, _ in reported)
    shares = [share for _, share in reported]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"metric": "ndgc@10"}, "did you mean ndcg@10"),
        ({"trials": 0}, "trials must be a whole number of at least 1, received 0"),
        ({"trials": 2.5}, "trials must be a whole number"),
        ({"seconds": -1}, "seconds must be a number above 0"),
        ({"seconds": "x"}, "seconds must be a number above 0"),
        ({"seconds": 1e-6}, "1e-06 seconds ended before a first trial"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"fixed": {"rank": 3}}, "EDLAE has no setting 'rank'"),
        ({"fixed": [3]}, "fixed must map settings to values"),
        ({"fixed": {"l2": 3.0}, "space": {"l2": (1, 2)}}, "both held fixed and given bounds"),
        ({"space": {"rank": (1, 2)}}, "EDLAE has no setting 'rank'"),
        ({"space": {"l2": (3, 1)}}, "expected low < high"),
        ({"space": {"l2": (0, 1, "log")}}, "above 0 for 'log'"),
        ({"space": {"l2": 3}}, r"expected \(low, high\)"),
        ({"space": {"l2": []}}, "at least one choice"),
        ({"space": [3]}, "space must map settings to bounds"),
        ({"start": [{"rank": 3}]}, "EDLAE has no setting 'rank'"),
        ({"study": "/nonexistent/folder/s.jsonl"}, "a folder that exists"),
        ({"model": int}, r"expected a model such as od\.EDLAE"),
        ({"model": "EDLAE"}, r"expected a model such as od\.EDLAE"),
    ],
)
def test_misuse_is_reported_in_one_line(words, message, split):
    with pytest.raises(od.OffdiagError, match=message) as error:
        od.tune(**{"model": od.EDLAE, "split": split} | words)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "searched"),
    [
        ({"fixed": {"half_life": 3e6}}, {"mix", "l2", "dropout", "history_decay"}),
        ({"fixed": {"history_half_life": 3e6}}, {"mix", "l2", "dropout", "decay"}),
        ({"fixed": {"half_life": None}}, {"mix", "l2", "dropout", "decay", "history_decay"}),
        ({"space": {"half_life": (1e6, 1e7, "log")}}, {"mix", "l2", "dropout", "history_decay", "half_life"}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_setting_that_is_replaced_is_not_searched(words, searched):
    """A half-life takes the place of a decay; both at once could not be fitted."""
    split = od.split.last_out(od.synthetic.interactions(200, 20, 2_000, times=True, seed=0), validation=True)
    tuned = od.tune(od.NextItem, split, "ndcg@10", trials=3, **words)
    assert [trial.state for trial in tuned.trials] == ["complete"] * 3
    assert {name for trial in tuned.trials for name in trial.settings} == searched
    assert tuned.gain(split).metric == "ndcg@10"


def test_bounds_for_a_setting_and_its_replacement_are_refused():
    split = od.split.last_out(od.synthetic.interactions(50, 20, 500, times=True, seed=0), validation=True)
    for words in ({"space": {"decay": (0.1, 0.9)}}, {"fixed": {"decay": 0.5}}):
        space = {"half_life": (1.0, 9.0)} | words.get("space", {})
        with pytest.raises(od.OffdiagError, match="decay is not used where its replacement has bounds"):
            od.tune(od.NextItem, split, "ndcg@10", **words | {"space": space})


def test_features_are_given_to_every_fit_and_their_weight_is_searched(split):
    table = {"item": split.train.item_ids, "kind": [f"kind {i % 5}" for i in range(split.train.n_items)]}
    features = od.read_features(table, categories=["kind"])
    given = {"dropout": 0.5, "l2": 30.0, "user_power": 0.5}
    tuned = od.tune(od.EDLAE, NoTest(split), trials=4, fixed=given, item_features=features)
    assert all(0.01 <= trial.settings["feature_weight"] <= 10 for trial in tuned.trials)
    again = tuned.model.fit(split.train, item_features=features)
    measured = od.evaluate(again, split.validation, ["ndcg@100"]).mean["ndcg@100"]
    assert measured == pytest.approx(tuned.value, rel=1e-4)
    gain = tuned.gain(split, item_features=table)
    assert gain.tuned.n_users == gain.automatic.n_users
