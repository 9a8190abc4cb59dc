"""Counterfactual places against recommend itself, and pairs against the normal equations written out."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking, reasons
from offdiag.weights import LowRank
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions, powers


def place(model, row, item):
    """The position of the item in the whole list of recommend, 0 if it is not listed."""
    listed = model.recommend(row, k=row.shape[1]).indices[0].tolist()
    return listed.index(item) + 1 if item in listed else 0


def lacking(X, at):
    """The one row of X without its entry ``at``."""
    dense = X.toarray()
    dense[0, X.indices[at]] = 0
    return sparse.csr_array(dense)


MODELS = {
    "packed": lambda dtype: od.EDLAE(dropout=0.3, l2=1.0, user_power=0.5, dtype=dtype),
    "dense": lambda dtype: od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0, storage="dense", dtype=dtype),
    "diagonal": lambda dtype: od.DLAE(dropout=0.3, l2=1.0, user_power=0.0, dtype=dtype),
    "sparse": lambda dtype: od.SparseEDLAE(neighbours=2, dropout=0.3, l2=1.0, user_power=0.0, dtype=dtype),
    "smoothed": lambda dtype: od.SparseEDLAE(neighbours=2, l2=1.0, user_power=0.0, rank=2, dtype=dtype),
    "low rank": lambda dtype: od.LowRankEDLAE(rank=2, dropout=0.3, l2=1.0, user_power=0.0, dtype=dtype),
    "spectral": lambda dtype: od.Spectral(rank=2, shrink="hard", dtype=dtype),
}


@settings(max_examples=60)
@given(interactions(values="counts", min_items=2), st.sampled_from(sorted(MODELS)), dtypes, st.data())
def test_ranks_are_those_of_recommend_with_and_without_each_item(X, name, dtype, data):
    model = MODELS[name](dtype).fit(X)
    user = data.draw(st.integers(0, X.shape[0] - 1))
    item = data.draw(st.integers(0, X.shape[1] - 1))
    row = X[[user]]
    answer = model.explain(row, item)
    assert (answer.rank or 0) == place(model, row, item)
    at = {int(i): n for n, i in enumerate(row.indices)}
    assert answer.rank_without.tolist() == [place(model, lacking(row, at[int(i)]), item) for i in answer.items]
    if item in row.indices:  # only the history without the item itself can recommend it
        assert answer.rank is None
        assert np.flatnonzero(answer.rank_without).tolist() == np.flatnonzero(answer.items == item).tolist()


def test_compressed_weights_answer_as_they_recommend():
    X = od.synthetic.interactions(300, 60, 5_000, seed=2)
    small = od.compress(od.EDLAE(l2=5.0).fit(X), keep=12)
    for user in range(5):
        row = X.matrix[[user]]
        for item in (0, 17, 59):
            answer = small.explain(row, X.item_ids[item].item())
            at = {X.item_ids[i].item(): n for n, i in enumerate(row.indices)}
            assert (answer.rank or 0) == place(small, row, item)
            assert answer.rank_without.tolist() == [
                place(small, lacking(row, at[i]), item) for i in answer.items.tolist()
            ]


def test_ranks_follow_ties_and_the_popularity_of_an_empty_rest():
    X = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 1]])
    model = od.EASE(l2=1.0, user_power=0.0).fit(X)
    answer = model.explain([0], 4)
    assert answer.score == 0
    assert answer.rank == 4  # behind 1 (which 0 supports), then 2 and 3 at the same score of 0
    assert answer.rank_without.tolist() == [5]  # nothing is left: by popularity, and all but item 2 are equal
    assert model.explain([], 2).rank == 1
    assert model.explain([], 4).rank == 5
    assert model.explain([], 4).rank_without.tolist() == []
    assert model.explain([3], 3).rank is None
    assert model.explain([3], 3).rank_without.tolist() == [4]


def test_products_of_blas_are_made_row_by_row_as_for_one_person():
    """Equal items tie for one history, and need not in a batch, where the last bits may be rounded differently."""
    rng = np.random.default_rng(3)
    U, V = (rng.standard_normal((403, 37)).astype(np.float32) for _ in range(2))
    V[202:] = V[:201]  # nearly every item twice
    W = LowRank(U, V)
    history = np.sort(rng.choice(403, 25, replace=False))
    row = sparse.csr_array((np.ones(25, np.float32), history, [0, 25]), shape=(1, 403))

    def alone(X, item):
        return ranking.top_k(W, X, 403)[0][0].tolist().index(item) + 1

    for item in np.setdiff1d(np.arange(403), history)[:40].tolist():
        places = reasons.places(W, np.ones(403), row, item, 0, 26)
        assert places[0] == alone(row, item)
        assert places[1:].tolist() == [alone(lacking(row, at), item) for at in range(25)]


def test_rows_are_scored_in_portions_that_change_nothing(monkeypatch):
    inter = od.synthetic.interactions(300, 50, 6_000, seed=1)
    model = od.EDLAE(l2=5.0).fit(inter)
    row = inter.matrix[[int(np.diff(inter.matrix.indptr).argmax())]]
    unseen = np.setdiff1d(np.arange(50), row.indices)[3]
    whole = model.explain(row, inter.item_ids[unseen].item())
    monkeypatch.setattr(reasons, "SCORES_AT_ONCE", 150)
    parts = model.explain(row, inter.item_ids[unseen].item())
    assert parts.rank == whole.rank
    assert np.array_equal(parts.rank_without, whole.rank_without)
    assert len(set(whole.rank_without.tolist())) > 1


def test_ranks_are_found_only_when_read_and_only_once(monkeypatch):
    model = od.EASE(l2=1.0, user_power=0.0).fit(np.eye(4) + np.eye(4, k=1))
    asked = []
    found = reasons.places
    monkeypatch.setattr(reasons, "places", lambda *args: asked.append(1) or found(*args))
    answer = model.explain([0, 1], 3)
    assert not asked
    assert answer.rank is answer.rank is not None
    assert len(asked) == 1  # the place itself, which costs one row
    assert len(answer.rank_without) == len(answer.rank_without) == 2
    assert len(asked) == 2


def test_an_explanation_without_a_model_has_no_ranks():
    answer = ranking.Explanation("t", 1.0, np.array(["a"]), np.array([1.0]), [])
    with pytest.raises(od.OffdiagError, match=r"model\.explain"):
        _ = answer.rank


# Pairs


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


FULL = {
    "ease": (lambda p, kept, power: od.EASE(l2=0.7, user_power=power, dtype="float64"), 0.0, 0.0),
    "edlae": (lambda p, kept, power: od.EDLAE(dropout=p, l2=0.7, user_power=power, dtype="float64"), None, 0.0),
    "kept": (
        lambda p, kept, power: od.EDLAE(dropout=p, l2=0.7, kept_weight=kept, user_power=power, dtype="float64"),
        None,
        None,
    ),
    "dlae": (lambda p, kept, power: od.DLAE(dropout=p, l2=0.7, user_power=power, dtype="float64"), None, 1.0),
    "rdlae": (lambda p, kept, power: od.RDLAE(dropout=p, l2=0.7, user_power=power, dtype="float64"), None, 1.0),
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
    make, dropout, b_weight = FULL[name]
    dropout = p if dropout is None else dropout
    b_weight = kept if b_weight is None else b_weight
    a, b = data.draw(st.permutations(range(X.shape[1])))[:2]
    model = make(p, kept, power).fit(X)
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


# On the command line


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def saved(folder):
    inter = od.synthetic.interactions(300, 40, 4_000, names=True, seed=5)
    model = od.EDLAE(l2=2.0).fit(inter)
    model.save(folder / "model.od", updatable=True)
    model.save(folder / "bare.od")
    return model


def test_the_command_prints_ranks_next_to_the_bars(saved, run):
    ids = saved.item_ids_.tolist()
    best = saved.recommend([ids[:3]], k=1).items[0, 0].item()
    answer = saved.explain([ids[:3]], best)
    code, out, _ = run("explain", "model.od", "--history", ",".join(ids[:3]), "--item", best)
    assert code == 0
    assert f"{best} has rank 1 among" in out
    for item, place in zip(answer.items.tolist(), answer.rank_without.tolist(), strict=True):
        (line,) = [line for line in out.splitlines() if line.startswith(item)]
        assert line.rstrip().endswith(f"rank 1 → {place}" if place != 1 else "rank 1, as it is")
    body = json.loads(run("explain", "model.od", "--history", ",".join(ids[:3]), "--item", best, "--json")[1])
    assert body["rank"] == 1
    assert [c["rank_without"] for c in body["contributions"]] == answer.rank_without.tolist()
    code, out, _ = run("explain", "model.od", "--history", ",".join(ids[:3]), "--item", ids[0])
    assert "is in the history" in out


def test_the_command_explains_a_pair(saved, run):
    ids = saved.item_ids_.tolist()
    answer = saved.explain_pair(ids[2], ids[5])
    code, out, _ = run("explain", "model.od", "--pair", ids[2], ids[5])
    assert code == 0
    assert f"{answer.weight:+.4f}" in out.splitlines()[0]
    assert f"{answer.alone:+.4f}" in out.splitlines()[0]
    shares = [line for line in out.splitlines() if line.startswith(("its own", "through", "not explained"))]
    assert len(shares) == 13  # its own weight, ten items, the others together, the rest
    parts = [float(re.search(r"[+-]\d+\.\d(?!\d)", line)[0]) for line in shares]
    assert sum(parts) == pytest.approx(100, abs=0.05 * len(parts))
    body = json.loads(run("explain", "model.od", "--pair", ids[2], ids[5], "--json")[1])
    assert body["together"] == answer.together
    assert len(body["through"]) == len(answer.items)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--item", "x"], "missing: --history"),
        ([], "missing: --history and --item"),
        (["--pair", "x", "y", "--item", "x"], "--item as well"),
        (["--pair", "nobody", "nothing"], "'nobody'"),
    ],
)
def test_wrong_calls_of_explain_are_one_line(saved, fails, options, words):
    assert words in fails("explain", "model.od", *options)


def test_a_pair_needs_a_file_with_its_gram(saved, run):
    ids = saved.item_ids_.tolist()
    code, _, err = run("explain", "bare.od", "--pair", ids[2], ids[5])
    assert code == 2
    assert "updatable" in err
