"""Settings that are searched for a blend are judged by the lists of the blend."""

import numpy as np
import pytest

import offdiag as od
from offdiag.tuning import for_blend
from offdiag.tuning.for_blend import BlendBench
from offdiag.tuning.search import tune_on

SPLIT = od.split.weak(od.synthetic.interactions(300, 50, 4_000, seed=1), 0.2, 0.2, seed=0)


def test_a_trial_is_worth_what_the_blend_reaches():
    """The fast way against ``Blend``, user by user."""
    parts = [od.SparseEDLAE(neighbours=20), od.Spectral(rank=6, shrink="hard", item_power=1.0), od.ItemKNN(balance=1.0)]
    first, *others = (part.fit(SPLIT.train) for part in parts)
    shares = np.array([0.7, 1.0, 0.3])
    bench = BlendBench(SPLIT, "ndcg@10", others, shares, 0)
    slow = od.evaluate(od.Blend.of([first, *others], shares), SPLIT.validation, "ndcg@10")
    np.testing.assert_allclose(bench.measure(first).per_user["ndcg@10"], slow.per_user["ndcg@10"], atol=1e-6)
    assert bench.measure(first).mean != od.evaluate(first, SPLIT.validation, "ndcg@10").mean


def test_some_users_are_asked_where_all_would_need_too_much_memory(monkeypatch):
    others = [od.Popularity().fit(SPLIT.train)]
    monkeypatch.setattr(for_blend, "SCORES", 40 * SPLIT.train.n_items)
    monkeypatch.setattr(for_blend, "FEWEST", 10)
    bench = BlendBench(SPLIT, "ndcg@10", others, np.ones(2), 0)
    found = bench.measure(od.SparseEDLAE().fit(SPLIT.train))
    assert found.n_users == 40
    monkeypatch.setattr(for_blend.memory, "available", lambda: 100)
    with pytest.raises(od.NotEnoughMemory, match="scores of 10 users"):
        BlendBench(SPLIT, "ndcg@10", others, np.ones(2), 0)
    monkeypatch.undo()
    assert bench.fingerprint() != BlendBench(SPLIT, "ndcg@10", others, np.array([1.0, 0.5]), 0).fingerprint()


def test_what_is_best_in_a_blend_is_found(tmp_path):
    """Next to a model that knows everything else, only what it does not know counts."""
    others = [od.EASE(l2=50.0).fit(SPLIT.train)]
    bench = BlendBench(SPLIT, "ndcg@10", others, np.array([1.0, 1.0]), 0)
    words = {"fixed": {"neighbours": 30, "user_power": 0.5}, "study": tmp_path / "study", "seed": 1}
    found = tune_on(bench, od.SparseEDLAE, 8, **words)
    values = [trial.value for trial in found.trials if trial.value is not None]
    assert len(values) == 8, "no trial is rejected on a small problem, which knows nothing of the others"
    assert found.value == max(values)
    again = bench.measure(found.model.fit(SPLIT.train)).mean["ndcg@10"]
    np.testing.assert_allclose(found.value, again, rtol=1e-6)
