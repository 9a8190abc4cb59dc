"""Scores of all items, for users in any form."""

import copy

import numpy as np
import polars as pl
import pytest

import offdiag as od


@pytest.fixture(scope="module")
def data():
    return od.synthetic.interactions(60, 20, 500, seed=0)


@pytest.fixture(scope="module")
def model(data):
    return od.EASE(l2=5.0).fit(data)


def test_scores_do_not_depend_on_the_form_of_the_users(model, data):
    scores = model.predict(data)
    assert scores.shape == (60, 20)
    assert np.allclose(scores, data.matrix.toarray() @ model.weights_.toarray(), atol=1e-6)
    assert np.array_equal(model.predict(data.matrix), scores)
    assert np.array_equal(model.predict(data.matrix.toarray()), scores)
    assert np.array_equal(model.predict(data.to_polars()), scores)
    assert np.array_equal(model.predict([data.history(user) for user in data.user_ids]), scores)


def test_a_matrix_has_the_columns_of_the_model(model, data):
    for X in (data.matrix[:, :3], data.matrix.toarray()[:, :3]):
        with pytest.raises(od.OffdiagError, match="X has 3 features, but EASE is expecting 20 features as input"):
            model.predict(X)


def test_ids_that_are_unknown_are_warned_about_where_the_call_is(model):
    with pytest.warns(od.UnknownItemsWarning) as caught:
        model.predict([["no such item"]])
    assert caught[0].filename == __file__
    with pytest.warns(od.UnknownItemsWarning) as caught:
        model.score(od.read({"user": [1, 1, 1], "item": [*model.item_ids_[:2].tolist(), "no such item"]}))
    assert caught[0].filename == __file__


def timed(n_users=200):
    return od.synthetic.interactions(n_users, 25, 1_800, times=True, names=False, seed=3)


LINEAR = [
    od.EASE(l2=5.0), od.EDLAE(l2=5.0, storage="dense"), od.SparseEDLAE(neighbours=8), od.LowRankEDLAE(rank=5),
    od.SLIM(), od.ItemKNN(), od.NextItem(l2=5.0, history_decay=0.9),
]  # fmt: skip
DAY = 86_400.0


@pytest.mark.parametrize("model", LINEAR, ids=lambda model: type(model).__name__)
def test_every_linear_model_weighs_a_history_by_age(model):
    """Against sums over the rows of its weights."""
    inter = timed()
    fitted = copy.deepcopy(model).fit(inter)
    B, known = (
        fitted.weights_.toarray().astype(np.float64),
        {item: at for at, item in enumerate(fitted.item_ids_.tolist())},
    )
    ids = fitted.item_ids_[[4, 9, 1, 4]].tolist()
    rows = [B[known[item]] for item in ids]
    by_place = sum(0.5 ** (3 - at) * row for at, row in enumerate(rows))
    np.testing.assert_allclose(fitted.predict([ids], history_decay=0.5)[0], by_place, atol=1e-5)
    dates = ["2026-01-01", "2026-01-02", "2026-01-05", "2026-01-06"]
    by_time = sum(0.5 ** (age / 2) * row for age, row in zip((5, 4, 1, 0), rows, strict=True))
    pairs = [list(zip(ids, dates, strict=True))]
    np.testing.assert_allclose(fitted.predict(pairs, history_half_life=2 * DAY)[0], by_time, atol=1e-5)
    lists = fitted.recommend(pairs, k=5, history_half_life=2 * DAY, reasons=True)
    by_time[[known[item] for item in ids]] = -np.inf
    np.testing.assert_allclose(lists.scores[0], np.sort(by_time)[::-1][:5], atol=1e-5)
    item = lists.items[0, 0].item()
    why = fitted.explain(pairs, item, history_half_life=2 * DAY)
    assert why.score == why.contributions.sum()
    assert why.score == pytest.approx(lists.scores[0, 0], abs=1e-5)
    assert why.rank == 1
    if why.contributions.max() > 0:
        assert lists.reasons.items[0, 0] == why.items[np.argmax(why.contributions)]
    for part, factor, other in zip(why.contributions, why.age_weights, why.items.tolist(), strict=True):
        assert part == pytest.approx(factor * B[known[other], known[item]], abs=1e-6)
    assert dict(zip(why.items.tolist(), why.ages.tolist(), strict=True))[ids[2]] == DAY


def test_the_files_of_a_weighted_history_hold_the_same_lists(tmp_path):
    inter = timed()
    model = od.EASE(l2=5.0).fit(inter)
    model.recommend_to(tmp_path / "top.jsonl", inter, k=3, history_half_life=30 * DAY)
    written = pl.read_ndjson(tmp_path / "top.jsonl")["item"].to_numpy().reshape(-1, 3)
    np.testing.assert_array_equal(written, model.recommend(inter, k=3, history_half_life=30 * DAY).items)
    assert not np.array_equal(written, model.recommend(inter, k=3).items)
    with pytest.raises(od.OffdiagError, match="received a set"):
        model.recommend_to(tmp_path / "sets.jsonl", [{0, 1}], history_decay=0.5)


def test_a_table_of_events_is_weighed_row_by_row():
    model = od.EASE(l2=5.0).fit(timed().to_polars(), time="time")
    log = pl.DataFrame({"user": [1, 1, 1], "item": [3, 7, 3], "time": [5, 1, 2]})
    ours = model.recommend(log, k=4, history_decay=0.5)
    np.testing.assert_array_equal(ours.scores, model.recommend([[7, 3, 3]], k=4, history_decay=0.5).scores)


def test_a_learned_half_life_is_used_and_can_be_replaced(tmp_path):
    inter = timed()
    model = od.NextItem(l2=5.0, history_half_life=30 * DAY).fit(inter)
    assert "history_decay" not in model.settings_
    model.save(tmp_path / "next.od")
    model = od.load(tmp_path / "next.od")
    plain = od.EASE(l2=5.0).fit(inter)
    plain.weights_ = model.weights_
    wanted = plain.recommend(inter, k=5, history_half_life=30 * DAY)
    np.testing.assert_array_equal(model.recommend(inter, k=5).scores, wanted.scores)
    ids = inter.history(0)
    with pytest.raises(od.OffdiagError, match="needs the time of each choice"):
        model.recommend([ids], k=5)
    by_place = model.recommend([ids], k=5, history_decay=0.7)
    np.testing.assert_array_equal(by_place.scores, plain.recommend([ids], k=5, history_decay=0.7).scores)
    flat = model.recommend([set(ids)], k=5, history_decay=1)
    np.testing.assert_array_equal(flat.scores, plain.recommend([ids], k=5).scores)


def test_both_forms_of_recency_in_one_model_are_refused():
    with pytest.raises(od.OffdiagError, match="history_decay or history_half_life, received both"):
        od.NextItem(history_decay=0.5, history_half_life=3.0).fit(timed())


@pytest.mark.parametrize("model", [od.WMF(rank=3), od.Popularity()], ids=lambda model: type(model).__name__)
def test_models_that_are_not_linear_refuse_recency(model):
    fitted = copy.deepcopy(model).fit(timed())
    with pytest.raises(od.OffdiagError, match="need a linear model"):
        fitted.recommend([[1, 2]], history_decay=0.5)
    assert fitted.recommend([[1, 2]], k=2, history_decay=1).items.shape == (1, 2)


def test_reranked_lists_weigh_a_history_too():
    inter = timed()
    model = od.EASE(l2=5.0).fit(inter)
    varied = od.Reranked(model, at_most=25, categories=dict.fromkeys(range(25), "any"))  # which leaves them as they are
    ours = varied.recommend(inter, k=4, history_half_life=30 * DAY).items
    np.testing.assert_array_equal(ours, model.recommend(inter, k=4, history_half_life=30 * DAY).items)
