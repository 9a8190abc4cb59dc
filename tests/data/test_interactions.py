"""Interactions: shape, selection, and that times and table positions follow their entries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import offdiag as od
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError
from tests.fixtures.mistakes import rejects
from tests.fixtures.tables import refused

dense = arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.sampled_from([0, 0, 1, 2]))


def make(matrix: np.ndarray) -> Interactions:
    csr = sparse.csr_array(matrix.astype(np.float32))
    times = np.arange(csr.nnz) * 10
    return Interactions(csr, np.arange(matrix.shape[0]), np.arange(matrix.shape[1]) + 100, times)


@given(dense, st.data())
def test_selecting_users_and_items_equals_indexing_the_dense_matrix(matrix, data):
    inter = make(matrix)
    users = data.draw(st.lists(st.integers(0, matrix.shape[0] - 1), unique=True))
    items = data.draw(st.lists(st.integers(0, matrix.shape[1] - 1), unique=True))
    chosen = inter.select_users(users).select_items(positions=items)
    assert np.array_equal(chosen.matrix.toarray(), matrix[np.ix_(users, items)])
    assert chosen.user_ids.tolist() == users
    assert chosen.item_ids.tolist() == [100 + i for i in items]
    assert chosen.matrix.has_sorted_indices
    assert chosen.matrix.has_canonical_format


@given(dense, st.data())
def test_times_and_table_positions_stay_with_their_entries(matrix, data):
    inter = make(matrix)
    users = data.draw(st.permutations(range(matrix.shape[0])))
    items = data.draw(st.permutations(range(matrix.shape[1])))
    chosen = inter.select_users(users).select_items(positions=items)
    before = inter.matrix.tocoo()
    time_of = dict(zip(zip(before.row, before.col, strict=True), inter.times, strict=True))
    after = chosen.matrix.tocoo()
    for u, i, t, place in zip(after.row, after.col, chosen.times, chosen.table_order, strict=True):
        assert t == time_of[users[u], items[i]]
        assert place * 10 == t or chosen.rows is None  # times were made from the table position
    assert np.argsort(chosen.table_order).tolist() == np.argsort(chosen.times).tolist()


def test_a_mask_selects_like_positions():
    inter = make(np.eye(4))
    assert np.array_equal(
        inter.select_items(np.array([True, False, True, False])).matrix.toarray(), np.eye(4)[:, [0, 2]]
    )
    assert inter.select_users([]).matrix.shape == (0, 4)
    assert inter.select_users([-1]).user_ids.tolist() == [3]
    assert inter.select_users(slice(1, 3)).user_ids.tolist() == [1, 2]


TEXT = np.array(["ann", "bob", "cy", "dan"])
FROM_1 = np.array([1, 2, 3, 4])
FROM_100 = np.array([100, 101, 102, 103])


def users(ids):
    return Interactions(sparse.csr_array(np.eye(4, dtype=np.float32)), ids, np.arange(4))


@pytest.mark.parametrize(
    ("ids", "call", "expected"),
    [
        (TEXT, lambda i: i.select_users(["cy", "ann"]), ["cy", "ann"]),
        (TEXT, lambda i: i.select_users(np.array(["cy", "ann"])), ["cy", "ann"]),
        (TEXT, lambda i: i.select_users(np.array(["cy"], dtype=object)), ["cy"]),
        (TEXT, lambda i: i.select_users("bob"), ["bob"]),
        (TEXT, lambda i: i.select_users([2, -1]), ["cy", "dan"]),
        (FROM_100, lambda i: i.select_users([102, 100]), [102, 100]),
        (FROM_100, lambda i: i.select_users(ids=[102]), [102]),
        (FROM_100, lambda i: i.select_users(positions=[2]), [102]),
        (FROM_100, lambda i: i.select_users(np.array([False, True, False, True])), [101, 103]),
        (FROM_100, lambda i: i.select_users(slice(2)), [100, 101]),
        (FROM_1, lambda i: i.select_users(ids=[2]), [2]),
        (FROM_1, lambda i: i.select_users(positions=[2]), [3]),
        (FROM_1, lambda i: i.select_users([4]), [4]),
        (FROM_1[::-1], lambda i: i.select_users([]), []),
    ],
)
def test_users_are_selected_by_id(ids, call, expected):
    assert call(users(ids)).user_ids.tolist() == expected


@pytest.mark.parametrize(
    ("ids", "call", "words"),
    [
        (TEXT, lambda i: i.select_users(["ann", "bo"]), "received 'bo'"),
        (TEXT, lambda i: i.select_users(ids=[0]), "received 0"),
        (TEXT, lambda i: i.select_users(["x" * 5_000_000]), "…"),
        (FROM_100, lambda i: i.select_users([3]), "received 3; .*positions="),
        (FROM_100, lambda i: i.select_users([104]), "received 104"),
        (FROM_100, lambda i: i.select_users(ids=range(10)), "0, 1, 2, 3, 4 and 5 more"),
        (FROM_100, lambda i: i.select_users(["100"]), "received '100'"),
        (FROM_1, lambda i: i.select_users([2]), "unambiguously"),
        (FROM_1, lambda i: i.select_users([0, 1]), "received 0"),
    ],
)
def test_an_unknown_id_selects_no_other_user(ids, call, words):
    refused(lambda: call(users(ids)), *words.split(".*"))


@given(st.sets(st.integers(-4, 8), min_size=1, max_size=6), st.lists(st.integers(-6, 9), max_size=4))
def test_numbers_select_only_the_users_with_these_ids(known, wanted):
    known = sorted(known)
    inter = Interactions(sparse.csr_array((len(known), 2), dtype=np.float32), np.array(known), np.arange(2))
    try:
        chosen = inter.select_users(wanted).user_ids.tolist()
    except OffdiagError:
        by_place = known == list(range(len(known)))
        inside = all(-len(known) <= w < len(known) for w in wanted)
        assert not (by_place and inside), "ids that are the positions are never in doubt"
        assert not set(wanted) <= set(known) or inside, "known ids that cannot be positions are accepted"
    else:
        assert chosen == [known[w] if w < 0 and w not in known else w for w in wanted]


def test_the_repr_contains_the_size():
    assert repr(make(np.eye(4))) == "Interactions(4 users x 4 items, 4 interactions, 25 % filled, with times)"


FOUR = make(np.eye(4))
test_a_wrong_selection_is_rejected = rejects(
    (lambda: FOUR.select_users([9]), "below 4"),
    (lambda: FOUR.select_users([True]), "mask over 4"),
    (lambda: FOUR.select_users(["a"]), "such as 0, received 'a'"),
    (lambda: FOUR.select_users([0.5]), "float64"),
    (lambda: FOUR.select_users(7), "shape"),
    (lambda: FOUR.select_users(), "one way"),
    (lambda: FOUR.select_users([1], ids=[1]), "one way"),
    (lambda: FOUR.select_items(positions=[1, 1]), "twice"),
    (lambda: FOUR.select_items(positions=[4]), "below 4"),
    (lambda: Interactions(FOUR.matrix, FOUR.user_ids[:2], FOUR.item_ids), "2 users x 4 items"),
    (lambda: Interactions(FOUR.matrix, FOUR.user_ids, FOUR.item_ids, times=np.zeros(1)), "times"),
    (lambda: Interactions(FOUR.matrix, FOUR.user_ids, FOUR.item_ids, rows=np.zeros(1)), "rows"),
)


def test_a_history_is_in_the_order_of_time_or_of_the_table():
    log = {"user": ["b", "a", "b", "b"], "item": ["z", "z", "x", "y"], "t": [9, 1, 2, 5]}
    assert od.read(log, time="t").history("b") == ["x", "y", "z"]
    assert od.read(log).history("b") == ["z", "x", "y"]
    assert od.read(log).history("a") == ["z"]
    numbers = od.read({"user": [7, 3], "item": [1, 2]})
    assert numbers.history(3) == [2]
    assert numbers.history(np.int64(7)) == [1]


def test_the_history_of_an_unknown_user_is_refused_with_a_hint():
    inter = od.read({"user": ["Ann-1", "bob"], "item": [1, 2]})
    refused(lambda: inter.history("ann-1"), "such as 'Ann-1', received 'ann-1'", "did you mean 'Ann-1'?")
    refused(lambda: inter.history(0), "received 0; check its spelling")


def test_users_are_picked_as_rows_of_a_matrix_are():
    inter = od.synthetic.interactions(20, 9, 60, seed=0)
    assert inter.shape == (20, 9)
    for which in (slice(3, 7), [5, 2], np.arange(20) % 2 == 0, np.array([0, -1])):
        assert np.array_equal(inter[which].matrix.toarray(), inter.matrix.toarray()[which])
        assert inter[which, ...].user_ids.tolist() == inter.user_ids[which].tolist()
    for which in ("ann", (1, 2)):
        with pytest.raises(od.OffdiagError, match="positions of users or a mask"):
            inter[which]
    with pytest.raises(TypeError):
        iter(inter)
