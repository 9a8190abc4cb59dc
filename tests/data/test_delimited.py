"""Delimited text: separators, headers and column types are detected, and any other text is refused in one line."""

import gzip
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.read import read
from tests.fixtures.tables import entries, outcome, refused, write


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


def test_lines_of_ids_are_not_taken_for_a_table_of_two_columns(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("1 4 5 6\n2 4 5\n")
    with pytest.raises(od.OffdiagError, match="received 4 and 3; give format='sequence'"):
        od.read(path)
    assert od.read(path, format="adjacency").nnz == 5
    assert od.read(path, user=0, item=1).nnz == 2
    path.write_text("1,4,7\n2,4,\n3,5,8,\n")  # empty fields at the end of a line are no ids
    assert od.read(path).nnz == 3


def test_words_above_numbers_are_a_header_also_when_positions_are_given(tmp_path):
    path = write(tmp_path / "t.csv", "who,what\n1,2\n")
    assert entries(read(path, user=0, item=1)) == {(1, 2): 1}


def test_positions_make_words_data_unless_a_header_is_announced(tmp_path):
    path = write(tmp_path / "t.csv", "ann,tea\nbob,jam\n")
    assert entries(read(path, user=0, item=1)) == {("ann", "tea"): 1, ("bob", "jam"): 1}
    assert entries(read(path, user=0, item=1, header=True)) == {("bob", "jam"): 1}


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


def test_a_carriage_return_inside_a_line_gives_a_one_line_error(tmp_path):
    (tmp_path / "mixed.csv").write_bytes(b"user,item\n1,2\r3,4\n5,6\n")
    refused(lambda: od.read(tmp_path / "mixed.csv"), "line ends")


CELLS = [
    b"", b"1", b"007", b"-3", b"9223372036854775808", b"1e400", b"nan", b'"', b'""', b"\0", b"\r", b"\n", b",", b"\t",
    b";", b"::", b"|", b" ", b"\xff", b"\xed\xa0\x80", "é".encode(), b"2024-01-01", b"\x1f", b"\\ud800", b"x" * 300,
]  # fmt: skip
ENCODINGS = ["utf-8"] * 6 + ["latin-1", "utf-16", "utf-7", "unicode_escape", "shift_jis", "punycode"]
FORMATS = [None] * 6 + ["adjacency", "baskets", "counted", "parquet"]
SEPARATORS = [None] * 8 + [",", "::", "\t", "é", "\n", "\r", '"', "", "\x1f"]


def random_text(rng):
    if rng.random() < 0.3:
        return b"".join(rng.choice(CELLS) for _ in range(rng.randrange(1, 50)))
    separator, ending = rng.choice([b",", b"\t", b";", b"::", b"|", b" "]), rng.choice([b"\n", b"\r\n", b"\r"])
    rows = [[b"user", b"item", b"value", b"time"]]
    rows += [[b"%d" % rng.randrange(9), b"i%d" % rng.randrange(9), b"1.5", b"%d" % n] for n in range(rng.randrange(20))]
    for _ in range(rng.randrange(4)):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(CELLS)
    return ending.join(separator.join(row) for row in rows) + rng.choice([b"", ending])


@pytest.mark.parametrize("seed", range(4))
def test_random_text_is_read_or_refused_in_one_line(tmp_path, seed):
    rng = random.Random(seed)
    outcomes = set()
    for _ in range(150):
        raw = random_text(rng)
        words = {"encoding": rng.choice(ENCODINGS), "format": rng.choice(FORMATS), "separator": rng.choice(SEPARATORS)}
        words |= {name: name for name in ("value", "time") if rng.random() < 0.4}
        words |= {"text_ids": rng.random() < 0.3, "header": rng.choice([None, None, True, False])}
        (tmp_path / "t.csv").write_bytes(gzip.compress(raw) if rng.random() < 0.1 else raw)
        said = outcome(lambda words=words: od.read(tmp_path / "t.csv", **words))
        outcomes.add(said is None)
        assert "\n" not in (said or ""), (raw, words)
    assert outcomes == {True, False}
