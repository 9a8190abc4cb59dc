"""Splits of events by order and time; those of pairs are in test_split.py."""

import pytest

import offdiag as od

LOG = {
    "user": ["ann", "bob", "ann", "ann", "bob", "cyd"],
    "item": ["tea", "jam", "cup", "tea", "jam", "cup"],
    "day": [3, 1, 1, 7, 1, 5],
}


def read(**words):
    return od.read(LOG, time="day", keep="events", **words)


def test_the_last_event_is_held_out_even_if_it_is_a_repeat():
    split = od.split.last_out(read())
    ids = split.train.item_ids
    assert split.train.history("ann") == ["cup"]
    assert ids[split.test.targets[[0]].indices].tolist() == ["tea"]
    assert ids[split.test.histories[[0]].indices].tolist() == ["cup", "tea"]
    assert ids[split.test.ordered.events.of(0)].tolist() == ["cup", "tea"]
    assert ids[split.validation.targets[[0]].indices].tolist() == ["tea"]
    assert split.validation.targets[[1]].nnz == 0  # bob has two events: one to learn from, one to test
    assert split.test.targets[[2]].nnz == 0


def test_events_in_order_need_no_times_for_last_out():
    log = {"user": [1, 1, 1], "item": ["b", "a", "b"]}
    split = od.split.last_out(od.read(log, keep="events"))
    assert split.train.history(1) == ["b"]
    with pytest.raises(od.OffdiagError, match="with times for by_time"):
        od.split.by_time(od.read(log, keep="events"), at=3)
    with pytest.raises(od.OffdiagError, match="two interactions or more"):
        od.split.last_out(od.read({"user": [1], "item": [1]}, keep="events"))


def test_nothing_after_the_cut_is_known_before_it():
    split = od.split.by_time(read(), at=5, validation_at=2)
    assert split.train.history("ann") == ["cup"]
    assert split.train.history("cyd") == []
    assert split.train.events.times.max() < 2
    assert split.test.ordered.events.times.max() < 5
    assert split.test.ordered.events.of(0).tolist() == [split.train.item_ids.tolist().index(x) for x in ("cup", "tea")]
    assert split.test.targets[[0]].nnz == 1  # the second tea, although the first one is in the history
