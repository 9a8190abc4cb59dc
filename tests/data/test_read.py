"""Reading: every source gives the same matrix as a dictionary."""

import gzip
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from scipy import sparse

from offdiag.data.read import read
from tests.fixtures.mistakes import rejects
from tests.fixtures.tables import check_form, entries, write

EVENTS = [("b", 3, 2.0, 5), ("a", 10, 1.0, 7), ("b", 3, 0.5, 9), ("c", 7, 4.0, 1)]
FRAME = pd.DataFrame(EVENTS, columns=["user", "item", "value", "time"])


def sources(folder: Path) -> dict:
    header = "user,item,value,time\n"
    rows = "".join(f"{u},{i},{v},{t}\n" for u, i, v, t in EVENTS)
    FRAME.to_parquet(folder / "t.parquet")
    (folder / "t.parquet.gz").write_bytes(gzip.compress((folder / "t.parquet").read_bytes()))
    return {
        "csv": write(folder / "t.csv", header + rows),
        "text path": str(folder / "t.csv"),
        "csv.gz": write(folder / "t.csv.gz", header + rows),
        "tsv": write(folder / "t.tsv", (header + rows).replace(",", "\t")),
        "tsv.gz": write(folder / "t.tsv.gz", (header + rows).replace(",", "\t")),
        "semicolons": write(folder / "s.csv", (header + rows).replace(",", ";")),
        "spaces": write(folder / "s.txt", (header + rows).replace(",", " ")),
        "crlf and bom": write(folder / "w.csv", "\ufeff" + (header + rows).replace("\n", "\r\n")),
        "no last newline": write(folder / "n.csv", (header + rows).rstrip()),
        "blank lines": write(folder / "b.csv", header + rows.replace("\n", "\n\n", 2) + "\n\n"),
        "quoted": write(folder / "q.csv", header + "".join(f'"{u}",{i},{v},{t}\n' for u, i, v, t in EVENTS)),
        "parquet": folder / "t.parquet",
        "parquet.gz": folder / "t.parquet.gz",
        "pandas": FRAME,
        "pandas categories": FRAME.astype({"user": "category", "item": "category"}),
        "pandas nullable": FRAME.convert_dtypes(),
        "polars": pl.from_pandas(FRAME),
        "lazy polars": pl.from_pandas(FRAME).lazy(),
        "arrow": pa.Table.from_pandas(FRAME),
        "arrow dataset": pyarrow.dataset.dataset(pa.Table.from_pandas(FRAME)),
        "arrow reader": pa.Table.from_pandas(FRAME).to_reader(),
        "dict of lists": FRAME.to_dict("list"),
        "dict of arrays": {name: FRAME[name].to_numpy() for name in ("item", "value", "time")}
        | {"user": FRAME["user"]},
        "relation of DuckDB": duckdb.from_arrow(pa.Table.from_pandas(FRAME)),
    }


@pytest.mark.parametrize("number", range(24))
def test_every_source_gives_the_same_interactions(number, tmp_path):
    all_sources = list(sources(tmp_path).items())
    assert len(all_sources) == 24
    name, source = all_sources[number]
    inter = read(source, value="value", time="time")
    check_form(inter)
    assert entries(inter) == {("a", 10): 1.0, ("b", 3): 2.5, ("c", 7): 4.0}, name
    assert inter.times.tolist() == [7, 9, 1]
    assert inter.table_order.tolist() == [1, 0, 3]
    assert inter.item_ids.dtype == np.int64


def test_uuids_are_text_wherever_they_come_from(tmp_path):
    one, two = UUID(int=1 << 100), UUID(int=2)
    duckdb.from_arrow(pa.table({"user": [str(one), str(two)]})).project(
        "cast(user as uuid) as user, 7 as item"
    ).write_parquet(str(tmp_path / "t.parquet"))
    uuids = pa.array([one.bytes, two.bytes], pa.uuid())
    for source in (
        {"user": [one, two], "item": [7, 7]},
        pd.DataFrame({"user": [one, two], "item": [7, 7]}),
        pl.DataFrame({"user": pl.Series([one, two], dtype=pl.Object), "item": [7, 7]}),
        pa.table({"user": uuids, "item": [7, 7]}),
        tmp_path / "t.parquet",
    ):
        assert entries(read(source)) == {(str(one), 7): 1, (str(two), 7): 1}


def test_scipy_matrices_keep_their_shape_and_take_ids():
    matrix = sparse.coo_matrix(([1.0, 2.0, 3.0, 0.0], ([2, 0, 2, 1], [1, 1, 1, 1])), shape=(4, 3))
    expected = np.zeros((4, 3))
    expected[0, 1], expected[2, 1] = 2, 4
    for source in (matrix, matrix.tocsc(), sparse.csr_array(matrix), matrix.toarray()):
        inter = read(source)
        assert np.array_equal(inter.matrix.toarray(), expected)
        assert inter.user_ids.tolist() == [0, 1, 2, 3]
        assert inter.matrix.has_canonical_format
    named = read(matrix, user_ids=["w", "x", "y", "z"], item_ids=np.array([30, 10, 20]))
    assert entries(named) == {("w", 10): 2, ("y", 10): 4}
    assert entries(read(matrix, duplicates="once")) == {(0, 1): 2, (2, 1): 3}
    assert read(sparse.csr_array((2, 3))).matrix.shape == (2, 3)


def test_reading_a_matrix_does_not_change_it():
    matrix = sparse.csr_matrix(np.array([[1.0, 0.0], [2.0, 3.0]]))
    inter = read(matrix)
    inter.matrix.data[:] = 9
    assert matrix.data.tolist() == [1, 2, 3]


def test_interactions_pass_through():
    inter = read(FRAME)
    assert read(inter) is inter


test_a_wrong_source_or_argument_is_rejected = rejects(
    (lambda: read(3), "expected a path, .* received int; convert it"),
    (lambda: read({"user": [1, 2], "item": [1]}), "columns of one length, received user: 2, item: 1"),
    (lambda: read({1: [1], "item": [1]}), "a dict of columns by name"),
    (lambda: read({"user": 1, "item": [1]}), "user: not a column"),
    (lambda: read(FRAME, separator=";"), "separator= only with a file"),
    (lambda: read(FRAME, query="select"), "query only with a database .* the source 'duckdb:'"),
    (lambda: read(FRAME, user_ids=["a"]), "user_ids and item_ids only with a matrix"),
    (lambda: read(np.eye(2), value="value"), "value and time only with a table"),
    (lambda: read(np.eye(2), duplicates="twice"), "duplicates must be 'sum' or 'once', received 'twice'"),
    (lambda: read(np.ones(3)), r"received 1 dimension\(s\); reshape it first"),
    (lambda: read(np.array([["a"]])), "a matrix of real numbers, received <U1"),
    (lambda: read(np.ones((0, 3))), "at least one user and one item, received 0 x 3"),
    (lambda: read(np.eye(2), user_ids=[1]), "expected 2 user ids, received 1"),
    (lambda: read(np.eye(2), item_ids=[1, 1]), "distinct item ids, received repeated ones"),
    (lambda: read(np.eye(2), user_ids=[1, "a"]), "user ids of one type, received a mixture"),
    (
        lambda: read(FRAME.rename(columns={"user": "userId"})),
        "user='user' among .*, received userId, .*; try user='userId'",
    ),
    (lambda: read(FRAME.assign(user=[1, "a", 2, 3])), "user ids of one type, received a mixture of types in the table"),
    (lambda: read(FRAME.assign(user=[1.5, 2, 3, 4])), "whole numbers or text, received 1.5 in row 1 of the table"),
    (lambda: read(FRAME.assign(user=["a", None, "b", None])), r"received none in row 2 of the table \(2 in all\)"),
    (
        lambda: read(FRAME.assign(value=[1, -2, -3, 0]), value="value"),
        r"0 or more, received -2 in row 2 .*\(2 in all\)",
    ),
    (
        lambda: read(FRAME.assign(value=[1, 1, np.inf, 1]), value="value"),
        r"finite values, received inf in row 3 .*\(1 in",
    ),
    (lambda: read(FRAME.assign(value=3e38), value="value"), "a sum beyond 3.4e38; scale the values down"),
    (lambda: read(FRAME.assign(time=[1, "a", 2, 3]), time="time"), "one type in the time column .* received int, str"),
    (lambda: read(FRAME.assign(day="b"), time="day"), "ISO dates such as 2024-05-31 .* received 'b' in row 1"),
)


def test_real_files_have_their_published_sizes(shared_data):
    assert read(shared_data("ml-latest-small") / "ratings.csv", "userId", "movieId").nnz == 100_836
    assert read(shared_data("ml-100k") / "u.data", value=2, time=3).matrix.shape == (943, 1682)
    assert read(shared_data("lastfm-hetrec2011") / "user_artists.dat", value=2).matrix.shape == (1892, 17632)
    assert read(shared_data("fimi-retail") / "retail.dat", format="baskets").matrix.shape == (88162, 16470)
    assert read(shared_data("citeulike-a") / "users.dat", format="counted").matrix.shape == (5551, 16980)


@pytest.mark.slow
def test_a_relation_of_duckdb_leaves_no_line_at_exit(tmp_path):
    code = """
import duckdb
import offdiag as od
connection = duckdb.connect()
print(od.read(connection.sql("select 1 as user, 2 as item")).nnz)
connection.close()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("1\n", "")
