"""Tables of pandas and polars: columns of every type are read, or refused in one line."""

import polars as pl
import pytest

import offdiag as od
from tests.fixtures.tables import outcome, refused


def test_a_lone_surrogate_in_a_frame_gives_a_one_line_error():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": pd.Series(["a\ud800", "b"], dtype=object), "item": pd.Series(["x", "y"])})
    refused(lambda: od.read(frame), "user column")


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("ids", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"]], ids=["list", "struct", "binary"])
def test_columns_that_hold_no_plain_ids_are_refused(ids, text_ids):
    frame = pl.DataFrame({"user": ids, "item": [1, 2]})
    refused(lambda: od.read(frame, text_ids=text_ids), "user ids")
    refused(lambda: od.read(frame.rename({"user": "item", "item": "user"}), text_ids=text_ids), "item ids")


COLUMNS = [
    [1, 2, 2**62, -5], ["a", "b", None, "c"], [[1], [2], [3], [4]], [{"a": 1}] * 4, [1.5, float("nan"), 2.0, 1e400],
    [b"a", b"b", b"c", b"d"], [True, False, True, True], ["2024-01-01"] * 4, [1.0, 2.0, 3.0, 4.0], [None] * 4,
    pl.Series([1, 2, 3, 2**64 - 1], dtype=pl.UInt64), pl.Series(["a", "b", "a", "c"], dtype=pl.Categorical),
    pl.Series([1, 2, 3, 4]).cast(pl.Date), pl.Series([1, 2, 3, 4]).cast(pl.Duration), pl.Series([object()] * 4),
    pl.Series([1, 2, 3, 4], dtype=pl.Decimal(10, 2)), pl.Series([2**100, 1, 2, 3], dtype=pl.Int128),
]  # fmt: skip


def test_frames_of_every_column_type_are_read_or_refused_in_one_line():
    good = {"user": [1, 2, 3, 4], "item": ["a", "b", "c", "d"], "value": [1.0, 2.0, 1.0, 1.0], "time": [1, 2, 3, 4]}
    for role in good:
        for column in COLUMNS:
            for text_ids in (False, True):
                frame = pl.DataFrame({**good, role: column}, strict=False)
                said = outcome(lambda f=frame, t=text_ids: od.read(f, value="value", time="time", text_ids=t))
                assert "\n" not in (said or "")


def test_one_column_cannot_play_two_roles():
    frame = pl.DataFrame({"a": ["x", "y"], "b": [1, 2]})
    with pytest.raises(od.OffdiagError, match="received user='a', item='a'; name each once"):
        od.read(frame, user="a", item="a")
    with pytest.raises(od.OffdiagError, match="received user='a', item='b', value='b'"):
        od.read(frame, user=0, item="b", value=1)
