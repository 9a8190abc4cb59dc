"""A flipped bit in a page of a Parquet file is detected if checksums are stored and verified."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster import sources

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def written(path, *, checksums):
    rng = np.random.default_rng(0)
    table = pa.table(
        {"user": rng.integers(0, 1 << 40, 4000), "item": rng.integers(0, 1 << 40, 4000), "other": [1] * 4000}
    )
    pq.write_table(table, path, write_page_checksum=checksums, compression="none", use_dictionary=False)
    return path


def flipped(path):
    """Flips one bit in the middle of the first column, where there are only values."""
    raw = bytearray(path.read_bytes())
    raw[16_000] ^= 4
    path.write_bytes(bytes(raw))
    return path


def load(path, verify):
    wanted = sources.Wanted("user", "item", None, None, None, False, verify)
    return sources.load(str(path), path.name, wanted).user.to_list()


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
