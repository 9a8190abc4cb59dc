"""od.Blend: several models as one, from the fit to the file."""

import json

import numpy as np
import pytest

import offdiag as od
from offdiag.models.blend import checked_shares, models_of
from offdiag.ranking import Recency
from tests.laws.examples import example

SHARES = [1.0, 0.5]


def two(X):
    return [od.EASE(l2=5.0).fit(X), od.LowRankDLAE(rank=3, l2=5.0, dropout=0.3).fit(X)]


def test_a_blend_of_fitted_models_is_the_fitted_blend():
    X = example()
    parts = [od.EASE(l2=5.0), od.LowRankDLAE(rank=3, l2=5.0, dropout=0.3)]
    fitted, of = od.Blend(parts=parts, shares=SHARES).fit(X), od.Blend.of(two(X), SHARES)
    assert np.array_equal(fitted.predict(X), of.predict(X))
    assert fitted.settings_["parts"] == of.settings_["parts"]
    assert fitted.chosen_on_ == of.chosen_on_ == 0
    assert not hasattr(parts[0], "weights_"), "the given models are not changed"


def test_a_share_of_zero_leaves_the_order_of_the_other_part():
    X = example()
    ease, other = two(X)
    lists = od.Blend.of([ease, other], [2.0, 0.0]).recommend(X, k=4)
    assert np.array_equal(lists.indices, ease.recommend(X, k=4).indices)


def test_the_scale_of_a_part_does_not_matter():
    X = example()
    ease, other = two(X)
    before = od.Blend.of([ease, other], SHARES).predict(X)
    ease.weights_ = ease.weights_.scaled(np.full(X.shape[1], 100.0))
    np.testing.assert_allclose(od.Blend.of([ease, other], SHARES).predict(X), before, rtol=1e-4, atol=1e-5)


def test_reasons_and_explanations_add_up_to_the_score():
    X = example()
    blend = od.Blend.of(two(X), SHARES)
    lists = blend.recommend(X, k=2, reasons=True)
    scores = blend.predict(X)
    for user in np.flatnonzero(np.diff(X.indptr))[:8].tolist():
        history = np.flatnonzero(X[[user]].toarray()[0]).tolist()
        item = int(lists.indices[user, 0])
        why = blend.explain(history, item)
        ones = (X[[user]] > 0).astype(np.float32)
        assert why.score == why.contributions.sum()
        np.testing.assert_allclose(why.score, blend.predict(ones)[0, item], rtol=1e-4)
        if (X[[user]].data == 1).all():
            np.testing.assert_allclose(why.score, scores[user, item], rtol=1e-4)
            assert why.rank == 1
            positive = why.contributions[why.contributions > 0]
            assert lists.reasons.items[user, 0] == why.items[np.argmax(why.contributions)]
            np.testing.assert_allclose(lists.reasons.shares[user, 0], positive.max() / positive.sum(), rtol=1e-4)


def test_shares_are_chosen_where_parts_complement_each_other():
    """A part that knows nothing gets nothing; the better of two gets something."""
    X = od.synthetic.interactions(400, 60, 6_000, seed=1)
    blend = od.Blend(parts=["ease", "popularity"]).fit(X)
    assert blend.chosen_on_ == (np.diff(X.matrix.indptr) > 1).sum()
    assert blend.settings_["shares"][0] > 0
    reversed_ = od.Blend(parts=["popularity", "ease"]).fit(X).settings_["shares"]
    assert reversed_[1] > reversed_[0]


def test_the_fading_of_each_part_is_kept():
    """NextItem sees its decay, EASE all items alike: as each would by itself."""
    X = od.synthetic.interactions(200, 30, 2_000, times=True, seed=2)
    order = od.NextItem(l2=5.0, mix=0.3, decay=0.8, history_decay=0.5).fit(X)
    flat, chain = od.EASE(l2=5.0).fit(X), od.MarkovChain().fit(X)
    history = X.history(3)
    for p, part in enumerate((order, flat, chain)):
        shares = [float(p == q) for q in range(3)]
        blend = od.Blend.of([order, flat, chain], shares)
        assert blend.knows_order
        assert blend._recency() == Recency(0.5)
        one, other = blend.predict([history])[0], part.predict([history])[0]
        np.testing.assert_allclose(one / one.max(), other / other.max(), rtol=1e-4, atol=1e-5)


def test_half_lives_are_kept_and_not_mixed_with_decays():
    X = od.synthetic.interactions(200, 30, 2_000, times=True, seed=2)
    fixed = {"l2": 5.0, "mix": 0.3, "decay": 0.8}
    slow = od.NextItem(**fixed, history_half_life=8e5).fit(X)
    fast = od.NextItem(**fixed, history_half_life=2e5).fit(X)
    blend = od.Blend.of([slow, fast], [1.0, 0.0])
    assert blend._recency() == Recency(half_life=2e5)
    asked = X.select_users([3])
    one, other = blend.predict(asked)[0], slow.predict(asked)[0]
    np.testing.assert_allclose(one / one.max(), other / other.max(), rtol=1e-3, atol=1e-4)
    with pytest.raises(od.OffdiagError, match="by place or by time, received both"):
        od.Blend.of([slow, od.NextItem(**fixed, history_decay=0.5).fit(X)])


def test_a_saved_blend_can_be_fitted_again(tmp_path):
    X = example()
    blend = od.Blend(parts=[od.EASE(l2=5.0), od.Spectral], shares=SHARES).fit(X)
    blend.save(tmp_path / "blend.od")
    again = od.load(tmp_path / "blend.od")
    assert np.array_equal(again.predict(X), blend.predict(X))
    assert np.array_equal(again.fit(X).predict(X), blend.predict(X))
    assert json.dumps(again.settings_)


def test_a_blend_can_be_compressed():
    X = od.synthetic.interactions(500, 200, 9_000, seed=3)
    blend = od.Blend.of([od.EASE(l2=20.0).fit(X), od.LowRankDLAE(rank=4).fit(X)], SHARES)
    small = od.compress(blend)
    assert small.weights_.parts[0].kind == "compressed"
    assert small.weights_.parts[1] is blend.weights_.parts[1]
    assert small.weights_.lossy
    assert small.compressed_["bytes"] == small.weights_.nbytes < 0.3 * blend.weights_.nbytes
    limit = 30_000
    assert od.compress(blend, max_bytes=limit).weights_.nbytes <= limit
    same = small.recommend(X, k=10).indices == blend.recommend(X, k=10).indices
    assert same.mean() > 0.3
    with pytest.raises(od.OffdiagError, match="a part to compress"):
        od.compress(od.Blend.of([od.LowRankDLAE(rank=4).fit(X)] * 2))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"parts": []}, "two models or more"),
        ({"parts": "edlae"}, "two models or more"),
        ({"parts": 3}, "two models or more"),
        ({"parts": "edlae,nonsense"}, "received 'nonsense'"),
        ({"parts": [od.EASE, object]}, "expected models as parts"),
        ({"parts": [od.EASE, od.Blend]}, "expected models as parts"),
        ({"parts": [{"model": "os"}, od.EASE]}, 'expected {"model"'),
        ({"parts": "ease,edlae", "shares": [1]}, "shares of 2 parts"),
        ({"parts": "ease,edlae", "shares": [1, -1]}, "shares must be"),
        ({"parts": "ease,edlae", "shares": "1,x"}, "numbers as shares"),
        ({"parts": "ease,edlae", "shares": [0, 0]}, "a share above 0"),
        ({"parts": "ease,edlae", "shares": 1.0}, "shares of 2 parts"),
    ],
)
def test_wrong_parts_and_shares_are_named(words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.Blend(**words).fit(example())


def test_models_of_other_items_or_of_user_rows_are_refused():
    X = example()
    with pytest.raises(od.OffdiagError, match="the same items"):
        od.Blend.of([od.EASE(l2=1.0).fit(X), od.EASE(l2=1.0).fit(X[:, :5])])
    with pytest.raises(od.OffdiagError, match="expected fitted models"):
        od.Blend.of([od.EASE(l2=1.0).fit(X), "ease"])
    Y = od.synthetic.interactions(50, 10, 200, times=True, seed=0)
    with pytest.raises(od.OffdiagError, match="rows of users"):
        od.Blend.of([od.SessionKNN().fit(Y), od.EASE(l2=1.0).fit(Y)])


def test_words_of_the_command_line_name_parts_and_shares():
    assert [type(part).__name__ for part in models_of("edlae + spectral", 10, 10)] == ["EDLAE", "Spectral"]
    assert checked_shares("1, 0.5", 2).tolist() == [1.0, 0.5]
    assert checked_shares("auto", 2) is None
    assert [type(part).__name__ for part in models_of("auto", 50_000, 30_000)] == ["SparseEDLAE", "Spectral"]


def test_data_without_a_user_of_two_items_gives_equal_shares():
    blend = od.Blend().fit(np.eye(6, dtype=np.float32))
    assert (blend.chosen_on_, blend.settings_["shares"]) == (0, [1.0, 1.0])
