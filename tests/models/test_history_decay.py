"""A model that remembers how a history fades: its lists, its file, its evaluation, its part of a blend."""

import numpy as np
import pytest

import offdiag as od

X = od.synthetic.interactions(200, 30, 2_400, times=True, seed=0)
PLAIN = od.EASE(l2=10.0).fit(X)
RECENT = PLAIN.with_history_decay(0.6)


def same(one, other):
    return bool((one.indices == other.indices).all())


def test_the_remembered_decay_is_that_of_a_call_and_a_call_replaces_it():
    assert same(RECENT.recommend(X, k=5), PLAIN.recommend(X, k=5, history_decay=0.6))
    assert not same(RECENT.recommend(X, k=5), PLAIN.recommend(X, k=5))
    assert same(RECENT.recommend(X, k=5, history_decay=1), PLAIN.recommend(X, k=5))
    np.testing.assert_array_equal(RECENT.predict(X), PLAIN.predict(X, history_decay=0.6))
    assert same(RECENT.with_history_decay(None).recommend(X, k=5), PLAIN.recommend(X, k=5))
    assert PLAIN.history_decay_ is None


def test_a_file_keeps_the_decay_and_a_new_fit_does_not(tmp_path):
    RECENT.save(tmp_path / "recent.od")
    loaded = od.load(tmp_path / "recent.od")
    assert same(loaded.recommend(X, k=5), RECENT.recommend(X, k=5))
    assert loaded.reads_order
    assert not loaded.fit(X).reads_order


def test_held_out_users_are_asked_with_their_histories_in_order():
    split = od.split.last_out(X)
    plain = od.EASE(l2=10.0).fit(split.train)
    expected = od.evaluate(plain, split.test, "ndcg@10", history_decay=0.6).mean
    assert od.evaluate(plain.with_history_decay(0.6), split.test, "ndcg@10").mean == expected


def test_a_part_of_a_blend_keeps_its_own_decay():
    blend = od.Blend.of([RECENT, od.Popularity().fit(X)], shares=[1.0, 0.0])
    alike = (blend.recommend(X, k=5).indices == RECENT.recommend(X, k=5).indices).all(axis=1)
    assert alike.mean() > 0.95  # a part without a positive score says nothing about a user


def test_models_that_cannot_fade_say_so():
    with pytest.raises(od.OffdiagError, match="by itself"):
        od.MarkovChain().fit(X).with_history_decay(0.5)
    with pytest.raises(od.OffdiagError, match="history_decay"):
        PLAIN.with_history_decay(2)
    pytest.importorskip("onnx")
    with pytest.raises(od.OffdiagError, match="by its order"):
        od.export.write_onnx(RECENT, "recent.onnx", k=5)
