"""A partition that cannot be read, or differs from the others, is named before any work."""

import polars as pl
import pytest

import offdiag as od

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")
dask = pytest.importorskip("dask")


@pytest.fixture
def parts(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    for at in range(3):
        frame.write_parquet(tmp_path / f"part-{at}.parquet")
    return tmp_path


CHANGES = {
    "missing column": (pl.DataFrame({"user": [1], "thing": ["a"]}), ("item='item'", "thing")),
    "item ids of another type": (pl.DataFrame({"user": [1], "item": [7], "value": [1.0]}), ("item", "text", "numbers")),
    "user ids of another type": (
        pl.DataFrame({"user": ["x"], "item": ["a"], "value": [1.0]}),
        ("user", "numbers", "String"),
    ),
    "values that are text": (pl.DataFrame({"user": [1], "item": ["a"], "value": ["1"]}), ("value", "String")),
    "a row without an id": (pl.DataFrame({"user": [None, 1], "item": ["a", "b"], "value": [1.0, 1.0]}), ("row 1",)),
    "a negative value": (pl.DataFrame({"user": [1], "item": ["a"], "value": [-1.0]}), ("0 or more", "row 1")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_partition_that_differs_is_named(mistake, client, parts, name):
    frame, words = CHANGES[name]
    frame.write_parquet(parts / "part-1.parquet")
    said = mistake(od.cluster.read, parts, value="value", client=client)
    assert "part-1.parquet" in said
    assert all(word in said for word in words), said


@pytest.mark.parametrize("damage", ["cut off", "text", "empty", "gone"])
def test_a_partition_that_cannot_be_read_is_named(mistake, client, parts, damage):
    path, files = parts / "part-2.parquet", sorted(parts.glob("*.parquet"))
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut off": whole[: len(whole) // 2], "text": b"user,item\n1,a\n", "empty": b""}[damage])
    assert "part-2.parquet" in mistake(od.cluster.read, files, client=client)


def test_a_partition_of_a_data_frame_that_differs_is_named(mistake, client):
    dd = pytest.importorskip("dask.dataframe")
    frames = [pl.DataFrame({"user": [1, 2], "item": items}).to_pandas() for items in (["a", "b"], [3, 4])]
    parts = [dask.delayed(frame, pure=False) for frame in frames]
    table = dd.from_delayed(parts, meta=frames[0], verify_meta=False)
    said = mistake(od.cluster.read, table, client=client)
    assert "item to be text in every partition" in said
    assert "partition 1" in said


def test_sources_without_data_are_refused(mistake, client, tmp_path):
    assert "parquet files in the folder" in mistake(od.cluster.read, tmp_path, client=client)
    assert "matches none" in mistake(od.cluster.read, str(tmp_path / "*.parquet"), client=client)
    assert "convert it first" in mistake(od.cluster.read, ["events.csv"], client=client)
    assert "list of paths" in mistake(od.cluster.read, [], client=client)
    assert "Dask DataFrame" in mistake(od.cluster.read, 3, client=client)
    pl.DataFrame({"user": [], "item": []}).write_parquet(tmp_path / "none.parquet")
    assert "at least one interaction" in mistake(od.cluster.read, tmp_path, client=client)
    assert "'sum' or 'once'" in mistake(od.cluster.read, tmp_path, duplicates="twice", client=client)
