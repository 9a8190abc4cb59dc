"""NextItem with ``neighbours``: the laws that tie it to the dense solution and to other sparse models."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag import memory
from offdiag.cli import main
from tests.fixtures.ordered_histories import chains, inter_log, log_of, small
from tests.laws.oracles import TOLERANCE
from tests.laws.strategies import dropouts, dtypes, ordered


@settings(deadline=None)
@given(
    data=ordered(), mix=st.sampled_from([0.0, 0.4, 1.0]), dropout=dropouts, power=st.sampled_from([0.0, 0.5]),
    repeats=st.booleans(), targets=st.sampled_from(["next", "later"]), dtype=dtypes,
    fading=st.sampled_from([{"decay": 0.7}, {"decay": 1.0, "window": 2}, {"half_life": 2.0}]),
)  # fmt: skip
def test_all_others_as_neighbours_are_the_dense_solution(data, mix, dropout, power, repeats, targets, dtype, fading):
    events, _ = data
    if not any(len(user) > 1 for user in events):
        return
    inter = od.read(log_of(events), time="time", keep="events")
    both = [
        od.NextItem(
            mix=mix, dropout=dropout, l2=2.0, user_power=power, repeats=repeats, targets=targets, history_decay=0.5,
            dtype=dtype, neighbours=neighbours, **fading,
        ).fit(inter)
        for neighbours in (None, inter.n_items)
    ]  # fmt: skip
    one, other = (model.weights_.toarray() for model in both)
    np.testing.assert_allclose(one, other, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("mix", [0.4, 1.0])
def test_choices_too_old_to_count_still_count_as_pairs(mix):
    log = {"user": [0] * 4 + [1, 1], "item": [1, 3, 3, 2, 1, 2], "time": [0, 500, 1000, 1500, 0, 500]}
    inter = od.read(log, time="time", keep="events")
    dense, sparse = (small(mix=mix, decay="auto", half_life=2.0, neighbours=k).fit(inter) for k in (None, 3))
    np.testing.assert_allclose(sparse.weights_.toarray(), dense.weights_.toarray(), atol=1e-5)
    assert dense.weights_.toarray().any()


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_mix_one_is_the_sparse_edlae(power):
    inter = chains(m=40)
    model = small(mix=1.0, neighbours=5, user_power=power, dtype="float64").fit(inter)
    other = od.SparseEDLAE(neighbours=5, dropout=0.2, l2=2.0, user_power=power, dtype="float64").fit(inter)
    np.testing.assert_allclose(model.weights_.toarray(), other.weights_.toarray(), atol=1e-9)


def test_block_bytes_changes_no_bit_and_is_no_setting_of_the_fit():
    inter = chains(m=40)
    one, other = (small(neighbours=5, block_bytes=size).fit(inter) for size in ("auto", 200))
    np.testing.assert_array_equal(one.weights_.toarray(), other.weights_.toarray())
    assert one.settings_ == other.settings_
    assert one.settings_["neighbours"] == 5


def test_few_neighbours_still_know_what_comes_next(tmp_path):
    inter = chains(n_users=600)
    model = small(mix=0.0, history_decay=0.3, neighbours=3).fit(inter)
    assert (np.diff(model.weights_.tocsr().tocsc().indptr) <= 3).all()
    assert model.recommend([[4, 5, 6], [8, 1, 2]], k=1).items[:, 0].tolist() == [7, 3]
    assert model.explain([4, 5, 6], 7).items[0] == 6
    model.save(tmp_path / "next.od")
    np.testing.assert_array_equal(od.load(tmp_path / "next.od").predict([[4, 5]]), model.predict([[4, 5]]))


def test_settings_are_chosen_with_neighbours_too():
    model = od.NextItem(neighbours=5).fit(chains(n_users=300))
    assert {"mix", "l2", "decay", "history_decay", "neighbours"} <= model.settings_.keys()


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "many"])
def test_neighbours_must_be_a_whole_number(wrong):
    with pytest.raises(od.OffdiagError, match="neighbours must be"):
        small(neighbours=wrong).fit(chains(n_users=5))


def test_too_little_memory_is_said_before_the_fit(monkeypatch):
    inter = chains()
    monkeypatch.setattr(memory, "available", lambda: 500)
    with pytest.raises(od.OffdiagError, match="set neighbours"):
        small().fit(inter)
    with pytest.raises(od.OffdiagError, match="sparse model of 12 items with 5 neighbours"):
        small(neighbours=5).fit(inter)


def test_the_command_line_takes_neighbours(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    inter_log(chains(n_users=600)).write_csv("log.csv")
    words = ["--time", "time", "--in-order", "--mix", "0", "--history-decay", "0.3", "--neighbours", "4"]
    assert main(["fit", "log.csv", "--model", "next-item", "--out", "next.od", *words]) == 0
    capsys.readouterr()
    assert main(["recommend", "next.od", "--history", "4,5,6", "-k", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["items"][0]["item"] == 7
