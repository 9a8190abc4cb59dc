"""Reading: every source gives the same matrix as a dictionary."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from offdiag.data.interactions import Interactions
from offdiag.data.read import read

EVENTS = [("b", 3, 2.0, 5), ("a", 10, 1.0, 7), ("b", 3, 0.5, 9), ("c", 7, 4.0, 1)]
FRAME = pd.DataFrame(EVENTS, columns=["user", "item", "value", "time"])


def entries(inter: Interactions) -> dict:
    """(user id, item id) → value."""
    coo = inter.matrix.tocoo()
    return {
        (inter.user_ids[u].item(), inter.item_ids[i].item()): v
        for u, i, v in zip(coo.row, coo.col, coo.data.tolist(), strict=True)
    }


def check_form(inter: Interactions) -> None:
    assert inter.matrix.dtype == np.float32
    assert inter.matrix.indices.dtype == np.int32
    assert inter.matrix.indptr.dtype == np.int32
    assert inter.matrix.has_canonical_format
    assert (inter.matrix.data != 0).all()
    assert inter.user_ids.dtype.kind in "iU"
    assert inter.user_ids.tolist() == sorted(set(inter.user_ids.tolist()))
    assert inter.item_ids.tolist() == sorted(set(inter.item_ids.tolist()))


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    raw = text.encode(encoding)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


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
    }


@pytest.mark.parametrize("number", range(19))
def test_every_source_gives_the_same_interactions(number, tmp_path):
    all_sources = list(sources(tmp_path).items())
    assert len(all_sources) == 19
    name, source = all_sources[number]
    inter = read(source, value="value", time="time")
    check_form(inter)
    assert entries(inter) == {("a", 10): 1.0, ("b", 3): 2.5, ("c", 7): 4.0}, name
    assert inter.times.tolist() == [7, 9, 1]
    assert inter.table_order.tolist() == [1, 0, 3]
    assert inter.item_ids.dtype == np.int64


def test_movielens_files_have_no_header_and_double_colons(tmp_path):
    path = write(tmp_path / "ratings.dat", "1::1193::5::978300760\n1::661::3::978302109\n2::661::4::978301968\n")
    inter = read(path, value=2, time=3)
    assert entries(inter) == {(1, 1193): 5, (1, 661): 3, (2, 661): 4}
    assert inter.times.tolist() == [978302109, 978300760, 978301968]
    packed = write(tmp_path / "ratings.dat.gz", path.read_text())
    assert entries(read(packed, value=2)) == entries(inter)


def test_a_first_line_of_numbers_is_data(tmp_path):
    path = write(tmp_path / "u.data", "196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    assert entries(read(path)) == {(196, 242): 1, (186, 302): 1}
    assert entries(read(path, value=2)) == {(196, 242): 3, (186, 302): 3}
    assert entries(read(path, user=1, item=0)) == {(242, 196): 1, (302, 186): 1}


def test_words_above_numbers_are_a_header_also_when_positions_are_given(tmp_path):
    path = write(tmp_path / "t.csv", "who,what\n1,2\n")
    assert entries(read(path, user=0, item=1)) == {(1, 2): 1}


def test_positions_make_words_data_unless_a_header_is_announced(tmp_path):
    path = write(tmp_path / "t.csv", "ann,tea\nbob,jam\n")
    assert entries(read(path, user=0, item=1)) == {("ann", "tea"): 1, ("bob", "jam"): 1}
    assert entries(read(path, user=0, item=1, header=True)) == {("bob", "jam"): 1}


def test_lines_of_ids_are_read_in_three_formats(tmp_path):
    path = write(tmp_path / "a.txt", "0 5 6 \n7\n3 6\n")
    inter = read(path, format="adjacency")
    assert entries(inter) == {(0, 5): 1, (0, 6): 1, (3, 6): 1}
    assert inter.user_ids.tolist() == [0, 3, 7]  # a user without items is still a user
    path = write(tmp_path / "b.txt", "ham eggs\n\nham\n")
    assert entries(read(path, format="baskets")) == {(0, "ham"): 1, (0, "eggs"): 1, (2, "ham"): 1}
    path = write(tmp_path / "c.dat.gz", "2 9 4\n0\n1 9\n")
    assert entries(read(path, format="counted")) == {(0, 9): 1, (0, 4): 1, (2, 9): 1}
    assert read(path, format="counted").user_ids.tolist() == [0, 1, 2]
    path = write(tmp_path / "d.csv", "red wine, bread\nbread\n")
    assert entries(read(path, format="baskets", separator=",")) == {
        (0, "red wine"): 1,
        (0, "bread"): 1,
        (1, "bread"): 1,
    }


def test_several_files_are_one_table(tmp_path):
    first = write(tmp_path / "1.txt", "0 5 6\n1\n")
    second = write(tmp_path / "2.txt", "0 7\n2 5\n")
    inter = read([first, second], format="adjacency")
    assert entries(inter) == {(0, 5): 1, (0, 6): 1, (0, 7): 1, (2, 5): 1}
    assert inter.user_ids.tolist() == [0, 1, 2]


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


def test_ids_keep_their_type(tmp_path):
    def kinds(text: str, **options):
        inter = read(write(tmp_path / "k.csv", text), **options)
        return inter.user_ids.tolist()

    assert kinds("user,item\n10,1\n9,1\n") == [9, 10]
    assert kinds("user,item\n10,1\n9,1\n", text_ids=True) == ["10", "9"]
    assert kinds("user,item\n007,1\n7,1\n") == ["007", "7"]  # a leading zero belongs to the id
    assert kinds("user,item\n7.0,1\n9.0,1\n") == [7, 9]
    assert kinds("user,item\n-3,1\n99999999999,1\n") == [-3, 99999999999]
    assert kinds("user,item\n" + "5,1\n" * 3000 + "x,1\n") == ["5", "x"]  # seen late, still kept
    assert kinds("user,item\n99999999999999999999,1\n1,1\n") == ["1", "99999999999999999999"]
    for head in ("", "5,1\n" * 3000):  # the 64-bit limits are numbers wherever they occur; the next integer is text
        first = [5] if head else []
        assert kinds(f"user,item\n{head}{2**63 - 1},1\n{-(2**63)},1\n") == [-(2**63), *first, 2**63 - 1]
        assert kinds(f"user,item\n{head}{2**63},1\n") == sorted([*map(str, first), str(2**63)])
    assert kinds(f"user,item\n7.0,1\n{10**18},1\n") == [7, 10**18]
    assert kinds(f"user,item\n7,1\n{10**18}.0,1\n") == [f"{10**18}.0", "7"]  # was rounded before it was written
    assert kinds("user,item\nzoë,1\n日本,1\n") == ["zoë", "日本"]
    assert kinds("user,item\n true ,1\n") == ["true"]
    latin = write(tmp_path / "l.csv", "user,item\nzoë,1\n", "latin-1")
    assert read(latin, encoding="latin-1").user_ids.tolist() == ["zoë"]
    floats = pd.DataFrame({"user": [2.0, 1.0], "item": ["a", "b"]})
    assert read(floats).user_ids.dtype == np.int64
    assert read(pd.DataFrame({"user": np.array([3, 1], dtype=np.uint8), "item": [1, 2]})).user_ids.tolist() == [1, 3]


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


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-5, 5), st.integers(1, 8)), min_size=1), st.sampled_from(",\t;|")
)
def test_a_written_table_is_read_back(tmp_path, rows, separator):
    text = "".join(separator.join(map(str, row)) + "\n" for row in rows)
    expected = {}
    for u, i, v in rows:
        expected[u, i] = expected.get((u, i), 0) + v
    assert entries(read(write(tmp_path / "t.csv", text), value=2)) == expected


def test_wide_ranges_of_integer_ids_are_numbered_like_compact_ones():
    rng = np.random.default_rng(0)
    small = rng.integers(0, 50, (400, 2))
    wide = small.astype(np.int64) * 10**15 - 7 * 10**15
    a = read(pl.DataFrame(small, schema=["user", "item"]))
    b = read(pl.DataFrame(wide, schema=["user", "item"]))
    assert (a.matrix != b.matrix).nnz == 0
    assert (b.user_ids == a.user_ids * 10**15 - 7 * 10**15).all()


def test_real_files_have_their_published_sizes(shared_data):
    assert read(shared_data("ml-latest-small") / "ratings.csv", "userId", "movieId").nnz == 100_836
    assert read(shared_data("ml-100k") / "u.data", value=2, time=3).matrix.shape == (943, 1682)
    assert read(shared_data("lastfm-hetrec2011") / "user_artists.dat", value=2).matrix.shape == (1892, 17632)
    assert read(shared_data("fimi-retail") / "retail.dat", format="baskets").matrix.shape == (88162, 16470)
    assert read(shared_data("citeulike-a") / "users.dat", format="counted").matrix.shape == (5551, 16980)
