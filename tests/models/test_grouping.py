import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.gramian.packed import gram
from tests.laws import oracles
from tests.laws.examples import close, example
from tests.laws.strategies import dropouts, dtypes, interactions

GROUP = [0, 0, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7, 8, 0]  # of the items of ``example``
NAMES = {item: f"thing {group}" for item, group in enumerate(GROUP) if GROUP.count(group) > 1}
KINDS = {
    "ease": lambda **more: od.EASE(l2=3.0, **more),
    "edlae": lambda **more: od.EDLAE(dropout=0.4, l2=3.0, **more),
    "dense": lambda **more: od.EDLAE(dropout=0.4, l2=3.0, storage="dense", **more),
    "sparse": lambda **more: od.SparseEDLAE(neighbours=20, dropout=0.4, l2=3.0, **more),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def expected(X, model, user_power=0.0):
    G = oracles.gram(X.toarray(), user_power)
    return oracles.grouped_weights(G, GROUP, getattr(model, "dropout", 0.0), 3.0)


@every_kind
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_no_item_is_predicted_from_its_own_group(kind, dtype, user_power):
    X = example()
    model = KINDS[kind](dtype=dtype, user_power=user_power).fit(X, groups=NAMES)
    close(model.weights_.toarray(), expected(X, model, user_power), dtype)
    assert not model.weights_.toarray()[oracles.same_group(GROUP) == 1].any()


@given(interactions(min_items=2), dropouts, st.integers(1, 9), st.data())
def test_a_sparse_model_solves_each_column_on_a_support_without_its_group(X, dropout, k, data):
    m = X.shape[1]
    group = np.array(data.draw(st.lists(st.integers(0, 3), min_size=m, max_size=m)))
    if len(set(group.tolist())) == 1:
        group[0] += 1
    model = od.SparseEDLAE(neighbours=k, dropout=dropout, l2=2.0, user_power=0.0, dtype="float64").fit(X, groups=group)
    G, B = oracles.gram(X.toarray()), model.weights_.toarray()
    H = G + dropout / (1 - dropout) * oracles.same_group(group) * G + 2.0 * np.eye(m)
    merit = G**2 / np.diag(H)[:, None]
    for i in range(m):
        assert not B[group == group[i], i].any()
        others = np.flatnonzero((group != group[i]) & (np.diag(G) > 0) & ((G[:, i] > 0) | (k >= m - 1)))
        if not G[i, i] or not len(others):
            assert not B[:, i].any()
            continue
        order = others[np.argsort(-merit[others, i], kind="stable")]
        if len(others) > k and merit[order[k - 1], i] <= merit[order[k], i] * (1 + 1e-9):
            continue  # which of two equal neighbours is left out is another question
        S = np.sort(order[:k])
        beta = np.linalg.solve(H[np.ix_(S, S)], G[S, i])
        np.testing.assert_allclose(B[S, i], beta, atol=1e-9)
        assert not np.delete(B[:, i], S).any()


@every_kind
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_of_one_item_change_nothing(kind, dtype):
    X = example()
    plain = KINDS[kind](dtype=dtype).fit(X)
    alone = KINDS[kind](dtype=dtype).fit(X, groups=np.arange(X.shape[1]))
    np.testing.assert_array_equal(alone.weights_.toarray(), plain.weights_.toarray())
    assert alone.objective_ == pytest.approx(plain.objective_, rel=1e-5)


@every_kind
def test_data_and_gram_give_the_same_weights(kind):
    X, make = example(), KINDS[kind]
    model = make(user_power=0.5, dtype="float64").fit(X, groups=NAMES)
    again = make(user_power=0.5, dtype="float64").fit_gram(gram(X, 0.5), groups=NAMES)
    close(again.weights_.toarray(), model.weights_.toarray(), "float64")
    assert again.objective_ == pytest.approx(model.objective_)


@given(interactions(min_items=2), dtypes)
def test_an_objective_is_never_below_that_without_groups(X, dtype):
    m = X.shape[1]
    group = np.arange(m) // 2 if m > 2 else np.arange(m)
    free = od.EDLAE(dropout=0.5, l2=2.0, dtype=dtype).fit(X)
    bound = od.EDLAE(dropout=0.5, l2=2.0, dtype=dtype).fit(X, groups=group)
    assert bound.objective_ >= free.objective_ * (1 - 1e-4) - 1e-3


@every_kind
def test_adding_and_forgetting_users_is_a_fit_on_the_others(kind):
    X = od.synthetic.interactions(60, 20, 500, seed=1)
    groups = {item: n // 3 for n, item in enumerate(X.item_ids.tolist())} | {"not there yet": 0}
    first, more = X.select_users(slice(0, 40)), X.select_users(slice(40, 60))
    model = KINDS[kind](dtype="float64", user_power=0.0).fit(od.prepare.min_counts(first), groups=groups)
    model.update(more)
    whole = KINDS[kind](dtype="float64", user_power=0.0).fit(X, groups=groups)
    order = np.argsort(model.item_ids_)
    B = model.weights_.toarray()[np.ix_(order, order)]
    close(B, whole.weights_.toarray()[np.ix_(*[np.argsort(whole.item_ids_)] * 2)], "float64")
    certificate = model.forget(more, prove=True)
    assert certificate.proof < 1e-9
    assert model.groups_ is not None


def test_a_new_item_belongs_to_the_group_that_the_fit_was_told():
    log = {"user": [1, 1, 2, 2, 3, 3], "item": ["a", "b", "a", "b", "b", "c"]}
    model = od.EDLAE(dropout=0.3, l2=1.0).fit(log, groups={"a": "cup", "d": "cup"})
    assert model.weights_.toarray()[0, 1] > 0
    model.update({"user": [4, 4, 4], "item": ["a", "d", "c"]})
    a, d = (model.item_ids_.tolist().index(item) for item in "ad")
    assert model.weights_.toarray()[a, d] == model.weights_.toarray()[d, a] == 0


@every_kind
def test_files_copies_pickles_and_compressed_models_keep_the_groups(kind, tmp_path):
    X = od.synthetic.interactions(60, 20, 500, seed=1)
    model = KINDS[kind]().fit(X, groups={item: n // 3 for n, item in enumerate(X.item_ids.tolist())})
    model.save(tmp_path / "model.od")
    for again in (od.load(tmp_path / "model.od"), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert again.groups_.to_dicts() == model.groups_.to_dicts()
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    small = od.compress(model, keep=5)
    assert small.groups_ is model.groups_
    group = np.arange(20) // 3
    assert not small.weights_.toarray()[oracles.same_group(group) == 1].any()
    assert KINDS[kind]().fit(X).groups_ is None
    assert model.fit(X).groups_ is None  # a new fit without groups has none


@pytest.mark.parametrize("power", [0.3, -0.2])
def test_scores_are_divided_by_popularity_as_without_groups(power):
    X = example()
    plain = od.EDLAE(dropout=0.4, l2=3.0).fit(X, groups=NAMES)
    divided = od.EDLAE(dropout=0.4, l2=3.0, propensity_power=power).fit(X, groups=NAMES)
    close(divided.predict(X), plain.with_propensity(power).predict(X), "float32")


def test_models_that_cannot_take_groups_say_so():
    X = example()
    for model in (od.DLAE(), od.RDLAE()):
        with pytest.raises(od.OffdiagError, match=r"does not learn from groups; expected EASE, EDLAE, SparseEDLAE"):
            model.fit(X, groups=NAMES)
    for model in (od.LowRankEDLAE(rank=2), od.Popularity(), od.ItemKNN()):
        with pytest.raises(od.OffdiagError, match="does not learn from groups"):
            model.fit(X, groups=NAMES)
    with pytest.raises(od.OffdiagError, match="kept_weight=0, received 0.5"):
        od.EDLAE(kept_weight=0.5).fit(X, groups=NAMES)
    with pytest.raises(od.OffdiagError, match="rank=0, received 2"):
        od.SparseEDLAE(rank=2).fit(X, groups=NAMES)


def test_contributions_of_grouped_models_add_up_to_the_score():
    X = od.synthetic.interactions(60, 20, 500, seed=1)
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(X, groups={item: n // 3 for n, item in enumerate(X.item_ids.tolist())})
    history, item = X.item_ids[:6].tolist(), X.item_ids[4]
    reasons = model.explain(history, item)
    parts = dict(zip(reasons.items.tolist(), reasons.contributions.tolist(), strict=True))
    assert reasons.score == pytest.approx(float(model.predict([history])[0, 4]), rel=1e-5)
    assert [parts[at] for at in parts if at in X.item_ids[3:6].tolist()] == [0, 0, 0]


def one_of_each(scores, seen, group, k):
    """By a stable sort and a set: the slow twin of ``one_per_group``."""
    out, met = [], set()
    for item in sorted(np.flatnonzero(~seen), key=lambda i: (-scores[i], i)):
        if group[item] not in met:
            met.add(group[item])
            out.append(int(item))
    return out[:k]


@given(interactions(max_users=8, min_items=2), st.integers(1, 9), st.integers(0, 4), dtypes)
def test_a_list_has_the_best_item_of_each_of_the_best_groups(X, k, n_groups, dtype):
    m = X.shape[1]
    group = np.arange(m) % (n_groups + 2)
    model = od.EDLAE(dropout=0.3, l2=1.0, dtype=dtype).fit(X, groups=group)
    lists = model.recommend(X, k=k, one_per_group=True)
    scores, rows = model.predict(X), X.toarray()
    for u in range(X.shape[0]):
        values = scores[u] if rows[u].any() else model.popularity_
        wanted = one_of_each(values, rows[u] > 0, group, min(k, m))
        assert lists.indices[u, : lists.lengths[u]].tolist() == wanted


def test_a_list_reaches_beyond_the_first_candidates_to_fill_its_places():
    X = od.synthetic.interactions(50, 400, 8_000, seed=2)
    popular = np.argsort(-np.bincount(X.matrix.indices, minlength=400), kind="stable")
    group = np.arange(400)
    group[popular[:390]] = 0  # nearly all belong together
    lists = od.EDLAE(l2=5.0).fit(X, groups=group).recommend(X, k=10, one_per_group=True)
    left = [len(set(group[np.setdiff1d(np.arange(400), X.matrix[[u]].indices)])) for u in range(50)]
    assert lists.lengths.tolist() == np.minimum(left, 10).tolist()
    assert all(len(set(group[row[row >= 0]])) == (row >= 0).sum() for row in lists.indices)


def test_groups_of_a_catalogue_serve_any_model(tmp_path):
    X = od.synthetic.interactions(60, 20, 500, seed=1)
    shop = od.Catalogue.of(X.item_ids.tolist(), {"group": [str(n // 4) for n in range(20)]})
    for model in (od.Popularity(), od.LowRankEDLAE(rank=3), od.EASE(l2=3.0)):
        lists = model.fit(X).with_catalogue(shop).recommend(X, k=5, one_per_group=True)
        assert all(len(set(row // 4)) == len(row) for row in (r[r >= 0] for r in lists.indices))
    varied = od.Reranked(od.EASE(l2=3.0).fit(X).with_catalogue(shop), diversity=0.3)
    assert all(len(set(row // 4)) == len(row) for row in varied.recommend(X, k=3, one_per_group=True).indices)
    written = model.with_catalogue(shop).recommend_to(tmp_path / "top.csv", X, k=5, one_per_group=True)
    assert written.n_rows == int(lists.lengths.sum())


def test_lists_of_one_per_group_need_groups_and_no_other_quota():
    X = od.synthetic.interactions(60, 20, 500, seed=1)
    model = od.EASE(l2=3.0).fit(X)
    with pytest.raises(od.OffdiagError, match="one_per_group needs groups, and this EASE has none"):
        model.recommend(X, one_per_group=True)
    with pytest.raises(od.OffdiagError, match="one_per_group"):
        model.recommend(X, one_per_group="yes")
    kinds = {item: n % 3 for n, item in enumerate(X.item_ids.tolist())}
    model = od.EASE(l2=3.0).fit(X, groups=kinds)
    with pytest.raises(od.OffdiagError, match="two quotas"):
        od.Reranked(model, at_most=2, categories=kinds).recommend(X, one_per_group=True)


def test_tuning_fits_every_trial_with_the_groups():
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)
    kinds = {item: n // 2 for n, item in enumerate(X.item_ids.tolist())}
    split = od.split.strong(X, held_out=0.2)
    tuned = od.tune(od.EDLAE, split, trials=2, groups=kinds, metric="ndcg@10")
    again = od.evaluate(tuned.model.fit(split.train, groups=kinds), split.validation, ["ndcg@10"])
    assert again.mean["ndcg@10"] == pytest.approx(tuned.value, rel=1e-3)
    assert tuned.gain(split).tuned.n_users == 60
    with pytest.raises(od.OffdiagError, match="DLAE does not learn from groups"):
        od.tune(od.DLAE, split, trials=1, groups=kinds)


@pytest.mark.parametrize("kind", ["ease", "edlae"])
def test_a_pair_of_items_is_taken_apart_without_a_rest(kind):
    X = od.synthetic.interactions(60, 20, 500, seed=1)
    model = KINDS[kind](dtype="float64").fit(X, groups={item: n // 3 for n, item in enumerate(X.item_ids.tolist())})
    pair = model.explain_pair(X.item_ids[0], X.item_ids[7])
    assert pair.together == pytest.approx(pair.direct + pair.amounts.sum())
    assert abs(pair.rest) < 1e-9
    assert model.explain_pair(X.item_ids[0], X.item_ids[1]).weight == 0
