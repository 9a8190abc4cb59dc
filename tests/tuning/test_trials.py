"""Which trial wins, and how trials are printed."""

import json

import offdiag as od
from offdiag.tuning.trials import Trial, reason, winner


def trial(number, value, error=None, *, of=None):
    """A trial at l2 = number, or the trial ``of`` that number with a power of popularity."""
    settings = {"l2": number} if of is None else {"l2": of, "propensity_power": 0.1}
    origin = "sampler" if of is None else "propensity"
    return Trial(number, origin, settings, "complete", value, 0.01, left_out_error=error)


def test_near_ties_are_decided_by_the_left_out_error():
    trials = [trial(0, 0.5000, 0.9), trial(1, 0.4980, 0.7), trial(2, 0.4970, 0.1), trial(3, 0.4999, 0.8)]
    assert winner(trials).number == 1  # 2 has a lower error but lies 0.3 standard errors behind
    assert winner([*trials, Trial(4, "sampler", {}, "rejected", small_value=0.9)]).number == 1
    assert winner([*trials, trial(5, 0.4995)]).number == 0, "without an error for all, the largest value wins"


def test_propensities_count_for_the_chosen_trial_only():
    trials = [trial(0, 0.50, 0.9), trial(1, 0.499, 0.7)]
    assert winner([*trials, trial(2, 0.52, of=1), trial(3, 0.6, of=0)]).number == 2
    assert winner([*trials, trial(2, 0.49, of=1)]).number == 1


def test_the_table_and_the_document_list_every_trial(split):
    tuned = od.tune(od.EASE, split, trials=5)
    text = str(tuned)
    assert len(text.splitlines()) == 9  # a header, five trials, their number, the choice and the gain
    assert "ndcg@100" in text.splitlines()[0]
    document = json.loads(json.dumps(tuned.to_dict()))
    assert len(document["trials"]) == 5
    assert document["settings"] == tuned.settings


def test_the_choice_is_explained():
    near = [trial(0, 0.5000, 0.9), trial(1, 0.4980, 0.7)]
    assert reason(near) == (
        "trial 1: of the 2 trials within a quarter of a standard error of the largest value (trial 0), it has the "
        "smallest left-out error"
    )
    assert reason([trial(0, 0.5, 0.9), trial(1, 0.4, 0.7)]) == "trial 0: it has the largest value"
    assert reason([trial(0, 0.5), trial(1, 0.4999)]) == "trial 0: it has the largest value", "no left-out error"
    assert "(its own), it has the smallest" in reason([trial(0, 0.5000, 0.6), trial(1, 0.4980, 0.7)])
    with_power = reason([*near, trial(2, 0.52, of=1)])
    assert with_power.endswith("; then trial 2, the same with the power of popularity that has the largest value")


def test_a_result_says_what_was_gained_on_the_validation_users(split):
    tuned = od.tune(od.EASE, split, trials=3)
    gained = tuned.value - tuned.trials[0].value
    line = f"{gained:+.4f} ndcg@100 over automatic on the validation users, partly luck"
    assert (line in str(tuned)) == (tuned.best.number > 0)
    assert f"chosen: {tuned.reason}" in str(tuned)
    assert tuned.to_dict()["chosen"] == tuned.best.number


def test_a_result_says_when_the_automatic_settings_were_chosen(split):
    assert "these are the automatic settings" in str(od.tune(od.EASE, split, trials=1))
