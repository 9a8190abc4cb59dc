"""Arrow files and streams, whole and damaged."""

import gzip

import polars as pl
import pytest

import offdiag as od
from offdiag.data.arrow_files import read_arrow
from tests.fixtures.tables import entries, outcome, refused

FRAME = pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "n": [1.0, 3.0]})
TRUTH = {("a", 1): 1.0, ("b", 2): 3.0}


@pytest.mark.parametrize("name", ["t.arrow", "t.feather", "t.ipc"])
def test_files_and_streams_are_read(tmp_path, name):
    FRAME.write_ipc(tmp_path / name)
    assert entries(od.read(tmp_path / name, value="n")) == TRUTH
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert entries(od.read(tmp_path / f"{name}.gz", value="n")) == TRUTH
    assert read_arrow(tmp_path / name, [2]).columns == ["n"]
    FRAME.write_ipc_stream(tmp_path / name)
    assert entries(od.read(tmp_path / name, value="n")) == TRUTH


def test_damage_is_a_one_line_error(tmp_path):
    FRAME.write_ipc(tmp_path / "t.arrow")
    whole = (tmp_path / "t.arrow").read_bytes()
    for end in range(1, len(whole) - 1, 97):
        (tmp_path / "t.arrow").write_bytes(whole[:end])
        refused(lambda: od.read(tmp_path / "t.arrow"), "an Arrow file, received 't.arrow'")
    for at in range(0, len(whole), 41):
        (tmp_path / "t.arrow").write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        assert "\n" not in (outcome(lambda: od.read(tmp_path / "t.arrow")) or "")
