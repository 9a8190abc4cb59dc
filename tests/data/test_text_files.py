"""Bytes of a text file: line ends, encodings, and gzip files that are damaged or expand beyond the memory."""

import bz2
import gzip
import lzma
import sys
import tracemalloc

import pytest
import zstandard

import offdiag as od
from offdiag import memory
from offdiag.data import text_files
from tests.fixtures.tables import outcome, refused, same_interactions

TABLE = b"user,item,value,time\n1,a,2,10\n2,b,3,20\n1,c,4,30\n"


@pytest.mark.parametrize("ending", [b"\r", b"\r\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_line_ends_do_not_matter(tmp_path, ending, pack, encoding):
    (tmp_path / "unix.csv").write_bytes(TABLE)
    expected = od.read(tmp_path / "unix.csv", value="value", time="time")
    other = TABLE.replace(b"\n", ending).decode().encode(encoding)
    (tmp_path / "other.csv").write_bytes(pack(other))
    same_interactions(od.read(tmp_path / "other.csv", value="value", time="time", encoding=encoding), expected)


def test_a_long_file_with_bare_carriage_returns_is_read_to_its_end(tmp_path):
    rows = "".join(f"{u},{u % 7}\r" for u in range(60_000))  # longer than the part used to detect the layout
    assert len(rows) > text_files.HEAD
    (tmp_path / "mac.csv").write_text("user,item\r" + rows, newline="")
    assert od.read(tmp_path / "mac.csv").nnz == 60_000


@pytest.mark.parametrize(
    "encoding", ["punycode", "idna", "undefined", "rot13", "hex", "no such", "utf\0", "é", "", None, 7]
)
def test_invalid_text_encodings_are_refused(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes(TABLE)
    for form in (None, "adjacency"):
        refused(lambda form=form: od.read(tmp_path / "t.csv", encoding=encoding, format=form), "text encoding")


@pytest.mark.parametrize("encoding", ["utf-7", "unicode_escape", "utf-32", "shift_jis"])
def test_bytes_that_do_not_fit_the_encoding_are_refused(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes(b"user,item\n1,\\ud800\n+2AA-,\xff\n")
    refused(lambda: od.read(tmp_path / "t.csv", encoding=encoding), encoding)


def bomb(path, unpacked, line=b"1,2\n"):
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"user,item\n")
        for _ in range(unpacked // (1 << 20)):
            file.write(line * ((1 << 20) // len(line)))


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.parquet.gz"])
@pytest.mark.parametrize("line", [b"1,2\n", b"\0" * 64], ids=["rows", "nothing"])
def test_a_gzip_bomb_is_stopped_before_it_fills_the_memory(tmp_path, monkeypatch, name, line):
    bomb(tmp_path / name, 192 << 20, line)
    assert (tmp_path / name).stat().st_size < 2 << 20
    monkeypatch.setattr(memory, "available", lambda: 64 << 20)
    tracemalloc.start()
    refused(lambda: od.read(tmp_path / name), "fits in memory", "67.1 MB is available", name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 128 << 20


def test_a_gzip_file_that_fits_is_read_also_in_several_members(tmp_path, monkeypatch):
    rows = [f"{u},{i}\n" for u in range(3000) for i in range(3)]
    members = ["user,item\n", *("".join(rows[lo : lo + 1000]) for lo in range(0, 9000, 1000))]
    (tmp_path / "t.csv.gz").write_bytes(b"".join(gzip.compress(part.encode()) for part in members))
    monkeypatch.setattr(memory, "available", lambda: 2 << 20)
    assert od.read(tmp_path / "t.csv.gz").nnz == 9000


def test_damaged_gzip_gives_a_one_line_error(tmp_path):
    whole = gzip.compress(TABLE * 50)
    for at in range(2, len(whole), 5):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        (tmp_path / "t.csv.gz").write_bytes(bytes(damaged))
        assert "\n" not in (outcome(lambda: od.read(tmp_path / "t.csv.gz")) or "")


@pytest.mark.parametrize("end", [".gz", ".bz2", ".xz", ".zst"])
def test_every_packing_is_read_and_truncation_is_an_error(tmp_path, end):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress}[end]
    whole = pack(TABLE * 50)
    (tmp_path / f"t.csv{end}").write_bytes(whole + pack(b""))  # two members
    assert od.read(tmp_path / f"t.csv{end}", header=True).nnz
    for at in (len(whole) // 2, len(whole) - 1):
        (tmp_path / f"t.csv{end}").write_bytes(whole[:at])
        refused(lambda: od.read(tmp_path / f"t.csv{end}", header=True), "a complete", f"t.csv{end}", "fetch it again")


def test_without_zstandard_the_error_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "t.csv.zst").write_bytes(zstandard.compress(TABLE))
    for module in ("zstandard", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    refused(lambda: od.read(tmp_path / "t.csv.zst"), "pip install 'offdiag[zstd]'")
