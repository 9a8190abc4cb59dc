"""Files with one user or basket per line."""

import pytest

from offdiag.data.read import read
from tests.fixtures.tables import entries, refused, same_interactions, write


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


@pytest.mark.parametrize("form", ["adjacency", "baskets", "counted"])
def test_lines_of_ids_may_end_in_carriage_returns(tmp_path, form):
    text = b"2 5 6\n2 7 8\n"
    (tmp_path / "unix.txt").write_bytes(text)
    (tmp_path / "mac.txt").write_bytes(text.replace(b"\n", b"\r"))
    same_interactions(read(tmp_path / "mac.txt", format=form), read(tmp_path / "unix.txt", format=form))


def test_the_place_in_a_sequence_is_its_time(tmp_path):
    (tmp_path / "s.txt").write_text("ann z x y x\nbob y\n\ncy z x\n")
    inter = read(tmp_path / "s.txt", format="sequence")
    assert [inter.history(user) for user in ("ann", "bob", "cy")] == [["z", "y", "x"], ["y"], ["z", "x"]]
    assert inter.times.tolist() == [4, 3, 1, 1, 2, 1]
    refused(lambda: read(tmp_path / "s.txt", format="sequence", where="a = 1"), "neither where nor action")
