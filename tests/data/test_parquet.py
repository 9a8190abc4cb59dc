"""Parquet files: damage is one clear line, and a flipped bit is found if checksums are stored and verified."""

import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import offdiag as od
from offdiag import memory
from offdiag.cluster import sources
from offdiag.data import parquet
from offdiag.data.columns import Roles
from offdiag.server import titles
from tests.fixtures.tables import refused

pq = pytest.importorskip("pyarrow.parquet")


def test_every_beginning_of_a_parquet_file_is_refused(tmp_path):
    pl.DataFrame({"user": [1, 2] * 20, "item": ["a", "b"] * 20}).write_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for end in range(1, len(whole), 23):
        (tmp_path / "cut.parquet").write_bytes(whole[:end])
        refused(lambda: od.read(tmp_path / "cut.parquet"), "Parquet")


def test_a_page_larger_than_the_memory_gives_a_one_line_error(tmp_path, monkeypatch):
    pl.DataFrame({"user": np.arange(50_000), "item": np.arange(50_000)}).write_parquet(tmp_path / "t.parquet")
    assert od.read(tmp_path / "t.parquet").nnz == 50_000
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(od.OffdiagError, match=r"t\.parquet.*impossible size.*complete"):
        parquet.read_parquet(tmp_path / "t.parquet")


def test_titles_from_damaged_parquet_give_a_one_line_error(tmp_path):
    table = pl.DataFrame({"item": [1, 2], "title": ["a", "b"]})
    table.write_parquet(tmp_path / "t.parquet", compression="uncompressed")
    assert titles.read(tmp_path / "t.parquet") == {"1": "a", "2": "b"}
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    said = []
    for at in range(4, 40):
        for to in (0x81, 0xFF):
            (tmp_path / "bad.parquet").write_bytes(bytes(data[:at]) + bytes([to]) + bytes(data[at + 1 :]))
            try:
                titles.read(tmp_path / "bad.parquet")
            except od.OffdiagError as error:
                said.append(str(error))
    assert len(said) > 10
    assert not [text for text in said if "\n" in text]


DAMAGE = r"""
import random, re, sys
from pathlib import Path
import polars as pl
import offdiag as od

rng, outcomes = random.Random(4), set()
frame = pl.DataFrame({"user": [1, 2] * 500, "item": [f"i{k % 97}" for k in range(1000)]})
for kind in ("zstd", "snappy", "uncompressed"):
    frame.write_parquet("whole.parquet", compression=kind, row_group_size=300)
    whole = Path("whole.parquet").read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    # The 300 values that a page header states become -300, which polars takes for 2^64 - 300; then anything anywhere.
    changes = [[(found.start() + 1, 0xD7)] for found in re.finditer(rb"\x15\xd8\x04", whole)]
    assert changes
    for turn in range(100):
        first = len(whole) - 8 - footer if turn % 2 else 0
        changes.append(
            [(rng.randrange(first, len(whole)), rng.randrange(256)) for _ in range(rng.choice([1, 1, 2, 8]))]
        )
    for change in changes:
        damaged = bytearray(whole)
        for at, to in change:
            damaged[at] = to
        Path("t.parquet").write_bytes(bytes(damaged))
        try:
            od.read("t.parquet")
            outcomes.add("read")
        except od.OffdiagError as error:
            outcomes.add("refused")
            assert "\n" not in str(error), str(error)
print(*sorted(outcomes))
"""


def test_random_damage_to_parquet_is_read_or_refused_in_one_line(tmp_path):
    # In a separate process: before page headers were checked, polars requested absurd memory sizes and Rust aborted.
    done = subprocess.run([sys.executable, "-c", DAMAGE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != -signal.SIGABRT, done.stderr[:500]
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (0, "read refused\n")


def written(path, *, checksums):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"user": rng.integers(0, 1 << 40, 4000), "item": rng.integers(0, 1 << 40, 4000)})
    pq.write_table(table.to_arrow(), path, write_page_checksum=checksums, compression="none", use_dictionary=False)
    return path


def flipped(path):
    """Flips one bit in the middle of the first column, where there are only values."""
    raw = bytearray(path.read_bytes())
    raw[16_000] ^= 4
    path.write_bytes(bytes(raw))
    return path


def load(path, verify):
    return sources.load(str(path), path.name, sources.Wanted(Roles(), verify=verify)).user.to_list()


def test_a_changed_bit_is_found_by_the_checksum_of_its_page(tmp_path):
    path = written(tmp_path / "t.parquet", checksums=True)
    whole = load(path, verify=True)
    flipped(path)
    with pytest.raises(od.OffdiagError, match=r"Parquet file, received 't.parquet' .*CRC"):
        load(path, verify=True)
    assert sum(a != b for a, b in zip(load(path, verify=False), whole, strict=True)) == 1, "as the documents say"


def test_without_stored_checksums_nothing_can_be_found(tmp_path):
    path = written(tmp_path / "t.parquet", checksums=False)
    whole = load(path, verify=True)
    assert sum(a != b for a, b in zip(load(flipped(path), verify=True), whole, strict=True)) == 1
