"""A data frame with a column per item is a matrix, but only if it cannot be a table of events."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import offdiag as od
from offdiag.models.wide_frames import is_wide

RATINGS = {"Alien": [4.5, 0.0, 1.5], "Brazil": [0.5, 3.5, 0.0]}
FLAGS = {"Alien": [True, False, True], "Brazil": [True, True, False]}
both = pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])


@both
@pytest.mark.parametrize("columns", [RATINGS, FLAGS], ids=["ratings", "flags"])
def test_fractions_and_flags_are_a_matrix(form, columns):
    frame = form(columns)
    X = np.array([*columns.values()], dtype=np.float32).T
    model, plain = od.EASE(l2=1.0).fit(frame), od.EASE(l2=1.0).fit(X)
    assert model.item_ids_.tolist() == ["Alien", "Brazil"]
    assert np.array_equal(model.predict(frame), plain.predict(X))
    assert model.recommend(frame, k=1).indices.tolist() == plain.recommend(X, k=1).indices.tolist()


@pytest.mark.parametrize(
    "columns",
    [
        {"kunde": [1, 1, 2], "artikel": [1, 2, 1]},
        {"kunde": [1, 1, 2], "preis": [1.5, 2.5, 1.0]},
        {"kunde": [1.0, 1.0, 2.0], "artikel": [1.0, np.nan, 2.0]},  # ids with gaps, as pandas stores them
        {"kunde": ["a", "b", "c"], "preis": [1.5, 2.5, 1.0]},
        {},
    ],
)
@both
def test_what_could_be_a_table_of_events_is_not_a_matrix(form, columns):
    assert not is_wide(form(columns))
    with pytest.raises(od.OffdiagError, match="expected user='user', item='item'"):
        od.EASE(l2=1.0).fit(form(columns))


def test_columns_must_be_those_of_the_fit():
    frame = pd.DataFrame(RATINGS)
    model = od.EASE(l2=1.0).fit(frame)
    for other, message in (
        (frame[["Brazil", "Alien"]], "same order"),
        (frame.rename(columns={"Alien": "Aliens"}), "unseen at fit time:\n- Aliens\nFeature names seen"),
        (frame[["Alien"]], "yet now missing:\n- Brazil"),
    ):
        with pytest.raises(od.OffdiagError, match=message):
            model.predict(other)


def test_numbers_as_names_are_ids_and_a_mixture_is_refused():
    frame = pd.DataFrame(RATINGS)
    frame.columns = [10, 20]
    assert od.EASE(l2=1.0).fit(frame).item_ids_.tolist() == [10, 20]
    frame.columns = [10, "x"]
    with pytest.raises(od.OffdiagError, match="all text or all whole numbers"):
        od.EASE(l2=1.0).fit(frame)
