"""Bad input: each mistake is one clear line that says what to do."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from offdiag.data.read import read
from offdiag.errors import OffdiagError


def fails(words: str, source, **options) -> None:
    with pytest.raises(OffdiagError, match=words) as caught:
        read(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert "expected" in message
    assert "received" in message
    assert ";" in message  # the part that says what to do


FILES = [
    (b"", {}, "empty file"),
    (b"\n \n", {}, "no lines"),
    (b"user,item\n", {}, "at least one interaction"),
    (b"userId,movieId\n1,2\n", {}, r"received userId, movieId; try user='userId', item='movieId'"),
    (b"user_id,product_id,r\n1,2,3\n", {}, r"try user='user_id', item='product_id'"),
    (b"user,item\n1,2\n", {"value": "rating"}, r"expected value='rating' among the columns"),
    (b"user,item,Rating\n1,2,3\n", {"value": "rating"}, r"try value='Rating'"),
    (b"foo,bar\nx,y\n", {}, "positions from 0"),
    (b"user;item\n1;2\n", {"separator": ","}, "looks divided by ';'"),
    (b"useritem\n12\n", {}, "give separator="),
    (b"useritem\n12\n", {"separator": ","}, "one column"),
    (b"1,2\n3,4\n", {"value": "rating"}, "has no header"),
    (b"1,2\n3,4\n", {"value": 7}, "value=7"),
    (b"user,item\n1,2\n", {"user": "item"}, "different column"),
    (b"user,item\n1,2\n,3\n", {}, "row 2"),
    (b"user,item\n1,2\n4,\n", {}, "item id in every row, received none in row 2"),
    (b"user,item\n1\n", {}, "line 2"),
    (b"user,item\n1,2\n1,2,3\n", {}, "could not be read"),
    (b"user,item,value\n1,2,nan\n", {"value": "value"}, "nan in row 1"),
    (b"user,item,value\n1,2,1\n1,3,inf\n", {"value": "value"}, "inf in row 2"),
    (b"user,item,value\n1,2,1\n1,3,-2\n", {"value": "value"}, "-2.0 in row 2"),
    (b"user,item,value\n1,2,\n", {"value": "value"}, "a value in every row"),
    (b"user,item,value\n1,2,many\n", {"value": "value"}, "'many' in row 1"),
    (b"user,item,value\n" + b"1,2,3\n" * 2000 + b"1,2,many\n", {"value": "value"}, "'many' in row 2001"),
    (b"user,item,time\n1,2,soon\n", {"time": "time"}, "'soon' in row 1"),
    (b"user,item,time\n1,2,\n", {"time": "time"}, "a time in every row"),
    (b"user,item\n\xe9,2\n", {}, "utf-8"),
    (b"user,item\n\xe9,2\n", {"encoding": "no-such"}, "encoding"),
    (b"\x00\x01\x02,\x00", {}, "binary"),
    (b"u 1 2\n", {"format": "xml"}, "format to be one of"),
    (b"u 1 2\n", {"format": "adjacency", "value": 2}, "neither value nor time"),
    (b"u\nv\n", {"format": "adjacency"}, "one field per line"),
    (b"3 1 2\n", {"format": "counted"}, "number of its items"),
    (b"\n", {"format": "baskets"}, "at least one interaction"),
    (b"1,2\n", {"duplicates": "first"}, "'sum' or 'once'"),
    (b"1,2\n", {"user_ids": [1]}, "only with a matrix"),
]


@pytest.mark.parametrize(("content", "options", "words"), FILES)
def test_a_bad_file_is_one_clear_line(content, options, words, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    fails(words, path, **options)


def test_a_bad_path_is_one_clear_line(tmp_path):
    fails("does not exist", tmp_path / "missing.csv")
    fails("folder", tmp_path)
    (tmp_path / "t.zip").write_bytes(b"PK\x03\x04")
    fails("unpack", tmp_path / "t.zip")
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    fails("Parquet", tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"user,item\n" + bytes(range(65, 90)) * 99)[:-20])
    fails("complete gzip", tmp_path / "t.csv.gz")


def test_a_bad_frame_is_one_clear_line():
    fails("mixture of types", pd.DataFrame({"user": [1, "a"], "item": [1, 2]}, dtype=object))
    fails("item ids of one type", pl.DataFrame({"user": [1, 2], "item": pl.Series([1, "a"], dtype=pl.Object)}))
    fails("row 2", pd.DataFrame({"user": ["a", None], "item": [1, 2]}))
    fails("row 1", pd.DataFrame({"user": [np.nan, 2.0], "item": [1, 2]}))
    fails("1.5", pd.DataFrame({"user": [1.5, 2.0], "item": [1, 2]}))
    fails("try user='userId'", pl.DataFrame({"userId": [1], "movieId": [1]}))
    fails("below 2\\^63", pl.DataFrame({"user": pl.Series([2**64 - 1], dtype=pl.UInt64), "item": [1]}))
    fails("at least one", pl.DataFrame({"user": [], "item": []}, schema={"user": pl.Int64, "item": pl.Int64}))
    fails("numbers in the value", pl.DataFrame({"user": [1], "item": [1], "v": ["x"]}), value="v")
    fails("finite times", pl.DataFrame({"user": [1], "item": [1], "t": [float("nan")]}), time="t")
    fails("plain id", pl.DataFrame({"user": [[1]], "item": [1]}))
    fails("NUL", pl.DataFrame({"user": ["a\x00"], "item": [1]}))
    fails("received dict", {"user": [1], "item": [2]})


def test_a_bad_matrix_is_one_clear_line():
    eye = sparse.eye_array(3).tocsr()
    fails("-1.0 in row 1", -eye)
    fails("finite", sparse.csr_array(np.array([[np.nan, 1.0]])))
    fails("3 user ids", eye, user_ids=["a"])
    fails("distinct item ids", eye, item_ids=["a", "a", "b"])
    fails("one type", eye, item_ids=["a", 1, "b"])
    fails("0 x 3", sparse.csr_array((0, 3)))
    fails("real numbers", np.array([["a"]]))
    fails("1 dimension", np.zeros(3))
    fails("only with a table", eye, value="x")


def test_sums_beyond_float32_are_refused():
    fails("float32", pl.DataFrame({"user": [1, 1], "item": [1, 1], "v": [3e38, 3e38]}), value="v")
