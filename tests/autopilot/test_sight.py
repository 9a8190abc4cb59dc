"""What is seen in data, by hand."""

import numpy as np

import offdiag as od
from offdiag.autopilot.sight import look


def test_sets_values_times_and_repeats_are_seen():
    plain = look(od.read(np.array([[1, 0, 1], [0, 1, 0]])))
    assert (plain.n_users, plain.n_items, plain.n_interactions, plain.users_with_two) == (2, 3, 3, 1)
    assert [plain.ordered, plain.timed, plain.valued, plain.repeats] == [False, False, False, 0]
    assert look(od.read(np.array([[1, 5]]))).valued
    table = {"user": ["a", "a", "a", "a"], "item": ["x", "y", "x", "x"], "time": [1, 2, 3, 4]}
    events = look(od.read(table, time="time", keep="events"))
    assert events.ordered
    assert events.timed
    assert events.repeats == 0.5
    assert any("50 % of the events repeat" in said for said in events.sentences)
    assert look(od.read(table, time="time")).timed


def test_dislikes_and_items_with_features_are_counted():
    stars = {"user": ["a", "a", "b"], "item": ["x", "y", "y"], "stars": [5, 1, 4]}
    assert look(od.read(stars, value="stars", dislike_below=3)).disliked == 1
    X = od.read({"user": ["a", "a", "b"], "item": ["x", "y", "x"]})
    seen = look(X, od.read_features({"item": ["y", "z"], "kind": ["k", "l"]}, categories=["kind"]))
    assert seen.described == 1
    assert "features describe 1 of 2 items (50 %)" in seen.sentences
