"""od.tune: validation only, shared work that changes no answer, budgets, resuming, and every way to misuse it."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import offdiag as od
from offdiag.data.split import HeldOut
from offdiag.models.recommender import Recommender
from offdiag.tuning import ranges, screening, search
from offdiag.tuning import trial_runner as benches
from offdiag.tuning.trial_runner import Bench, part_of
from offdiag.tuning.trials import Trial, winner
from offdiag.weights import Constant
from tests.laws import oracles


@pytest.fixture(scope="module")
def split():
    return od.split.strong(od.synthetic.interactions(900, 120, 18_000, seed=4), held_out=0.2, seed=0)


@pytest.fixture
def little(monkeypatch):
    """Allows a small problem within data that would be too small for one."""
    monkeypatch.setattr(benches, "SMALL_ITEMS", 40)


class NoTest:
    """A split whose test users must not be touched."""

    def __init__(self, split):
        self.train, self.validation = split.train, split.validation

    @property
    def test(self):
        raise AssertionError("tuning looked at the test users")


def test_the_best_of_the_trials_is_what_comes_back_and_it_can_be_measured_again(split):
    tuned = od.tune(od.EDLAE, NoTest(split), trials=12, metric="ndcg@20", seed=3)
    values = [trial.value for trial in tuned.trials if trial.state == "complete"]
    assert max(values) - 0.25 * tuned.sem * 1.1 <= tuned.value == tuned.best.value <= max(values)
    assert tuned.settings == tuned.best.settings
    assert [trial.number for trial in tuned.trials] == list(range(12))
    assert tuned.stopped == "trials"
    again = od.evaluate(tuned.model.fit(split.train), split.validation, ["ndcg@20"])
    assert again.mean["ndcg@20"] == pytest.approx(tuned.value, rel=1e-3)
    assert again.sem["ndcg@20"] == pytest.approx(tuned.sem, rel=1e-2)


def test_the_first_trial_is_what_the_model_would_choose_itself(split):
    tuned = od.tune(od.EDLAE, split, trials=1)
    auto = od.EDLAE().fit(split.train).settings_
    (trial,) = tuned.trials
    assert trial.origin == "automatic"
    assert trial.settings == {name: pytest.approx(auto[name]) for name in ("dropout", "l2", "user_power")}


def test_the_same_seed_gives_the_same_trials_and_another_seed_others(split):
    one, same, other = (od.tune(od.EASE, split, trials=10, seed=seed) for seed in (5, 5, 6))
    assert [t.settings for t in one.trials] == [t.settings for t in same.trials]
    assert [t.settings for t in one.trials] != [t.settings for t in other.trials]


def test_tuning_recovers_from_defaults_that_are_far_off(split):
    """With the l2 range moved, the best lies at its edge; without, tuning is at least as good as the defaults."""
    tuned = od.tune(od.EASE, split, trials=15)
    forced = od.tune(od.EASE, split, trials=15, space={"l2": (1e4, 1e6, "log")}, fixed={"user_power": 0.5})
    assert tuned.value >= tuned.trials[0].value - 0.25 * tuned.sem
    assert forced.trials[0].settings == {"l2": 1e4}  # the defaults, moved to the bounds
    assert all(1e4 <= trial.settings["l2"] <= 1e6 for trial in forced.trials)
    assert forced.value < tuned.value


def test_no_trial_leaves_the_bounds_of_the_caller(split, little):
    space = {"l2": (1, 10, "log"), "dropout": [0.3, 0.5], "user_power": (0, 0.25)}
    tuned = od.tune(od.EDLAE, split, trials=14, space=space)
    for trial in tuned.trials:
        assert 1 <= trial.settings["l2"] <= 10
        assert trial.settings["dropout"] in (0.3, 0.5)
        assert 0 <= trial.settings["user_power"] <= 0.25
    assert tuned.trials[0].settings == {"l2": 10.0, "dropout": 0.5, "user_power": 0.25}
    assert {trial.origin for trial in tuned.trials} == {"automatic", "sampler"}


def test_a_failed_trial_does_not_spoil_the_next(split):
    """SLIM starts from the solution of the previous trial, which must have one."""
    tuned = od.tune(od.SLIM, split, trials=4, start=[{"l1": 0.0, "l2": 0.0, "user_power": 0.5}])
    assert [trial.state for trial in tuned.trials] == ["complete", "failed", "complete", "complete"]


@pytest.mark.parametrize("model", [od.EDLAE, od.EASE, od.SLIM, od.ItemKNN, od.WMF, od.Spectral, od.LowRankDLAE])
def test_automatic_settings_are_those_of_the_model(model, split):
    held = {"rank": 20} if "rank" in model.__dataclass_fields__ else {}
    tuned = od.tune(model, split, trials=1, fixed=held)
    own = model(**held).fit(split.train).settings_
    assert {name: pytest.approx(own[name]) for name in tuned.settings} == tuned.settings


def test_auto_can_be_held_fixed(split, little):
    tuned = od.tune(od.EDLAE, split, trials=6, fixed={"user_power": "auto"})
    assert tuned.settings["user_power"] == 0.5
    assert any(trial.origin == "screening" for trial in tuned.trials)


def test_settings_that_a_start_leaves_open_are_told(split):
    tuned = od.tune(od.EDLAE, split, trials=2, start=[{"dropout": 0.8}])
    assert set(tuned.trials[1].settings) == {"dropout", "l2", "user_power"}


def test_an_instance_holds_what_it_was_given(split):
    tuned = od.tune(od.EDLAE(kept_weight=0.2, user_power=0.25), split, trials=4, fixed={"dtype": "float64"})
    assert tuned.model.get_params() | tuned.settings == tuned.model.get_params()
    assert tuned.model.kept_weight == 0.2
    assert tuned.model.user_power == 0.25
    assert tuned.model.dtype == "float64"
    assert all("user_power" not in trial.settings for trial in tuned.trials)


def test_given_settings_are_tried_first(split):
    start = [{"dropout": 0.33, "l2": 300.0}, {"dropout": 0.1, "l2": 5.0, "kept_weight": 0.5}]
    tuned = od.tune(od.EDLAE, split, trials=3, start=start)
    assert [trial.origin for trial in tuned.trials] == ["automatic", "given", "given"]
    assert tuned.trials[2].settings["kept_weight"] == 0.5


@pytest.mark.parametrize("model", [od.DLAE, od.RDLAE, od.WeightDecayLAE, od.Popularity])
def test_other_models_have_a_space_of_their_own(model, split):
    tuned = od.tune(model, split, trials=4)
    assert tuned.value > 0
    assert len(tuned.trials) == (1 if model is od.Popularity else 4)


def test_every_public_model_can_be_tuned_and_its_bounds_hold_its_defaults():
    scale = ranges.Scale(n_items=3000, n_interactions=10**6, mean_history=100.0, l2=500.0)
    models = [value for name in od.__all__ if isinstance(value := getattr(od, name), type) and hasattr(value, "fit")]
    assert len(models) >= 11
    for model in models:
        space = ranges.space_of(model, scale, {}, {})
        fields = {name: field.default for name, field in model.__dataclass_fields__.items()}
        for name, bounds in space.items():
            assert name in fields, (model, name)
            if isinstance(bounds, ranges.Range) and isinstance(fields[name], int | float) and fields[name] > 0:
                assert bounds.low <= fields[name] <= bounds.high, (model, name)
        ranges.distributions(space)


def test_a_range_of_a_whole_number_proposes_whole_numbers(split):
    tuned = od.tune(od.WeightDecayLAE, split, trials=5, space={"rank": (3, 30)}, fixed={"user_power": 0.0})
    ranks = [trial.settings["rank"] for trial in tuned.trials if trial.origin == "sampler"]
    assert len(ranks) == 4
    assert all(isinstance(rank, int) and 3 <= rank <= 30 for rank in ranks)
    with pytest.raises(od.OffdiagError, match="expected whole numbers for rank"):
        od.tune(od.WeightDecayLAE, split, space={"rank": (1.5, 3.5)})


# The shared work


def test_part_of_a_gram_is_the_gram_of_some_items(split):
    G = od.gram(split.train, 0.5)
    items = np.array([3, 5, 50, 51, 119])
    part = part_of(G, items)
    np.testing.assert_array_equal(part.toarray(), G.toarray()[np.ix_(items, items)])
    assert part.n_users == G.n_users
    np.testing.assert_array_equal(part.item_sums, G.item_sums[items])


def test_the_gram_is_counted_once_per_user_power(split, monkeypatch):
    counted = []
    original = benches.gram
    monkeypatch.setattr(benches, "gram", lambda X, power, **kw: counted.append(power) or original(X, power, **kw))
    od.tune(od.EDLAE, split, trials=15)
    assert len(counted) == len(set(counted)) <= 5


@pytest.mark.parametrize("model", [od.EASE, od.DLAE, od.EDLAE, od.RDLAE])
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_the_map_shows_what_fitting_the_small_problem_would(model, power, split, little):
    """Every point of the map, against a model fitted to the same part of the Gram with the same settings."""
    bench = Bench(split.train, split.validation, "ndcg@10")
    points = list(screening._map(model, bench, {}, power, 40.0))
    assert len(points) >= 7
    for settings, value, _ in points:
        direct = bench.glance(model(**settings))
        assert value == pytest.approx(direct.mean["ndcg@10"], abs=2e-3)
    values = [value for _, value, _ in points]
    assert max(values) > min(values) + 0.01, "settings must matter here"


def test_the_map_tells_the_error_at_users_it_leaves_out(split, little):
    bench = Bench(split.train, split.validation, "ndcg@10")
    points = list(screening._map(od.EDLAE, bench, {}, 0.5, 40.0))
    X = split.train.matrix.toarray().astype(np.float64)
    weight = oracles.user_weights((X > 0).sum(axis=1), 0.5)
    G = ((X * weight[:, None]).T @ X)[np.ix_(bench.small.items, bench.small.items)]
    rows = [u for u in bench.small.rows if X[u, bench.small.items].any()]
    for settings, _, error in points[::5]:
        H = G + np.diag(oracles.penalty(G, settings["dropout"], settings["l2"]))
        errors = []
        for u in rows:
            x = X[u, bench.small.items]
            C = np.linalg.inv(H - weight[u] * np.outer(x, x))
            B = -C / np.diag(C)
            np.fill_diagonal(B, 0)
            errors.append(((x - x @ B) ** 2).sum() / (x**2).sum())
        assert error == pytest.approx(np.mean(errors), rel=1e-3)


def test_the_left_out_error_is_that_of_fitting_without_the_user(split, monkeypatch):
    monkeypatch.setattr(benches, "LEFT_OUT", 12)
    bench = Bench(split.train, split.validation, "ndcg@10")
    model = od.EDLAE(dropout=0.4, l2=20.0, user_power=0.5, dtype="float64").fit(split.train)
    found = bench.left_out_error(model)
    X = split.train.matrix.toarray().astype(np.float64)
    n_u = (X > 0).sum(axis=1)
    weight = oracles.user_weights(n_u, 0.5)
    G = (X * weight[:, None]).T @ X
    H = G + np.diag(0.4 / 0.6 * np.diag(G) + 20.0)
    errors = []
    users = np.flatnonzero(n_u >= 2)
    for u in users[np.linspace(0, len(users) - 1, 12).astype(int)]:
        C = np.linalg.inv(H - weight[u] * np.outer(X[u], X[u]))
        B = -C / np.diag(C)
        np.fill_diagonal(B, 0)
        errors.append(((X[u] - X[u] @ B) ** 2).sum() / (X[u] ** 2).sum())
    assert found == pytest.approx(np.mean(errors), rel=1e-4)
    worse = od.EDLAE(dropout=0.0, l2=0.01, user_power=0.5).fit(split.train)
    assert bench.left_out_error(worse) > found
    assert bench.left_out_error(od.EDLAE(kept_weight=0.5).fit(split.train)) is None
    assert bench.left_out_error(od.Popularity().fit(split.train)) is None


def test_hopeless_settings_are_rejected_on_the_small_problem(split, little):
    tuned = od.tune(od.EDLAE, split, trials=25, space={"l2": (0.01, 1e5, "log")}, fixed={"propensity_power": 0.0})
    states = [trial.state for trial in tuned.trials]
    assert states.count("pruned") >= 3
    pruned = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert all(trial.value is None and trial.small_value is not None for trial in pruned)
    rejected = [od.EDLAE(**trial.settings).fit(split.train) for trial in pruned]
    values = [od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"] for model in rejected]
    assert max(values) < tuned.value, "what was rejected would not have won"


def test_propensities_come_last_and_cost_no_fit(split):
    tuned = od.tune(od.EASE, split, trials=20)
    last = tuned.trials[-len(search.PROPENSITIES) :]
    assert [trial.origin for trial in last] == ["propensity"] * len(search.PROPENSITIES)
    assert [trial.settings["propensity_power"] for trial in last] == list(search.PROPENSITIES)
    for trial in last[::2]:
        fitted = od.EASE(**trial.settings).fit(split.train)
        direct = od.evaluate(fitted, split.validation, ["ndcg@100"]).mean["ndcg@100"]
        assert trial.value == pytest.approx(direct, abs=1e-3)


def trial(number, value, error=None, *, sem=0.01, origin="sampler", power=None):
    settings = {"l2": float(number if power is None else power[0])} | (
        {} if power is None else {"propensity_power": power[1]}
    )
    return Trial(number, origin, settings, "complete", value, sem, left_out_error=error)


def test_trials_closer_than_a_quarter_of_a_standard_error_are_told_apart_by_the_left_out_error():
    trials = [trial(0, 0.5000, 0.9), trial(1, 0.4980, 0.7), trial(2, 0.4970, 0.1), trial(3, 0.4999, 0.8)]
    assert winner(trials).number == 1  # 2 has a lower error but lies 0.3 standard errors behind
    assert winner([*trials, Trial(4, "sampler", {}, "pruned", small_value=0.9)]).number == 1
    assert winner([*trials, trial(5, 0.4995)]).number == 0, "without an error for all, the largest value wins"


def test_propensities_count_for_the_chosen_trial_only():
    trials = [trial(0, 0.50, 0.9), trial(1, 0.499, 0.7)]
    shaped = [trial(2, 0.52, origin="propensity", power=(1, 0.1)), trial(3, 0.6, origin="propensity", power=(0, 0.1))]
    assert winner(trials + shaped).number == 2
    assert winner([*trials, trial(2, 0.49, origin="propensity", power=(1, 0.1))]).number == 1


# Budgets, interruption, resuming


@pytest.mark.slow
def test_a_budget_of_time_ends_the_search_with_the_best_so_far(split):
    tuned = od.tune(od.EDLAE, split, trials=100_000, seconds=2.0)
    assert tuned.stopped == "seconds"
    assert 1 <= len(tuned.trials) < 100_000
    assert tuned.value >= max(trial.value or 0 for trial in tuned.trials) - 0.5 * tuned.sem


def test_a_budget_too_small_for_one_trial_says_so(split):
    with pytest.raises(od.OffdiagError, match="1e-06 seconds ended before a first trial"):
        od.tune(od.EDLAE, split, seconds=1e-6)


@dataclass(kw_only=True, eq=False)
class Knob(Recommender):
    """A model whose value on validation is known: it ranks well when its setting is near 0.3."""

    at: float = 0.9
    calls = 0
    interrupt = -1
    fail = False

    def fit(self, X, *, progress=None):
        type(self).calls += 1
        if type(self).calls == type(self).interrupt:
            raise KeyboardInterrupt
        if self.fail or self.at > 0.95:
            raise od.OffdiagError(f"cannot fit at {self.at}")
        matrix = X.matrix if hasattr(X, "matrix") else X
        good = np.asarray(matrix.sum(axis=0)).ravel().astype(np.float32)
        noise = np.random.default_rng(0).random(len(good)).astype(np.float32) * good.max()
        share = min(abs(self.at - 0.3), 1.0)
        self.weights_ = Constant((1 - share) * good + share * noise)
        self.item_ids_ = getattr(X, "item_ids", np.arange(len(good)))
        self.popularity_, self.n_users_, self.settings_ = good.astype(np.float64), 1, {"at": self.at}
        return self


@pytest.fixture
def knob():
    Knob.calls, Knob.interrupt, Knob.fail = 0, -1, False
    return Knob


def test_a_model_from_elsewhere_needs_a_space_and_its_best_setting_is_found(knob, split):
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


def test_a_study_goes_on_where_it_was_stopped(knob, split, tmp_path):
    words = {"trials": 8, "space": {"at": (0.0, 0.95)}, "study": tmp_path / "study.jsonl", "seed": 1}
    knob.interrupt = 5
    with pytest.warns(od.InterruptedFitWarning):
        first = od.tune(knob, split, **words)
    knob.interrupt = -1
    second = od.tune(knob, split, **words)
    assert len(second.trials) == 8
    assert second.trials[:4] == first.trials
    assert [trial.origin for trial in second.trials].count("automatic") == 1
    fits = knob.calls
    third = od.tune(knob, split, **words)
    assert third.trials == second.trials
    assert knob.calls == fits, "nothing is fitted again"
    more = od.tune(knob, split, **words | {"trials": 10})
    assert more.trials[:8] == third.trials
    assert len(more.trials) == 10


def test_a_resumed_study_makes_the_trials_of_one_that_was_never_stopped(split, tmp_path):
    whole = od.tune(od.EASE, split, trials=9, seed=2)
    for trials in (3, 6, 9):
        parts = od.tune(od.EASE, split, trials=trials, seed=2, study=tmp_path / "s.jsonl")
    assert [trial.settings for trial in parts.trials] == [trial.settings for trial in whole.trials]


def test_a_study_with_results_survives_a_budget_that_is_too_small(split, tmp_path):
    first = od.tune(od.EASE, split, trials=3, study=tmp_path / "s.jsonl")
    again = od.tune(od.EASE, split, trials=9, study=tmp_path / "s.jsonl", seconds=1e-6)
    assert again.stopped == "seconds"
    assert again.trials == first.trials


def test_a_line_cut_off_by_a_kill_loses_one_trial_only(knob, split, tmp_path):
    path = tmp_path / "study.jsonl"
    words = {"space": {"at": (0.0, 0.95)}, "study": path}
    od.tune(knob, split, trials=6, **words)
    whole = path.read_bytes()
    path.write_bytes(whole[:-25])
    again = od.tune(knob, split, trials=6, **words)
    assert len(again.trials) == 6
    for line in path.read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "recall@5"}, "metric ndcg@100 there and recall@5 here"),
        ({"space": {"at": (0.0, 0.9)}}, "space"),
        ({"seed": 9}, "seed 0 there and 9 here"),
    ],
)
def test_a_study_of_something_else_is_refused(knob, split, tmp_path, change, message):
    words = {"trials": 2, "space": {"at": (0.0, 0.95)}, "study": tmp_path / "s.jsonl"}
    od.tune(knob, split, **words)
    before = (tmp_path / "s.jsonl").read_bytes()
    with pytest.raises(od.OffdiagError, match=message):
        od.tune(knob, split, **words | change)
    assert (tmp_path / "s.jsonl").read_bytes() == before


def test_a_study_of_other_data_is_refused(knob, split, tmp_path):
    words = {"trials": 2, "space": {"at": (0.0, 0.95)}, "study": tmp_path / "s.jsonl"}
    od.tune(knob, split, **words)
    other = od.split.strong(od.synthetic.interactions(900, 120, 18_000, seed=5), held_out=0.2, seed=0)
    with pytest.raises(od.OffdiagError, match="is of something else: data"):
        od.tune(knob, other, **words)


@pytest.mark.parametrize(
    "content", ["user,item\n1,2\n", "{}\n", "[1]\n", '{"format": "offdiag study 1"}\n[]\n', "\x00\xff\n"]
)
def test_a_file_that_is_no_study_is_refused_and_kept(knob, split, tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(od.OffdiagError, match="study"):
        od.tune(knob, split, trials=2, space={"at": (0.0, 0.95)}, study=path)
    assert path.read_text() == content


def test_a_trial_that_cannot_be_fitted_is_noted_and_the_rest_goes_on(knob, split):
    tuned = od.tune(knob, split, trials=12, space={"at": [0.3, 0.99]})
    failed = [trial for trial in tuned.trials if trial.state == "failed"]
    assert failed
    assert failed[0].note == "cannot fit at 0.99"
    assert tuned.settings == {"at": 0.3}
    knob.fail = True
    with pytest.raises(od.OffdiagError, match="none of the 3 trials could be fitted; the last: cannot fit"):
        od.tune(knob, split, trials=3, space={"at": (0.0, 0.9)})


def test_progress_names_the_trial_and_the_best_and_never_goes_back(split):
    told = []
    od.tune(od.EDLAE, split, trials=6, progress=lambda stage, share: told.append((stage, share)))
    assert any("trial 1 of 6" in stage for stage, _ in told)
    assert any("trial 6 of 6 · best ndcg@100 0." in stage for stage, _ in told)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1


# Misuse


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"metric": "ndgc@10"}, "did you mean ndcg@10"),
        ({"trials": 0}, "trials must be a whole number of at least 1, received 0"),
        ({"trials": 2.5}, "trials must be a whole number"),
        ({"seconds": -1}, "seconds must be a number above 0"),
        ({"fixed": {"rank": 3}}, "EDLAE has no setting 'rank'"),
        ({"space": {"rank": (1, 2)}}, "EDLAE has no setting 'rank'"),
        ({"space": {"l2": (3, 1)}}, "expected low < high"),
        ({"space": {"l2": (0, 1, "log")}}, "above 0 for 'log'"),
        ({"space": {"l2": 3}}, r"expected \(low, high\)"),
        ({"space": {"l2": []}}, "at least one choice"),
        ({"space": [3]}, "space must map settings to bounds"),
        ({"fixed": [3]}, "fixed must map settings to values"),
        ({"fixed": {"l2": 3.0}, "space": {"l2": (1, 2)}}, "both held fixed and given bounds"),
        ({"seconds": "x"}, "seconds must be a number above 0"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"start": [{"rank": 3}]}, "EDLAE has no setting 'rank'"),
        ({"study": "/nonexistent/folder/s.jsonl"}, "a folder that exists"),
    ],
)
def test_misuse_is_told_in_one_line(words, message, split):
    with pytest.raises(od.OffdiagError, match=message) as error:
        od.tune(od.EDLAE, split, **words)
    assert "\n" not in str(error.value)


def test_a_split_without_validation_or_targets_is_refused(split):
    weak = od.split.weak(od.synthetic.interactions(100, 30, 900, seed=0))
    with pytest.raises(od.OffdiagError, match="no validation users to tune on"):
        od.tune(od.EDLAE, weak)
    with pytest.raises(od.OffdiagError, match="expected a split"):
        od.tune(od.EDLAE, split.train)
    empty = HeldOut(split.validation.histories, split.validation.targets * 0, split.validation.user_ids)
    empty.targets.eliminate_zeros()
    with pytest.raises(od.OffdiagError, match="none of the validation users has a target"):
        od.tune(od.EDLAE, SimpleNamespace(train=split.train, validation=empty))
    for wrong in (int, "EDLAE", 3):
        with pytest.raises(od.OffdiagError, match=r"expected a model such as od\.EDLAE"):
            od.tune(wrong, split)


def test_the_table_and_the_document_tell_every_trial(split):
    tuned = od.tune(od.EASE, split, trials=5)
    text = str(tuned)
    assert len(text.splitlines()) == 7
    assert "ndcg@100" in text.splitlines()[0]
    document = json.loads(json.dumps(tuned.to_dict()))
    assert len(document["trials"]) == 5
    assert document["settings"] == tuned.settings
