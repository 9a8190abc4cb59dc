"""Families by the size of the data and by whom they serve."""

import dataclasses

from offdiag.autopilot.entrants import entrants
from offdiag.autopilot.sight import Sight

SMALL = Sight(1_000, 500, 20_000, True, True, 0.0, False, 1_000)
LARGE = dataclasses.replace(SMALL, n_items=200_000)


def test_the_automatic_family_comes_first_and_fits_the_question():
    assert entrants(SMALL, "known")[0].family == "full rank"
    assert entrants(LARGE, "new")[0].family == "sparse columns"
    assert entrants(SMALL, "next")[0].family == "next item"
    for sight in (SMALL, LARGE):
        for serve in ("known", "new", "next"):
            found = entrants(sight, serve)
            assert [one.automatic for one in found] == [True] + [False] * (len(found) - 1)
            assert [one.flops for one in found[1:]] == sorted(one.flops for one in found[1:])


def test_no_dense_matrix_for_a_large_catalogue():
    names = {type(one.model).__name__ for one in entrants(LARGE, "next")}
    assert not names & {"EDLAE", "RDLAE", "EASE"}
    (order,) = (one.model for one in entrants(LARGE, "next") if one.family == "next item")
    assert order.neighbours is not None
