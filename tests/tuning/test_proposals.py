"""Proposals depend on the seed and on the trials so far, not on when they were made."""

import offdiag as od
from offdiag.tuning import ranges
from offdiag.tuning.proposals import STARTUP, Sampler
from offdiag.tuning.trials import Trial

SPACE = {"l2": ranges.Range(1.0, 1000.0, log=True), "kept_weight": ranges.Range(0.0, 1.0)}


def sampler(trials=20, best=30.0):
    """One that has learned from trials whose value falls with the distance of l2 from the best."""
    found = Sampler(SPACE, seed=3)
    for number in range(trials):
        l2 = 1000.0 ** (number / 20)
        settings = {"l2": l2, "kept_weight": number % 3 / 2}
        found.learn(Trial(number, "sampler", settings, "complete", value=1 - abs(l2 / best - 1) / 40))
    return found


def test_the_same_seed_gives_the_same_trials_and_another_seed_others(split):
    one, same, other = (od.tune(od.EASE, split, trials=10, seed=seed) for seed in (5, 5, 6))
    assert [t.settings for t in one.trials] == [t.settings for t in same.trials]
    assert [t.settings for t in one.trials] != [t.settings for t in other.trials]


def test_a_proposal_depends_on_the_trials_learned_and_not_on_others():
    early = sampler(STARTUP)
    before = early.propose(7)
    assert early.propose(7) == sampler(STARTUP).propose(7) == before
    early.learn(Trial(9, "propensity", {"l2": 5.0, "kept_weight": 0.5}, "complete", value=1.0))
    early.learn(Trial(9, "sampler", {"l2": 5.0, "kept_weight": 0.5}, "failed"))
    early.learn(Trial(9, "sampler", {"l2": "auto", "kept_weight": 0.5}, "complete", value=1.0))
    assert early.propose(7) == before


def test_proposals_gather_where_trials_were_good():
    found = [sampler().propose(number)["l2"] for number in range(20, 40)]
    assert sum(8 < l2 < 110 for l2 in found) >= 15
