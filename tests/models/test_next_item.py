"""NextItem: the laws that tie it to other models, what it learns from, and what it refuses."""

import copy
import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.cli import main
from tests.fixtures.ordered_histories import chains, inter_log, log_of, small
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, ordered


@settings(deadline=None)
@given(
    data=ordered(), mix=st.sampled_from([0.0, 0.4]), dropout=dropouts, power=st.sampled_from([0.0, 0.5]),
    repeats=st.booleans(), targets=st.sampled_from(["next", "later"]), dtype=dtypes,
)  # fmt: skip
def test_weights_solve_the_stated_problem(data, mix, dropout, power, repeats, targets, dtype):
    events, _ = data
    if not any(len(user) > 1 for user in events):
        return
    inter = od.read(log_of(events), time="time", keep="events")
    plain = [inter.events.of(u).tolist() for u in range(inter.n_users)]
    weights = oracles.user_weights(np.array([len(user) - 1 for user in plain]), power)
    A, K = oracles.order_sums(plain, inter.n_items, weights=weights, decay=0.7, later=targets == "later")
    G = oracles.gram(inter.matrix.toarray(), power)
    A, K = mix * G + (1 - mix) * A, mix * G + (1 - mix) * K
    model = od.NextItem(
        mix=mix, dropout=dropout, l2=2.0, decay=0.7, user_power=power, repeats=repeats, targets=targets,
        history_decay=0.5, dtype=dtype,
    ).fit(inter)  # fmt: skip
    true = oracles.next_item_weights(A, K, dropout, 2.0, repeats=repeats)
    np.testing.assert_allclose(model.weights_.toarray(), true, atol=10 * oracles.TOLERANCE[dtype])


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_mix_one_is_edlae(power):
    inter = chains()
    model = small(mix=1.0, user_power=power, dtype="float64").fit(inter)
    edlae = od.EDLAE(dropout=0.2, l2=2.0, user_power=power, dtype="float64").fit(inter)
    np.testing.assert_allclose(model.weights_.toarray(), edlae.weights_.toarray(), atol=1e-12)


def test_a_window_of_one_is_a_weighted_markov_chain():
    """With one item as source, Σ sᵀs is diagonal: each weight is a count over the number of departures."""
    inter = chains()
    model = small(window=1, mix=0.0, dropout=0.25, repeats=True, dtype="float64").fit(inter)
    counts, left = np.zeros((inter.n_items, inter.n_items)), np.zeros(inter.n_items)
    for u in range(inter.n_users):
        items = inter.events.of(u).tolist()
        for i, j in pairwise(items):
            counts[i, j] += 1
            left[i] += 1
    true = counts / (left + left / 3 + 2.0)[:, None]  # dropout/(1 − dropout) = 1/3
    np.testing.assert_allclose(model.weights_.toarray(), true, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_users_in_any_order_give_the_same_weights(dtype):
    inter = chains()
    shuffled = inter.select_users(positions=np.random.default_rng(0).permutation(inter.n_users))
    one, other = (small(mix=0.0, dtype=dtype).fit(x).weights_.toarray() for x in (inter, shuffled))
    np.testing.assert_array_equal(one, other)


def test_users_without_two_events_change_nothing():
    inter = chains()
    more = pl.concat([
        inter_log(inter), pl.DataFrame({"user": [9001], "item": [3], "time": [5]}),
    ])  # fmt: skip
    longer = od.read(more, time="time", keep="events")
    one, other = (small(mix=0.0).fit(x).weights_.toarray() for x in (inter, longer))
    np.testing.assert_array_equal(one, other)


def test_times_far_apart_make_the_past_fade():
    """With a half-life far below the gaps, only the last event before the next one counts; far above, all alike."""
    inter = chains()
    flat = small(decay=1.0, dtype="float64").fit(inter).weights_.toarray()
    slow = small(decay="auto", half_life=1e9, dtype="float64").fit(inter).weights_.toarray()
    np.testing.assert_allclose(slow, flat, atol=1e-6)


def test_what_follows_is_recommended_next():
    inter = chains(n_users=600)
    model = small(mix=0.0, history_decay=0.3).fit(inter)
    assert model.recommend([[4, 5, 6], [8, 1, 2]], k=1).items[:, 0].tolist() == [7, 3]


def test_the_order_of_a_history_matters_by_its_decay():
    model = small().fit(chains())
    forward, back = (model.recommend([ids], k=3).scores for ids in ([1, 5], [5, 1]))
    assert not np.allclose(forward, back)
    flat = small(history_decay=1.0).fit(chains())
    forward, back = (flat.recommend([ids], k=3).scores for ids in ([1, 5], [5, 1]))
    np.testing.assert_array_equal(forward, back)


def test_scores_are_weights_times_the_aged_history():
    model = small(history_decay=0.5).fit(chains())
    B = model.weights_.toarray()
    true = B[2] + 0.5 * B[7] + 0.25 * B[2]
    np.testing.assert_allclose(model.predict([[2, 7, 2]])[0], true, rtol=1e-6)
    why = model.explain([2, 7, 2], 3)
    assert abs(why.score - true[3]) < 1e-6
    assert dict(zip(why.items.tolist(), why.contributions, strict=True))[7] == pytest.approx(0.5 * B[7, 3], abs=1e-6)


def test_interactions_and_lists_of_their_ids_get_the_same_lists():
    inter = chains()
    model = small().fit(inter)
    some = inter.select_users(positions=np.arange(40))
    lists = [some.history(user) for user in some.user_ids.tolist()]
    np.testing.assert_array_equal(model.recommend(some, k=5).indices, model.recommend(lists, k=5).indices)
    by_id = model.recommend(users=some.user_ids[:3].tolist(), data=inter, k=5)
    np.testing.assert_array_equal(by_id.indices, model.recommend(lists[:3], k=5).indices)


def test_pairs_with_times_are_an_order_too():
    X = od.synthetic.interactions(200, 20, 1_500, times=True, seed=0)
    model = small().fit(X)
    assert model.recommend(X, k=3).items.shape == (200, 3)
    np.testing.assert_array_equal(model.recommend([X.history(7)], k=3).indices[0], model.recommend(X, k=3).indices[7])


def test_a_saved_model_gives_the_same_lists(tmp_path):
    inter = chains()
    model = small(window=3).fit(inter)
    model.save(tmp_path / "next.od")
    loaded = od.load(tmp_path / "next.od")
    assert loaded.settings_ == model.settings_
    for other in (loaded, copy.deepcopy(model)):
        np.testing.assert_array_equal(other.recommend(inter, k=4).scores, model.recommend(inter, k=4).scores)


def test_last_out_is_evaluated_in_order():
    split = od.split.last_out(chains(n_users=600))
    model = small(mix=0.0, history_decay=0.3).fit(split.train)
    measured = od.evaluate(model, split.test, ["hit@1", "mrr@5"]).mean
    assert measured["hit@1"] > 0.5
    assert od.evaluate(od.EASE(l2=2.0).fit(split.train), split.test, "hit@1").mean["hit@1"] < measured["hit@1"] - 0.2


def test_defaults_follow_the_data():
    """Where everything depends on the last item, the past fades fast; where the order is random, it hardly does."""
    steps = od.NextItem().fit(chains(n_users=1500, m=30)).settings_
    X = od.synthetic.interactions(1500, 60, 20_000, times=True, seed=0)
    anyhow = od.NextItem().fit(X).settings_
    assert steps["history_decay"] < anyhow["history_decay"]
    assert steps["mix"] <= anyhow["mix"]


def test_tuning_finds_settings_of_order():
    split = od.split.last_out(chains(n_users=300))
    tuned = od.tune(od.NextItem, split, metric="hit@1", trials=3, seed=0)
    assert {"mix", "l2", "decay", "history_decay"} <= tuned.settings.keys()
    assert od.evaluate(tuned.model.fit(split.train), split.validation, "hit@1").mean["hit@1"] == tuned.value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.eye(3), "received ndarray; read the table with time="),
        (od.read(np.eye(3)), "received Interactions without times"),
        (od.read({"user": [1, 2], "item": [1, 2], "t": [1, 2]}, time="t"), "two events or more"),
    ],
)
def test_data_without_an_order_is_refused_with_advice(data, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.NextItem().fit(data)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"decay": 0}, r"decay must be a number in \(0, 1\]"),
        ({"decay": 1.1}, r"decay must be a number in \(0, 1\]"),
        ({"history_decay": -1}, r"history_decay must be a number in \(0, 1\]"),
        ({"half_life": 0}, "half_life must be"),
        ({"window": 0}, "window must be a whole number of at least 1"),
        ({"targets": "all"}, "targets must be 'next' or 'later'"),
        ({"repeats": 1}, "repeats must be True or False"),
        ({"mix": 2}, r"mix must be a number in \[0, 1\]"),
        ({"half_life": 3.0}, "decay or half_life, received both"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, message):
    with pytest.raises(od.OffdiagError, match=message):
        small(**wrong).fit(chains(n_users=5))


def test_a_half_life_needs_times():
    inter = od.read({"user": [1, 1], "item": [1, 2]}, keep="events")
    with pytest.raises(od.OffdiagError, match="half-life needs times"):
        od.NextItem(half_life=3.0).fit(inter)


def test_histories_without_an_order_are_refused():
    inter = chains()
    model = small().fit(inter)
    for histories, what in ((inter.matrix, "a matrix"), ([{1, 2}], "a set"), (od.read(np.eye(12)), "without times")):
        with pytest.raises(od.OffdiagError, match=f"by its order, but received .*{what}"):
            model.recommend(histories)


def test_values_are_not_used():
    log = inter_log(chains())
    stars = log.with_columns(stars=pl.Series(np.random.default_rng(0).integers(1, 6, len(log))))
    one = small().fit(od.read(log, time="time", keep="events"))
    other = small().fit(od.read(stars, time="time", value="stars", keep="events"))
    np.testing.assert_array_equal(one.weights_.toarray(), other.weights_.toarray())
    np.testing.assert_array_equal(one.popularity_, other.popularity_)


def test_what_would_ignore_the_order_refuses_the_model(tmp_path):
    model = small().fit(chains())
    pytest.importorskip("onnx")
    with pytest.raises(od.OffdiagError, match="takes a history as a set"):
        od.export.write_onnx(model, tmp_path / "next.onnx")


def test_a_compressed_model_still_weighs_by_order():
    inter = chains()
    model = small().fit(inter)
    compact = od.compress(model, keep=inter.n_items)
    np.testing.assert_allclose(compact.predict([[3, 4]]), model.predict([[3, 4]]), atol=0.02)
    assert not np.allclose(compact.predict([[3, 4]]), compact.predict([[4, 3]]))


def test_the_command_line_learns_and_recommends_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    inter_log(chains(n_users=600)).write_csv("log.csv")
    words = ["--model", "next-item", "--time", "time", "--in-order", "--mix", "0", "--history-decay", "0.3"]
    assert main(["fit", "log.csv", "--out", "next.od", *words]) == 0
    capsys.readouterr()
    assert main(["recommend", "next.od", "--history", "4,5,6", "-k", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["items"][0]["item"] == 7
    assert main(["recommend", "next.od", "--histories", "log.csv", "--time", "time", "-k", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 600
    assert main(["evaluate", "log.csv", "next.od", "--time", "time", "--in-order", "--metric", "hit@3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["mean"]["hit@3"] > 0.3
    assert main(["evaluate", "log.csv", "next.od", "--metric", "hit@3", "--json"]) == 0  # columns and order of the fit
    again = capsys.readouterr()
    assert json.loads(again.out)["models"][0]["mean"]["hit@3"] > 0.3
    assert "--time 'time'" in again.err


def test_the_command_line_reads_every_event_for_a_model_of_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small().fit(chains()).save("next.od")
    log = {"user": ["ann"] * 4, "item": [4, 5, 6, 4], "time": [1, 2, 3, 4]}  # a repeat counts twice
    pl.DataFrame(log).write_csv("log.csv")
    assert main(["recommend", "next.od", "--histories", "log.csv", "--time", "time", "-k", "3", "--json"]) == 0
    found = [item["score"] for item in json.loads(capsys.readouterr().out)[0]["items"]]
    expected = od.load("next.od").recommend([[4, 5, 6, 4]], k=3).scores[0].tolist()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
