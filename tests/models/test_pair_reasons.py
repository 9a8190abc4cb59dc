"""What the weight of a pair is made of, against the normal equations written out."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from tests.laws import oracles
from tests.laws.strategies import interactions, powers


def parts(G, B, penalty, a, b, itself=1.0):
    """Every term of row a of (G + Λ)B = G in column b, one at a time."""
    through = {}
    for j in range(len(G)):
        amount = G[a, j] * B[j, b] * (itself if j == b else 1.0)
        if j != a and amount != 0:
            through[j] = amount
    direct = (G[a, a] + penalty[a]) * B[a, b]
    return direct, through, G[a, b] - direct - sum(through.values())


def check(answer, expected, G, penalty, a, b, rtol=1e-9):
    direct, through, rest = expected
    size = max(abs(G).max(), 1.0)
    assert answer.direct == pytest.approx(direct, abs=rtol * size)
    assert dict(zip(answer.items.tolist(), answer.amounts.tolist(), strict=True)) == pytest.approx(
        through, abs=rtol * size
    )
    assert answer.rest == pytest.approx(rest, abs=rtol * size)
    assert answer.together == pytest.approx(G[a, b], abs=rtol * size)
    assert answer.together == pytest.approx(answer.direct + answer.amounts.sum() + answer.rest, abs=1e-12 * size)
    assert (np.diff(np.abs(answer.amounts)) <= 0).all()
    alone = G[a, b] / (G[a, a] + penalty[a]) if G[a, a] + penalty[a] else 0.0
    assert answer.alone == pytest.approx(alone, abs=rtol * size)


FULL = {  # with dropout and kept_weight as in the fit
    "ease": lambda p, kept: (od.EASE(), 0.0, 0.0),
    "edlae": lambda p, kept: (od.EDLAE(dropout=p), p, 0.0),
    "kept": lambda p, kept: (od.EDLAE(dropout=p, kept_weight=kept), p, kept),
    "dlae": lambda p, kept: (od.DLAE(dropout=p), p, 1.0),
    "rdlae": lambda p, kept: (od.RDLAE(dropout=p), p, 1.0),
}


@given(
    interactions(values="ratings", min_items=2),
    st.sampled_from(sorted(FULL)),
    st.sampled_from([0.1, 0.5]),
    st.sampled_from([0.2, 0.9]),
    powers,
    st.data(),
)
def test_the_parts_of_a_full_rank_pair_are_the_normal_equations(X, name, p, kept, power, data):
    model, dropout, b_weight = FULL[name](p, kept)
    a, b = data.draw(st.permutations(range(X.shape[1])))[:2]
    model.set_params(l2=0.7, user_power=power, dtype="float64").fit(X)
    answer = model.explain_pair(a, b)
    scale = model.gram_.scale
    G = oracles.gram(X.toarray(), power) / scale
    penalty = dropout / (1 - dropout) * np.diag(G) + 0.7 / scale
    B = model.weights_.toarray()
    itself = b_weight / (dropout + b_weight * (1 - dropout)) if b_weight else 0.0
    check(answer, parts(G, B, penalty, a, b, itself), G, penalty, a, b)
    assert abs(answer.rest) <= 1e-9 * max(abs(G).max(), 1.0)
    assert answer.weight == answer.coefficient == B[a, b]


def test_a_pair_that_third_items_explain_needs_no_weight_of_its_own():
    """0 co-occurs with 1 and 1 with 2, and 0 with 2 only through 1, which explains what the pair (0, 2) shares."""
    rng = np.random.default_rng(0)
    first = rng.random(20_000) < 0.3
    second = np.where(first, rng.random(20_000) < 0.8, rng.random(20_000) < 0.1)
    third = np.where(second, rng.random(20_000) < 0.8, rng.random(20_000) < 0.1)
    X = np.stack([first, second, third], axis=1).astype(float)
    model = od.EASE(l2=1e-6, user_power=0.0, dtype="float64").fit(X)
    direct, through = model.explain_pair(1, 2), model.explain_pair(0, 2)
    assert through.alone > 0.5
    assert through.items[0] == 1
    assert through.amounts[0] > 0.9 * through.together
    assert abs(through.weight) < 0.1 * through.alone
    assert direct.direct > 0.9 * direct.together


@pytest.mark.parametrize("weight_power", [1.0, 1.5])
@pytest.mark.parametrize("propensity", [0.0, 0.3])
def test_louder_weights_and_quieter_popular_items_are_undone(weight_power, propensity):
    X = od.synthetic.interactions(200, 20, 2_000, seed=5).matrix
    model = od.SparseEDLAE(
        neighbours=19, dropout=0.4, l2=2.0, user_power=0.0, weight_power=weight_power, propensity_power=propensity,
        dtype="float64",
    ).fit(X)  # fmt: skip
    plain = od.EDLAE(dropout=0.4, l2=2.0, user_power=0.0, dtype="float64").fit(X)
    for a, b in ((3, 7), (0, 19)):
        answer, same = model.explain_pair(a, b), plain.explain_pair(a, b)
        assert answer.coefficient == pytest.approx(same.weight, abs=1e-9)
        assert answer.rest == pytest.approx(0, abs=1e-6)
        assert answer.weight == model.weights_.toarray()[a, b]


def test_items_normalised_before_the_fit_have_a_penalty_of_their_own():
    X = od.synthetic.interactions(200, 20, 2_000, seed=5).matrix
    model = od.EASE(l2=2.0, item_power=0.5, user_power=0.5, dtype="float64").fit(X)
    answer = model.explain_pair(3, 7)
    assert abs(answer.rest) < 1e-9 * answer.together


def test_sparse_and_low_rank_models_report_what_they_leave():
    X = od.synthetic.interactions(200, 20, 2_000, seed=5).matrix
    G = oracles.gram(X.toarray())
    penalty = oracles.penalty(G, 0.4, 2.0)
    for model in (
        od.SparseEDLAE(neighbours=3, dropout=0.4, l2=2.0, user_power=0.0, dtype="float64").fit(X),
        od.LowRankEDLAE(rank=4, dropout=0.4, l2=2.0, user_power=0.0, dtype="float64").fit(X),
    ):
        B = model.weights_.toarray()
        left = []
        for a, b in ((3, 7), (0, 19), (5, 1)):
            answer = model.explain_pair(a, b)
            check(answer, parts(G, B, penalty, a, b, 0.0), G, penalty, a, b)
            left.append(abs(answer.rest) / answer.together)
        assert max(left) > 1e-3  # not at the optimum of all weights, and it says so


def test_a_pair_becomes_json_with_the_sum_of_what_is_left_out():
    X = od.synthetic.interactions(200, 20, 2_000, seed=5)
    answer = od.EDLAE(l2=2.0, dropout=0.4).fit(X).explain_pair(X.item_ids[3].item(), X.item_ids[7].item())
    body = json.loads(json.dumps(answer.to_dict(most=3)))
    assert len(body["through"]) == 3
    assert body["n_others"] == len(answer.items) - 3
    total = body["direct"] + sum(t["amount"] for t in body["through"]) + body["others"] + body["rest"]
    assert total == pytest.approx(body["together"])
    assert answer.to_dict()["others"] == 0


def test_mistakes_about_pairs_are_errors():
    X = od.synthetic.interactions(60, 12, 300, seed=5)
    ids = X.item_ids.tolist()
    model = od.EASE(l2=2.0).fit(X)
    with pytest.raises(od.OffdiagError, match="no item 'eel'"):
        model.explain_pair(ids[0], "eel")
    with pytest.raises(od.OffdiagError, match="two different items"):
        model.explain_pair(ids[0], ids[0])
    with pytest.raises(od.OffdiagError, match="not fitted"):
        od.EASE().explain_pair(ids[0], ids[1])
    for other in (od.Popularity(), od.Spectral(rank=2), od.ItemKNN(), od.WeightDecayLAE(rank=2)):
        with pytest.raises(od.OffdiagError, match="regularised regression"):
            other.fit(X).explain_pair(ids[0], ids[1])
