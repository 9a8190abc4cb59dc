"""Moments as numbers: every form of a date means the same second, and what is no past event is refused."""

import datetime as dt
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.moments import moment_of, past_moments

NOON = 1_717_156_800  # 2024-05-31 12:00 UTC


@pytest.mark.parametrize(
    "at",
    [
        "2024-05-31T12:00:00", "2024-05-31 12:00:00+00:00", "2024-05-31T14:00:00+02:00", "2024-05-31T12:00:00Z", NOON,
        dt.datetime(2024, 5, 31, 12), dt.datetime(2024, 5, 31, 12, tzinfo=dt.UTC), np.datetime64("2024-05-31T12:00:00"),
        pd.Timestamp("2024-05-31 12:00"), np.int64(NOON),
    ],
)  # fmt: skip
def test_every_form_of_a_moment_is_the_same_number(at):
    assert moment_of(at) == NOON


def test_a_day_is_its_midnight():
    assert moment_of("2024-05-31") == moment_of(dt.date(2024, 5, 31)) == NOON - 12 * 3600


@given(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2025, 1, 1)))
def test_dates_are_read_as_tables_of_events_are(at):
    inter = od.read({"user": [1], "item": [1], "time": [at]}, time="time")
    assert moment_of(at) == moment_of(at.isoformat()) == inter.times[0]


@pytest.mark.parametrize(
    "at", ["soon", "", "31.5.2024", True, None, float("nan"), np.inf, np.datetime64("NaT"), pd.NaT]
)
def test_what_is_no_moment_is_refused(at):
    with pytest.raises(od.OffdiagError, match="expected a number or an? "):
        moment_of(at)


def test_numbers_and_dates_are_not_mixed():
    with pytest.raises(od.OffdiagError, match="all numbers or all dates, received 5 and '2024-05-31'"):
        past_moments([5, 6, "2024-05-31"])


def test_a_date_in_the_future_is_refused_and_a_number_has_no_unit():
    tomorrow = time.time() + 3 * 86_400
    with pytest.raises(od.OffdiagError, match="in the future"):
        past_moments(["2024-05-31", dt.datetime.fromtimestamp(tomorrow, dt.UTC)])
    assert past_moments([tomorrow, 1]).tolist() == [tomorrow, 1.0]
    assert past_moments([]).tolist() == []


def test_a_number_beyond_any_double_is_refused():
    with pytest.raises(od.OffdiagError, match="below 1e308"):
        past_moments([10**400])
