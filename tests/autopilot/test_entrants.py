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


def test_nets_and_slim_need_a_large_budget():
    names = {one.family for one in entrants(SMALL, "known", 3600.0)}
    assert "slim" in names
    assert not {"slim", "variational net"} & {one.family for one in entrants(SMALL, "known", 300.0)}


def test_dislikes_bring_a_family():
    some = dataclasses.replace(SMALL, disliked=10)
    assert "full rank, dislikes" in {one.family for one in entrants(some, "known")}
    assert "full rank, dislikes" not in {one.family for one in entrants(SMALL, "known")}


def test_models_say_what_they_take_besides():
    found = {one.family: one for one in entrants(SMALL, "next")}
    assert found["full rank"].takes_features
    assert found["next item"].takes_features
    assert not found["popularity"].takes_features
    assert found["full rank"].takes_groups
    assert not found["free diagonal"].takes_groups
