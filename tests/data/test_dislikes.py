import logging

import numpy as np
import polars as pl
import pytest

import offdiag as od

LOG = {
    "user": ["ann", "ann", "bob", "bob", "cy", "cy", "dan"],
    "item": ["tea", "cup", "tea", "jam", "tea", "cup", "cup"],
    "stars": [5, 1, 4, 5, 2, 3, 1],
    "note": ["fine"] * 7,
}


def pairs(X):
    rows = X.dislikes.tocoo()
    return sorted(zip(X.user_ids[rows.row].tolist(), X.item_ids[rows.col].tolist(), strict=True))


def test_values_below_the_threshold_are_dislikes_and_the_others_likes():
    X = od.read(LOG, value="stars", dislike_below=3)
    assert pairs(X) == [("ann", "cup"), ("cy", "tea"), ("dan", "cup")]
    assert X.nnz == 4
    assert X.user_ids.tolist() == ["ann", "bob", "cy", "dan"]  # who only dislikes is a user, too
    assert set(X.dislikes.data.tolist()) == {1.0}
    assert "3 dislikes" in repr(X)
    assert od.read(LOG, value="stars").dislikes is None


def test_dislikes_of_items_that_nobody_likes_are_left_out_with_a_note(caplog):
    with caplog.at_level(logging.INFO, "offdiag"):
        X = od.read(LOG, value="stars", dislike_below=4)
    assert X.item_ids.tolist() == ["jam", "tea"]
    assert pairs(X) == [("cy", "tea")]
    assert X.notes == ("3 dislikes are of items that nobody likes, and left out",)
    assert X.notes[0] in caplog.text


@pytest.mark.parametrize(("times", "wanted"), [([1, 2, 2, 1, 1], [("a", "x")]), (None, [("a", "x"), ("b", "x")])])
def test_of_a_pair_with_both_the_latest_row_counts(times, wanted):
    log = {"user": ["a", "a", "b", "b", "c"], "item": ["x"] * 5, "v": [1, -1, 1, -1, 1], "t": times or [0] * 5}
    X = od.read(log, value="v", time=None if times is None else "t", dislike_below=0)
    assert pairs(X) == wanted
    assert X.notes == ("2 pairs were liked and disliked: the latest row counts",)


def test_a_return_is_a_dislike_and_a_purchase_after_it_a_like():
    log = {"user": [1, 1, 1, 2, 2], "item": [7, 7, 8, 7, 8], "n": [1, -1, 1, -1, 1], "t": [1, 2, 1, 1, 1]}
    X = od.read(log, value="n", time="t", dislike_below=0)
    assert X.item_ids.tolist() == [8]  # nobody kept 7
    log["t"] = [2, 1, 1, 1, 1]  # returned first, then bought again
    X = od.read(log, value="n", time="t", dislike_below=0)
    assert X.item_ids.tolist() == [7, 8]
    assert pairs(X) == [(2, 7)]


def test_zero_is_a_dislike_where_values_are_votes():
    X = od.read(
        {"user": [1, 1, 2], "item": [1, 2, 1], "vote": [1, 0, 1], "x": [0, 0, 0]}, value="vote", dislike_below=1
    )
    assert X.nnz == 2
    assert X.notes == ("1 dislike is of items that nobody likes, and left out",)


def test_selections_keep_likes_and_dislikes_together():
    X = od.read(LOG, value="stars", dislike_below=3)
    assert pairs(X.select_users(ids=["cy", "ann"])) == [("ann", "cup"), ("cy", "tea")]
    assert pairs(X.select_items(ids=["tea", "jam"])) == [("cy", "tea")]
    assert pairs(od.prepare.binarize(X, at_least=4)) == pairs(X)
    assert pairs(od.prepare.min_counts(X)) == [("ann", "cup"), ("cy", "tea")]  # dan has no likes
    split = od.split.weak(X, held_out=0.5)
    assert pairs(split.train) == pairs(X)
    assert split.test.ordered.dislikes.nnz == 3


def test_dislikes_can_be_given_with_a_matrix():
    likes, dislikes = np.array([[1, 0], [1, 1]]), np.array([[0, 1], [0, 0]])
    X = od.Interactions(od.read(likes).matrix, [1, 2], ["a", "b"], dislikes=od.read(dislikes).matrix)
    assert pairs(X) == [(1, "b")]
    with pytest.raises(od.OffdiagError, match="dislikes of the same 2 users x 2 items, received 1 x 2"):
        od.Interactions(X.matrix, [1, 2], ["a", "b"], dislikes=X.dislikes[:1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"dislike_below": 3}, "dislike_below= is about values.*add value="),
        ({"value": "stars", "dislike_below": 3, "negative": "drop"}, "leave one out"),
        ({"value": "stars", "dislike_below": "low"}, "dislike_below must be"),
        ({"value": "stars", "dislike_below": 9}, "values of 9 or more, which are likes"),
        ({"value": "note", "dislike_below": 3}, "expected numbers"),
    ],
)
def test_mistakes_are_explained(words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.read(LOG, **words)


def test_gaps_among_the_values_are_an_error():
    with pytest.raises(od.OffdiagError, match="a value"):
        od.read(pl.DataFrame(LOG | {"stars": [5, None, 4, 5, 2, 3, 1]}), value="stars", dislike_below=3)
