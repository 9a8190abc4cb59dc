"""Users added to and removed from models of order, exactly."""

import copy

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.gramian import layout
from offdiag.gramian.order import count_order
from offdiag.living.exact_change import exchange_users
from tests.fixtures.ordered_histories import chains, inter_log, log_of, small
from tests.laws.strategies import ordered

TIMED = {"time": "time", "keep": "events"}
LIMIT = {"float32": 1e-5, "float64": 1e-11}


def sums_of(model):
    return {name: array.copy() for name, array in model.gram_.arrays().items()}


def same_sums(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        assert array.tobytes() == other[name].tobytes(), name


def users(log, wanted):
    return od.read(log.filter(pl.col("user").is_in(list(wanted))), time="time", keep="events")


fadings = st.sampled_from([{}, {"window": 2}, {"decay": "auto", "half_life": 2.5}, {"targets": "later"}])


@settings(deadline=None)
@given(
    data=ordered(), more=ordered(), fading=fadings, mix=st.sampled_from([0.0, 0.3, 1.0]),
    power=st.sampled_from([0.0, 0.5, -0.4]), repeats=st.booleans(), dtype=st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_adding_then_forgetting_is_the_identity(data, more, fading, mix, power, repeats, dtype):
    """Bit for bit in the sums, whatever items and histories come and go."""
    events, later = data[0], more[0]
    if not any(len(user) > 1 for user in events) or not any(later):
        return
    inter = od.read(log_of(events), time="time", keep="events")
    new = od.read(log_of(later).with_columns(pl.col("user") + 1000), time="time", keep="events")
    model = small(mix=mix, user_power=power, repeats=repeats, dtype=dtype, **fading).fit(inter)
    before, B = sums_of(model), model.weights_.toarray()
    ids = model.item_ids_.copy()
    assert model.update(new).n_users_ == inter.n_users + new.n_users
    certificate = model.forget(new)
    assert certificate.matches(model)
    np.testing.assert_array_equal(model.item_ids_, ids)
    same_sums(before, sums_of(model))
    np.testing.assert_allclose(model.weights_.toarray(), B, atol=LIMIT[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("fading", [{}, {"decay": "auto", "half_life": 2.5}])
def test_forgetting_is_a_fit_without_these_users(dtype, power, fading):
    inter = chains()
    log = inter_log(inter)
    gone = inter.user_ids[[0, 3, 77]].tolist()
    model = small(user_power=power, dtype=dtype, **fading).fit(inter)
    certificate = model.forget(users(log, gone), prove=True)
    fresh = small(user_power=power, dtype=dtype, **fading).fit(users(log, set(inter.user_ids.tolist()) - set(gone)))
    same_sums(sums_of(model), sums_of(fresh))
    np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=LIMIT[dtype])
    np.testing.assert_array_equal(model.popularity_, fresh.popularity_)
    assert (certificate.action, certificate.users, certificate.n_users) == ("forget", 3, 197)
    assert certificate.proof == 0.0
    assert certificate.weight_error <= certificate.bound


def test_new_items_enter_and_items_without_users_leave():
    log = pl.DataFrame({"user": [1, 1, 1, 2, 2], "item": ["b", "d", "b", "d", "b"], "time": [1, 2, 3, 1, 2]})
    new = pl.DataFrame({"user": [7, 7, 7], "item": ["c", "a", "d"], "time": [1, 2, 3]})
    whole, first, second = (od.read(table, time="time", keep="events") for table in (pl.concat([log, new]), log, new))
    model = small().fit(first)
    model.update(second)
    assert model.item_ids_.tolist() == ["a", "b", "c", "d"]
    assert model.last_change.new_items == ["a", "c"]
    fresh = small().fit(whole)
    same_sums(sums_of(model), sums_of(fresh))
    np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=1e-5)
    assert model.forget(second).gone_items == ["a", "c"]


def test_the_sums_are_those_that_a_fit_counts():
    inter = chains()
    model = small(dtype="float64", user_power=0.5).fit(inter)
    true = count_order(
        inter.events, inter.n_items, model._ageing(), user_power=0.5, mix=0.3, matrix=inter.matrix, dtype="float64"
    )
    mine = model.gram_.mixed(0.3, "float64")
    np.testing.assert_allclose(mine.K, true.K, rtol=1e-12)
    np.testing.assert_allclose(layout.unpack(mine.A, inter.n_items), layout.unpack(true.A, inter.n_items), rtol=1e-12)


def test_a_history_in_another_order_was_never_learned():
    inter = chains()
    model = small().fit(inter)
    before = sums_of(model)
    one = inter_log(inter).filter(pl.col("user") == inter.user_ids[5])
    assert len(one) > 1
    back = od.read(one.with_columns(time=-pl.col("time")), time="time", keep="events")
    with pytest.raises(od.OffdiagError, match="no user in it has the history of"):
        model.forget(back)
    same_sums(before, sums_of(model))
    model.forget(od.read(one.with_columns(time=pl.col("time") * 7), time="time", keep="events"))  # the same order


def test_times_identify_a_history_where_they_count():
    inter = chains()
    model = small(decay="auto", half_life=3.0).fit(inter)
    one = inter_log(inter).filter(pl.col("user") == inter.user_ids[5])
    with pytest.raises(od.OffdiagError, match="no user in it has the history of"):
        model.forget(od.read(one.with_columns(time=pl.col("time") * 7), time="time", keep="events"))
    assert model.forget(od.read(one, time="time", keep="events")).users == 1


def test_a_user_is_forgotten_only_once():
    log = log_of([[(0, 1), (1, 2)], [(1, 1), (0, 2)], [(0, 1), (1, 2)], [(2, 1), (0, 2), (1, 3)]])
    model = small().fit(od.read(log, time="time", keep="events"))
    model.forget(users(log, [1]))
    with pytest.raises(od.OffdiagError, match="no user in it has the history of user 1"):
        model.forget(users(log, [1]))
    assert model.forget(users(log, [0])).n_users == 2  # user 2, with the same history, stays


def test_users_without_an_order_are_refused():
    inter = chains()
    model = small().fit(inter)
    for wrong in (inter.matrix, od.read(inter.matrix)):
        with pytest.raises(od.OffdiagError, match="learns from the order of events"):
            model.update(wrong)


def test_a_saved_state_can_be_changed_later(tmp_path):
    log = inter_log(chains())
    some = users(log, range(10))
    model = small(dtype="float64").fit(od.read(log, time="time", keep="events"))
    model.save(tmp_path / "next.od", updatable=True, key=tmp_path / "key")
    loaded = od.load(tmp_path / "next.od", key=tmp_path / "key")
    same_sums(sums_of(loaded), sums_of(model))
    for each in (model, loaded):
        assert each.forget(some).users == 10
    same_sums(sums_of(loaded), sums_of(model))
    np.testing.assert_array_equal(loaded.weights_.toarray(), model.weights_.toarray())


def test_a_changed_source_is_noticed():
    inter = chains()
    model = small().fit(inter)
    inter.events.items[:2] = inter.events.items[:2][::-1].copy()
    if inter.events.items[0] == inter.events.items[1]:
        return
    with pytest.raises(od.OffdiagError, match="has been changed since"):
        model.update(inter)


def test_sparse_columns_are_not_changed():
    inter = chains()
    model = small(neighbours=3).fit(inter)
    with pytest.raises(od.OffdiagError, match="NextItem with neighbours cannot be updated"):
        model.update(inter)


def test_longer_histories_replace_shorter_ones_in_one_solve(monkeypatch):
    log = inter_log(chains())
    early = od.read(log.filter(pl.col("time") < 4), time="time", keep="events")
    grown = set(log.filter(pl.col("time") >= 4)["user"].to_list())
    model, fresh = small().fit(early), small().fit(od.read(log, time="time", keep="events"))
    before, B = sums_of(model), model.weights_.toarray()
    with pytest.raises(od.OffdiagError, match="no user in it has the history of"):
        exchange_users(model, users(log, grown), od.read(log_of([[(0, 1), (0, 2), (5, 3), (0, 4)]]), **TIMED))
    same_sums(before, sums_of(model))
    np.testing.assert_array_equal(model.weights_.toarray(), B)
    solved, solve = [], od.NextItem._solve
    monkeypatch.setattr(od.NextItem, "_solve", lambda *words: solved.append(1) or solve(*words))
    steps = exchange_users(model, users(log, grown), early.select_users(ids=sorted(grown)))
    assert [(step.action, step.method, step.users) for step in steps] == [
        ("update", "sums", len(grown)), ("forget", "refit", len(grown))
    ]  # fmt: skip
    assert len(solved) == 1
    assert steps[1].matches(model)
    same_sums(sums_of(model), sums_of(fresh))
    np.testing.assert_allclose(model.weights_.toarray(), fresh.weights_.toarray(), atol=1e-5)


def test_a_copy_is_not_changed_with_its_original():
    inter = chains()
    model = small().fit(inter)
    before = model.weights_.toarray()
    other = copy.copy(model)
    model.forget(inter.select_users(positions=np.arange(5)))
    np.testing.assert_array_equal(other.weights_.toarray(), before)
    assert other.forget(inter.select_users(positions=np.arange(5)), prove=True).proof == 0.0


def test_no_number_depends_on_users_who_have_left():
    """A unit chosen from the users of the fit would tell that one of them had few events."""
    log = log_of([[(0, 1), (1, 2), (2, 3)], [(1, 1), (0, 2), (1, 5)], [(2, 1), (0, 2)]])
    model = small(user_power=1.0).fit(od.read(log, time="time", keep="events"))
    model.forget(users(log, [2]))
    same_sums(sums_of(model), sums_of(small(user_power=1.0).fit(users(log, [0, 1]))))


def test_a_pair_is_not_explained_by_a_model_without_order():
    inter = chains()
    with pytest.raises(od.OffdiagError, match="received NextItem"):
        small().fit(inter).explain_pair(*inter.item_ids[:2])
