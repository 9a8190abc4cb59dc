"""How data is held out for each question."""

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot.holding_out import hold_out
from offdiag.autopilot.sight import look

X = od.synthetic.interactions(200, 30, 2_000, times=True, seed=0)


def held(serve, inter=X):
    return hold_out(inter, look(inter), serve, 0)


def test_the_last_choice_a_part_of_the_items_or_new_users():
    last, known, new = held("next"), held("known"), held("new")
    assert np.diff(last.split.test.targets.indptr).max() == 1
    assert known.split.train.n_users == X.n_users
    assert new.split.train.n_users == 160
    assert not set(new.split.train.user_ids) & set(new.split.test.user_ids)
    for one in (last, known, new):
        assert one.split.validation.targets.nnz > 0


def test_by_default_the_order_decides():
    assert held(None).serve == "next"
    assert held(None, od.read(X.matrix)).serve == "known"


def test_nothing_can_be_held_out_of_users_with_one_item():
    with pytest.raises(od.OffdiagError, match="two items or more"):
        held(None, od.read(np.eye(4)))
