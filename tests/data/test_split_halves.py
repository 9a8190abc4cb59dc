"""Known users for validation and others for the test."""

import numpy as np
import pytest

import offdiag as od
from offdiag.data.split_halves import halves
from offdiag.data.split_time import place_in_row

X = od.synthetic.interactions(200, 60, 3_000, seed=0)


def of_users(part):
    return np.diff(part.targets.indptr)


@pytest.mark.parametrize("latest", [False, True])
def test_each_user_is_asked_once_about_as_much_as_the_others(latest):
    split = halves(X, 0.2, 1_000, 0, latest=latest)
    validation, test = of_users(split.validation), of_users(split.test)
    assert not ((validation > 0) & (test > 0)).any()
    assert abs(int((validation > 0).sum()) - int((test > 0).sum())) == 0
    sizes = np.diff(X.matrix.indptr)
    both = validation + test
    asked = both > 0
    assert asked.sum() >= (sizes >= 2).sum() - 1
    np.testing.assert_array_less(np.abs(both - 0.2 * sizes)[asked & (sizes > 4)], 0.51)
    assert split.train.nnz + both.sum() == X.nnz
    for part in (split.validation, split.test):  # a user who is asked has shown what is left of the row
        shown = np.diff(part.histories.indptr)[of_users(part) > 0]
        np.testing.assert_array_equal(shown, (sizes - both)[of_users(part) > 0])


def test_the_latest_are_the_last_of_their_rows():
    split = halves(X, 0.2, 1_000, 0, latest=True)
    hidden = (split.validation.targets + split.test.targets).tocsr()
    rows = np.repeat(np.arange(X.n_users), np.diff(X.matrix.indptr))
    is_hidden = np.asarray(hidden[rows, X.matrix.indices]).ravel() > 0
    place = place_in_row(X)
    for user in range(0, X.n_users, 7):
        mine = rows == user
        if is_hidden[mine].any():
            assert place[mine & ~is_hidden].max(initial=-1) < place[mine & is_hidden].min()
    other = halves(X, 0.2, 1_000, 0, latest=False)
    assert ((other.validation.targets + other.test.targets) != hidden).nnz


def test_no_more_users_than_wanted_and_the_others_keep_their_items():
    split = halves(X, 0.2, 10, 3, latest=False)
    assert (of_users(split.validation) > 0).sum() == (of_users(split.test) > 0).sum() == 10
    untouched = of_users(split.validation) + of_users(split.test) == 0
    np.testing.assert_array_equal(np.diff(split.train.matrix.indptr)[untouched], np.diff(X.matrix.indptr)[untouched])
