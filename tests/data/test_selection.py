import numpy as np
import pytest

import offdiag as od
from offdiag.data.selection import chosen_rows, rows_of_ids


@pytest.mark.parametrize(
    ("which", "ids", "positions", "found"),
    [
        (["c", "a"], None, None, [2, 0]),
        (None, ["b"], None, [1]),
        (None, None, [-1, 0], [2, 0]),
        (np.array([True, False, True]), None, None, [0, 2]),
        (slice(1, None), None, None, [1, 2]),
        (None, None, [], []),
    ],
)
def test_rows_are_chosen_by_id_position_mask_or_slice(which, ids, positions, found):
    assert chosen_rows(which, ids, positions, np.array(["a", "b", "c"]), "user").tolist() == found


def test_numbers_that_could_be_ids_or_positions_are_an_error():
    known = np.array([2, 1, 0])
    with pytest.raises(od.OffdiagError, match="write ids=… or positions=…"):
        chosen_rows([0, 1], None, None, known, "user")
    assert chosen_rows([1], None, None, known, "user").tolist() == [1]  # the same either way


def test_an_unknown_id_suggests_the_nearest():
    with pytest.raises(od.OffdiagError, match="did you mean 'anna'"):
        rows_of_ids(["Anna "], np.array(["anna", "bob"]), "user")


def test_two_ways_at_once_are_an_error():
    with pytest.raises(od.OffdiagError, match="one way to select items, received 2"):
        chosen_rows(["a"], ["b"], None, np.array(["a", "b"]), "item")
