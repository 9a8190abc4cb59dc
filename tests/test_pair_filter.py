"""Items blocked for single users: the rest of their list is what it would be, and nobody else is affected."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import offdiag as od


@pytest.fixture(scope="module")
def inter():
    return od.synthetic.interactions(60, 40, 600, seed=2)


@pytest.fixture(scope="module")
def model(inter):
    return od.EASE(l2=10.0).fit(inter)


def by_definition(model, inter, pairs, k):
    """The whole ranking of each user without what is blocked for them."""
    whole = model.recommend(inter, k=inter.n_items)
    return [
        [(item, score) for item, score in ranked if (user, item) not in pairs][:k]
        for user, ranked in zip(inter.user_ids.tolist(), whole, strict=True)
    ]


def random_pairs(inter, n, seed=0):
    rng = np.random.default_rng(seed)
    users, items = rng.choice(inter.user_ids[:20], n), rng.choice(inter.item_ids, n)
    return pl.DataFrame({"user": users.tolist(), "item": items.tolist()}).unique()


@pytest.mark.parametrize("n", [1, 30, 600])
@pytest.mark.parametrize("form", [lambda x: x, lambda x: x.to_pandas(), od.read], ids=["polars", "pandas", "read"])
def test_blocked_pairs_are_left_out_and_nothing_else_changes(model, inter, n, form):
    table = random_pairs(inter, n)
    lists = model.recommend(inter, k=7, block=form(table))
    assert list(lists) == by_definition(model, inter, set(table.rows()), 7)


def test_pairs_of_a_user_with_an_empty_history_are_obeyed(model, inter):
    empty = od.Interactions(inter.matrix[:2] * 0, inter.user_ids[:2], inter.item_ids)
    popular = model.recommend(empty, k=3).items[0].tolist()
    block = pd.DataFrame({"user": inter.user_ids[:1], "item": popular[:1]})
    lists = model.recommend(empty, k=2, block=block)
    assert lists.items.tolist() == [popular[1:3], popular[:2]]


def test_users_and_items_that_are_not_known_are_warned_about(model, inter):
    block = pl.DataFrame({"user": [0, 999], "item": ["nothing", inter.item_ids[0]]})
    with pytest.warns(od.UnknownItemsWarning) as caught:
        lists = model.recommend(inter, block=block)
    texts = " ".join(str(one.message) for one in caught)
    assert "nothing" in texts
    assert "1 users of block have no history here: 999" in texts
    assert lists.unknown_in_filters == ["nothing"]
    with pytest.raises(od.OffdiagError, match="block holds ids"):
        model.recommend(inter, block=block, strict=True)


def test_a_user_may_have_everything_blocked(model, inter):
    block = pl.DataFrame({"user": [inter.user_ids[0]] * 40, "item": inter.item_ids.tolist()})
    lists = model.recommend(inter, k=5, block=block)
    assert lists.lengths[0] == 0
    assert (lists.lengths[1:] == 5).all()


def test_positions_are_the_users_of_plain_lists(model, inter):
    history = inter.item_ids[:2].tolist()
    first = model.recommend([history], k=1).items[0, 0]
    lists = model.recommend([history, history], k=1, block=pl.DataFrame({"user": [1], "item": [first]}))
    assert lists.items[0, 0] == first != lists.items[1, 0]
