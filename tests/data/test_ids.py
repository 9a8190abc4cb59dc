"""Ids keep their type, are numbered in ascending order, and none is so long that it inflates the others."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory
from offdiag.data.ids import MAX_LENGTH, positions
from offdiag.data.read import read
from tests.fixtures.tables import refused, write


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


def test_wide_ranges_of_integer_ids_are_numbered_like_compact_ones():
    rng = np.random.default_rng(0)
    small = rng.integers(0, 50, (400, 2))
    wide = small.astype(np.int64) * 10**15 - 7 * 10**15
    a = read(pl.DataFrame(small, schema=["user", "item"]))
    b = read(pl.DataFrame(wide, schema=["user", "item"]))
    assert (a.matrix != b.matrix).nnz == 0
    assert (b.user_ids == a.user_ids * 10**15 - 7 * 10**15).all()


def test_one_long_id_does_not_inflate_the_others(tmp_path):
    rows = "".join(f"u{i},1\n" for i in range(3000))
    (tmp_path / "t.csv").write_text("user,item\n" + rows + "x" * 5_000_000 + ",1\n")
    refused(lambda: od.read(tmp_path / "t.csv"), f"{MAX_LENGTH:,} characters", "5,000,000", "xxx")
    names = ["x" * 5_000_000, *map(str, range(3000))]
    refused(lambda: od.read(np.ones((3001, 1)), user_ids=names), "5,000,000")
    refused(lambda: od.Interactions(sparse.csr_array(np.ones((3001, 1), np.float32)), names, [1]), "5,000,000")


def test_ids_that_do_not_fit_in_memory_as_an_array_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    frame = pl.DataFrame({"user": [*map(str, range(500)), "y" * 4000], "item": [1] * 501})
    refused(lambda: od.read(frame), "501 ids", "'yyyy", "8.02 MB")


def test_the_longest_ids_survive_fit_save_and_load(tmp_path):
    names = [f"{i}" + "é" * (MAX_LENGTH - 1) for i in range(4)] + ["short"]
    inter = od.read(pl.DataFrame({"user": [1, 1, 2, 2, 3, 3, 3], "item": [names[i] for i in (0, 1, 1, 2, 2, 3, 4)]}))
    model = od.EASE(l2=1.0).fit(inter)
    model.save(tmp_path / "m.od")
    again = od.load(tmp_path / "m.od")
    assert again.item_ids_.tolist() == inter.item_ids.tolist() == names
    assert again.recommend([[names[0]]], k=5).items.tolist() == model.recommend([[names[0]]], k=5).items.tolist()
    with pytest.warns(od.UnknownItemsWarning):
        assert again.recommend([["z" * 5_000_000, names[1]]] * 3, k=1).lengths.tolist() == [1] * 3


@pytest.mark.parametrize("ids", [np.array([30, 10, 20]), np.array(["c", "a", "b"])])
def test_positions_find_ids_in_any_order_of_the_catalogue(ids):
    assert positions(ids[[2, 0, 1]], ids).tolist() == [2, 0, 1]
    assert positions([], ids).tolist() == []
    assert positions([None, 1.5, True, "zz", 99, 10**30], ids).tolist() == [-1] * 6
    assert positions([10**30], ids).tolist() == positions([2**63], ids).tolist() == [-1]


def test_ids_are_never_converted_to_another_type():
    texts, numbers = np.array(["7", "True", "a"]), np.array([1, 10])
    assert positions(["a", 7, True], texts).tolist() == [2, -1, -1]
    assert positions([True, 10, "1", 1.0], numbers).tolist() == [-1, 1, -1, -1]
    assert positions(np.array([1, 10]), texts[:2]).tolist() == [-1, -1]


def test_large_unsigned_ids_are_kept_apart():
    ids = np.array([2**60 + 1, 2**60 + 2, 2**63 + 5], dtype=np.uint64)
    assert positions([2**63 + 5, 2**60 + 2, 2**60, -1], ids).tolist() == [2, 1, -1, -1]


@given(st.lists(st.text(max_size=4), max_size=8), st.sets(st.text(max_size=3), max_size=6))
def test_positions_agree_with_a_dictionary(asked, known):
    known = sorted(name for name in known if "\0" not in name)
    place = {name: i for i, name in enumerate(known)}
    expected = [place.get(name, -1) for name in asked]
    array = np.array(known, dtype=np.str_) if known else np.array([], dtype="U1")
    assert positions(asked, array).tolist() == expected
    assert positions(asked, np.array(known, dtype=object)).tolist() == expected
