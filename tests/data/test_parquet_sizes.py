"""Page headers: every intact file passes, and a number that no intact file contains is rejected before use."""

import numpy as np
import polars as pl
import pytest

from offdiag.data import parquet, parquet_sizes
from offdiag.data.parquet_sizes import DamagedError

ROWS = {
    "user": [1, 2, 3, 4] * 50,
    "item": ["a", "b", None, "d"] * 50,
    "flag": [True, False, None, True] * 50,
    "list": [[1, 2], [], None, [3]] * 50,
    "struct": [{"x": 1, "y": "u"}] * 200,
    "empty": [None] * 200,
}


def whole_files(tmp_path):
    frame = pl.DataFrame(ROWS)
    for compression in ("zstd", "snappy", "gzip", "lz4", "uncompressed"):
        path = tmp_path / f"polars-{compression}.parquet"
        frame.write_parquet(path, compression=compression, row_group_size=64, data_page_size=128)
        yield path
    frame.clear().write_parquet(tmp_path / "nothing.parquet")
    yield tmp_path / "nothing.parquet"
    arrow = pytest.importorskip("pyarrow.parquet")
    for version in ("1.0", "2.0"):
        for plain in (True, False):
            path = tmp_path / f"arrow-{version}-{plain}.parquet"
            arrow.write_table(
                frame.to_arrow(), path, data_page_version=version, use_dictionary=not plain, data_page_size=64,
                write_page_checksum=plain, write_page_index=True,
            )  # fmt: skip
            yield path
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "duckdb.parquet"
    duckdb.sql(f"copy (select * from '{tmp_path / 'polars-zstd.parquet'}') to '{path}' (format parquet)")
    yield path


def test_intact_files_of_every_writer_pass(tmp_path):
    for path in whole_files(tmp_path):
        parquet.check_file(path)
        assert parquet.read_parquet(path).height in (200, 0)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def whole(number):
    return varint((number << 1) ^ (number >> 63))


def struct(**fields):
    """A struct of the compact protocol from f1=…, f2=…: numbers, or bytes of a struct or a list of structs."""
    out, last = b"", 0
    for name, value in fields.items():
        number = int(name[1:])
        kind = 5 if isinstance(value, int) else 9 if isinstance(value, list) else 12
        body = whole(value) if kind == 5 else bytes([len(value) << 4 | 12]) + b"".join(value) if kind == 9 else value
        out += bytes([number - last << 4 | kind]) + body
        last = number
    return out + b"\0"


def file_of(page, values=4, at=4, body=b"12345678"):
    """A file of one column with one page that has this header."""
    column = struct(f5=values, f7=100, f9=at)
    footer = struct(f1=1, f4=[struct(f1=[struct(f2=4, f3=column)], f3=values)])
    return b"PAR1" + page + body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def page(unpacked=8, packed=8, values=4, **more):
    return struct(f1=0, f2=unpacked, f3=packed, f5=struct(f1=values), **more)


def test_a_page_that_fits_passes():
    parquet_sizes.check(file_of(page()), 1000)
    parquet_sizes.check(file_of(struct(f1=3, f2=8, f3=8, f8=struct(f1=4, f5=3, f6=5))), 1000)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (page(values=-1), "number of values"),
        (page(values=5), "number of values"),
        (page(unpacked=-1), "size"),
        (page(unpacked=1001), "size"),
        (page(packed=-1), "size"),
        (page(packed=10**6), "size"),
        (struct(f1=3, f2=8, f3=8, f8=struct(f1=4, f5=2**30)), "number of values"),
        (struct(f1=2, f2=8, f3=8, f7=struct(f1=2**30)), "number of values"),
        (struct(f1=2, f2=8, f3=8, f7=struct(f1=1)), "a"),  # the data page is missing
        (struct(f1=0, f2=[struct(f1=1)], f3=8), "of its type"),
        (b"\xff" * 30, "too long|no type"),
        (b"\x1c" * 30, "nested"),
        (b"\x19\x19" * 30, "nested"),
    ],
)
def test_impossible_numbers_are_refused(made, words):
    with pytest.raises(DamagedError, match=words):
        parquet_sizes.check(file_of(made), 1000)


def test_a_column_outside_of_the_file_is_refused():
    for at in (10**6, -5):
        with pytest.raises(DamagedError):
            parquet_sizes.check(file_of(page(), at=at), 1000)
    with pytest.raises(DamagedError):
        parquet_sizes.check(file_of(page(), values=-4), 1000)


def test_other_files_are_left_to_the_reader():
    for data in (b"", b"PAR1", b"no parquet at all", b"PAR1" + b"\xff" * 20 + b"PARE"):
        parquet_sizes.check(data, 1000)


def test_random_bytes_never_hang_or_crash_the_check():
    rng = np.random.default_rng(0)
    good = file_of(page())
    for _ in range(3000):
        data = bytearray(good)
        for at in rng.integers(4, len(data) - 8, rng.integers(1, 5)):
            data[at] = rng.integers(256)
        try:
            parquet_sizes.check(bytes(data), 1000)
        except DamagedError:
            continue
