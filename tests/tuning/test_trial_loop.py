"""Trials of sparse models in batches: the values of fits of their own, one Gram each, rejected on some of the users."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.models.shared_fits import SharedFits
from offdiag.tuning import trial_loop, trial_runner
from offdiag.tuning.trial_loop import Clock
from offdiag.tuning.trial_runner import Bench

WIDE = {"neighbours": (1, 60), "l2": (0.01, 1e5, "log"), "weight_power": (0.2, 5.0), "dropout": (0.0, 0.99)}


@pytest.fixture
def some(monkeypatch):
    """Allows rejection on every second of a few validation users."""
    monkeypatch.setattr(trial_runner, "FEWEST_SOME", 20)
    monkeypatch.setattr(trial_runner, "SOME_OF", 2)


@pytest.fixture
def sizes(monkeypatch):
    """How many models were fitted together, call by call."""
    found = []
    original = SharedFits.fit
    monkeypatch.setattr(
        SharedFits, "fit", lambda self, models, *a: found.append(len(models)) or original(self, models, *a)
    )
    return found


def test_shared_trials_have_the_values_of_fits_of_their_own(split, some, sizes):
    tuned = od.tune(od.SparseEDLAE, split, trials=15, space=WIDE, seed=1)
    assert max(sizes) == trial_loop.TOGETHER
    bench, alone = Bench(split.train, split.validation, "ndcg@100"), []
    for trial in tuned.trials:
        model = od.SparseEDLAE(**trial.settings).fit(split.train)
        value = od.evaluate(model, split.validation, "ndcg@100").mean["ndcg@100"]
        alone.append(value)
        assert trial.small_value == bench.measure_some(model).mean["ndcg@100"]
        assert trial.value == (value if trial.state == "complete" else None)
    assert tuned.best.number == int(np.argmax(alone)), "the winner is the same as without sharing"


def test_a_batch_has_one_user_power_and_batches_differ(split):
    tuned = od.tune(od.SparseEDLAE, split, trials=1 + 3 * trial_loop.TOGETHER, fixed={"propensity_power": 0.0})
    powers = [trial.settings["user_power"] for trial in tuned.trials[1:]]
    batches = [set(powers[n : n + trial_loop.TOGETHER]) for n in range(0, len(powers), trial_loop.TOGETHER)]
    assert [len(batch) for batch in batches] == [1, 1, 1]
    assert len(set.union(*batches)) > 1
    assert len({trial.settings["l2"] for trial in tuned.trials}) == len(tuned.trials)


def test_a_study_resumed_within_a_batch_makes_the_same_trials(split, some, tmp_path):
    words = {"space": WIDE, "fixed": {"propensity_power": 0.0}}
    whole = od.tune(od.SparseEDLAE, split, trials=31, **words)
    for trials in (3, 5, 9, 15, 23, 31):
        parts = od.tune(od.SparseEDLAE, split, trials=trials, study=tmp_path / "s.jsonl", **words)
    assert any(trial.state == "rejected" for trial in whole.trials)
    assert [trial.settings for trial in parts.trials] == [trial.settings for trial in whole.trials]
    assert [trial.value for trial in parts.trials] == [trial.value for trial in whole.trials]
    assert [trial.state for trial in parts.trials] == [trial.state for trial in whole.trials]


def test_hopeless_settings_are_rejected_on_some_of_the_users(split, some):
    tuned = od.tune(od.SparseEDLAE, split, trials=31, space=WIDE, fixed={"propensity_power": 0.0})
    behind = [trial for trial in tuned.trials if trial.state == "rejected"]
    assert len(behind) >= 3
    assert all(trial.value is None and trial.small_value is not None for trial in behind)
    rejected = [od.SparseEDLAE(**trial.settings).fit(split.train) for trial in behind]
    values = [od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"] for model in rejected]
    assert max(values) < tuned.value, "what was rejected would not have won"


def test_a_resumed_study_still_rejects(split, some, tmp_path):
    words = {"space": WIDE, "fixed": {"propensity_power": 0.0}, "study": tmp_path / "s.jsonl"}
    od.tune(od.SparseEDLAE, split, trials=19, **words)
    tuned = od.tune(od.SparseEDLAE, split, trials=31, **words)
    assert any(trial.state == "rejected" for trial in tuned.trials[19:])


def test_a_trial_that_fails_leaves_the_others_of_its_batch():
    X = od.synthetic.interactions(200, 20, 2_000, seed=0)
    both = sparse.csr_array(sparse.hstack([X.matrix, X.matrix]))  # every item has an equal one
    twice = replace(X, matrix=both, item_ids=np.arange(both.shape[1]), rows=None)
    split = od.split.strong(twice, held_out=0.3, seed=0)
    fixed = {"user_power": 0.0, "dropout": 0.0, "weight_power": 1.0, "neighbours": 39}
    tuned = od.tune(od.SparseEDLAE, split, trials=9, fixed=fixed, space={"l2": [0.0, 1.0, 9.0]})
    states = {trial.settings["l2"]: trial.state for trial in tuned.trials[1:]}
    assert states == {0.0: "failed", 1.0: "complete", 9.0: "complete"}
    assert "singular" in next(trial.note for trial in tuned.trials if trial.state == "failed")


@pytest.mark.parametrize("words", [{"groups": True}, {"fixed": {"rank": 4}}, {"fixed": {"max_bytes": 9_000}}])
def test_what_cannot_be_shared_is_fitted_alone(split, words, sizes):
    if "groups" in words:
        words = {"groups": np.arange(split.train.n_items) // 2}
    tuned = od.tune(od.SparseEDLAE, split, trials=3, **words)
    assert not sizes
    assert [trial.state for trial in tuned.trials] == ["complete"] * 3


def test_memory_for_one_model_makes_batches_of_one(split, sizes, monkeypatch):
    monkeypatch.setattr(SharedFits, "at_once", lambda self, models: 1)
    few = od.tune(od.SparseEDLAE, split, trials=8, seed=4)
    assert set(sizes) == {1}
    monkeypatch.undo()
    many = od.tune(od.SparseEDLAE, split, trials=8, seed=4)
    assert [(trial.settings, trial.value) for trial in few.trials] == [(t.settings, t.value) for t in many.trials]


def test_a_batch_is_no_larger_than_the_time_that_is_left():
    assert Clock(None, 40, None).room(1e9) == 40
    assert Clock(100.0, 40, None).room(24.9) == 4
    assert Clock(100.0, 40, None).room(1e9) == 1
    assert Clock(100.0, 40, None).room(0.0) == 40


def test_progress_never_goes_back_within_a_batch(split):
    reported = []
    od.tune(od.SparseEDLAE, split, trials=8, progress=lambda stage, share: reported.append(share))
    assert all(a <= b for a, b in pairwise(reported))
    assert reported[-1] <= 1
