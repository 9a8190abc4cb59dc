"""How data is held out for each question."""

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot.holding_out import hold_out, part_of_users
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


def test_nothing_that_is_held_out_was_learned_from():
    """Users are in train in two of the three; their targets are not."""
    for serve in ("next", "known", "new"):
        split = held(serve).split
        learned = {user: set(items) for user, items in pairs(split.train.matrix, split.train.user_ids).items()}
        for part in (split.validation, split.test):
            for user, targets in pairs(part.targets, part.user_ids).items():
                assert not targets & learned.get(user, set())
        tests, validations = (pairs(part.targets, part.user_ids) for part in (split.test, split.validation))
        assert all(not tests[user] & validations.get(user, set()) for user in tests)


def pairs(matrix, users):
    return {
        user: set(matrix.indices[lo:hi].tolist())
        for user, lo, hi in zip(users.tolist(), matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    }


def test_a_date_holds_out_what_comes_later_and_some_before_it():
    found = hold_out(X, look(X), None, 0, "2024-10-01")
    assert found.serve == "next"
    n_test, n_validation = found.split.test.targets.nnz, found.split.validation.targets.nnz
    assert 0.8 * n_test < n_validation < 1.2 * n_test
    assert found.split.train.times.max() < found.split.validation.target_times.min()
    assert found.split.validation.target_times.max() < found.split.test.target_times.min()


def test_a_part_of_the_users_is_judged_by_the_same_users():
    known, new = (part_of_users(held(serve).split, 50, 0) for serve in ("known", "new"))
    assert known.train.n_users == new.train.n_users == 50
    assert np.array_equal(known.validation.user_ids, known.train.user_ids)
    assert len(new.validation.user_ids) == 20


def test_choices_that_repeat_an_item_are_no_targets():
    """No list has what a user has, so no model could find them."""
    log = {"user": [], "item": [], "time": []}
    for user in range(30):
        for time, item in enumerate([user % 7, 10 + user % 5, 20 + user % 3, 30 + user % 2]):
            log["user"].append(user), log["item"].append(item), log["time"].append(time)
        if user % 3 == 0:  # the last choice is the first one again
            log["user"].append(user), log["item"].append(user % 7), log["time"].append(9)
    inter = od.read(log, time="time", keep="events")
    found = hold_out(inter, look(inter), None, 0)
    assert found.split.test.targets.nnz == 20
    assert found.split.test.targets.multiply(found.split.test.histories).nnz == 0
    assert "33 % of these choices repeat" in found.sentence
