"""Rows to Interactions: repeated pairs are merged, zeros dropped, dates converted; the result equals a dictionary."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offdiag.data.read import read
from tests.fixtures.tables import check_form, entries, refused, write


def test_duplicates_are_summed_with_a_value_and_kept_once_without():
    table = pl.DataFrame({"user": [1, 1, 1], "item": [2, 2, 3], "stars": [2.0, 5.0, 1.0], "at": [9, 4, 1]})
    assert entries(read(table)) == {(1, 2): 1, (1, 3): 1}
    assert entries(read(table, duplicates="sum")) == {(1, 2): 2, (1, 3): 1}
    assert entries(read(table, value="stars")) == {(1, 2): 7, (1, 3): 1}
    assert entries(read(table, value="stars", duplicates="once")) == {(1, 2): 5, (1, 3): 1}  # last in the table
    latest = read(table, value="stars", time="at", duplicates="once")
    assert entries(latest) == {(1, 2): 2, (1, 3): 1}  # last in time
    assert latest.times.tolist() == [9, 1]


def test_a_value_of_zero_is_no_interaction_but_its_user_and_item_stay():
    inter = read(pl.DataFrame({"user": [1, 2], "item": [3, 4], "value": [0, 5]}), value="value")
    assert entries(inter) == {(2, 4): 5}
    assert inter.matrix.shape == (2, 2)


def test_dates_become_seconds_since_1970(tmp_path):
    path = write(tmp_path / "t.csv", "user,item,at\n1,2,1970-01-02\n1,3,1970-01-03\n")
    assert read(path, time="at").times.tolist() == [86400, 172800]
    path = write(tmp_path / "z.csv", "user,item,at\n1,2,2010-10-17T01:48:53Z\n")
    assert read(path, time="at").times.tolist() == [1287280133]
    stamps = pd.DataFrame(
        {"user": [1, 1], "item": [2, 3], "at": pd.to_datetime(["1970-01-01 00:00:02.5", "1970-01-02 00:00:00.0"])}
    )
    assert read(stamps, time="at").times.tolist() == [2.5, 86400.0]
    aware = stamps.assign(at=stamps["at"].dt.tz_localize("UTC"))
    assert read(aware, time="at").times.tolist() == [2.5, 86400.0]
    assert read(pl.from_pandas(stamps), time="at").times.tolist() == [2.5, 86400.0]


ids = st.one_of(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    st.lists(
        st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=3),
        min_size=1,
        max_size=4,
        unique=True,
    ),
)


@settings(max_examples=150)
@given(ids, ids, st.data())
def test_a_random_table_equals_a_dictionary(users, items, data):
    row = st.tuples(st.sampled_from(users), st.sampled_from(items), st.integers(0, 4), st.integers(0, 5))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    frame = pl.DataFrame(rows, schema=["user", "item", "value", "time"], orient="row")
    rule = data.draw(st.sampled_from(["sum", "once", None]))
    with_value = data.draw(st.booleans())
    inter = read(frame, value="value" if with_value else None, time="time", duplicates=rule)
    check_form(inter)
    rule = rule or ("sum" if with_value else "once")
    value, time, place = {}, {}, {}
    for k, (u, i, v, t) in enumerate(rows):
        pair = (u, i)
        amount = v if with_value else 1
        if rule == "sum":
            value[pair] = value.get(pair, 0) + amount
        elif pair not in time or t >= time[pair]:
            value[pair] = amount
        time[pair] = max(t, time.get(pair, t))
        place.setdefault(pair, k)
    value = {pair: v for pair, v in value.items() if v}
    assert entries(inter) == value
    assert inter.user_ids.tolist() == sorted({r[0] for r in rows})
    assert inter.item_ids.tolist() == sorted({r[1] for r in rows})
    pairs = sorted(value)
    assert inter.times.tolist() == [time[p] for p in pairs]
    assert np.argsort(inter.table_order).tolist() == np.argsort([place[p] for p in pairs]).tolist()


def test_a_date_in_the_future_is_refused_and_a_number_is_not():
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2], "time": ["2024-05-31", "2999-01-01"]})
    refused(lambda: read(frame, time="time"), "past events", "2999-01-01", "row 2", "1 in all")
    assert read(frame.with_columns(time=pl.Series([5, 10**12])), time="time").times.max() == 10**12


@pytest.mark.parametrize("kind", [pl.UInt64, pl.Int128])
def test_times_beyond_63_bits_give_a_one_line_error(kind):
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2], "time": pl.Series([2**63, 5], dtype=kind)})
    refused(lambda: read(frame, time="time"), "times below 2^63", str(2**63))
