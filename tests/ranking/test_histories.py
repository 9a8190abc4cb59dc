"""A history of any form becomes the row that a plain loop over its ids gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.ranking.histories import encode
from offdiag.ranking.recency import Recency
from tests.fixtures.groceries import groceries


def test_histories_may_be_rows_interactions_or_lists_of_ids():
    inter, model = groceries()
    rows = model.recommend(inter.matrix, k=2)
    assert np.array_equal(model.recommend(inter, k=2).items, rows.items)
    lists = [inter.item_ids[inter.matrix[[u]].indices].tolist() for u in range(4)]
    assert np.array_equal(model.recommend(lists, k=2).items, rows.items)
    assert np.array_equal(model.recommend(lists[0], k=2).items[0], rows.items[0])
    assert np.array_equal(model.recommend([tuple(lists[0]), set(lists[1])], k=2).items, rows.items[:2])
    assert np.array_equal(model.recommend([np.array(lists[0])], k=2).items[0], rows.items[0])
    assert np.array_equal(model.recommend(inter.matrix.toarray(), k=2).items, rows.items)


def test_interactions_with_other_columns_are_matched_by_id():
    inter, model = groceries()
    order = np.array([2, 0, 1])
    other = od.Interactions(
        matrix=sparse.csr_array(inter.matrix.toarray()[:, order]),
        user_ids=inter.user_ids,
        item_ids=inter.item_ids[order],
    )
    without_date = inter.matrix.toarray()
    without_date[:, 3] = 0
    assert np.array_equal(model.recommend(other, k=2).items, model.recommend(without_date, k=2).items)


@pytest.mark.parametrize("histories", ["apple", 3, [["apple"], "bread"], np.ones((2, 3))])
def test_histories_of_another_form_are_refused(histories):
    _, model = groceries()
    with pytest.raises(od.OffdiagError):
        model.recommend(histories)


CATALOGUE = np.array(["a", "b", "c", "d"])
IDS = st.sampled_from(["a", "b", "c", "d", "new", "newer"])


@given(st.lists(st.lists(IDS, max_size=6), max_size=5))
def test_lists_become_rows_of_ones_however_often_an_id_occurs(lists):
    X, unknown = encode(lists, CATALOGUE)
    assert X.shape == (len(lists), 4)
    assert X.has_canonical_format
    assert X.toarray().tolist() == [[float(item in history) for item in CATALOGUE.tolist()] for history in lists]
    assert unknown == [tuple(item for item in history if item not in CATALOGUE) for history in lists]


@given(
    st.permutations(["a", "b", "c", "d", "new"]), st.integers(0, 5),
    st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), max_size=4),
)  # fmt: skip
def test_values_of_interactions_follow_their_ids(order, n_items, values):
    names, table = order[:n_items], np.array(values, dtype=np.float32).reshape(len(values), 5)[:, :n_items]
    inter = od.Interactions(sparse.csr_array(table), np.arange(len(values)), np.array(names, dtype="U5"))
    X, unknown = encode(inter, CATALOGUE)
    expected = [[float(row[names.index(i)]) if i in names else 0.0 for i in CATALOGUE.tolist()] for row in table]
    assert X.toarray().tolist() == expected
    assert X.has_canonical_format
    assert unknown == [("new",) if "new" in names and row[names.index("new")] else () for row in table]


RECENT = Recency(0.5)


def test_recent_choices_count_more_and_repeats_add_up():
    rows, unknown = encode([["b", "nowhere", "a", "b"], []], np.array(["a", "b", "c"]), RECENT)
    assert rows.toarray().tolist() == [[0.5, 1.25, 0.0], [0.0, 0.0, 0.0]]
    assert unknown == [("nowhere",), ()]


def test_interactions_are_weighed_by_their_own_order():
    log = {"user": [1, 1, 1, 2], "item": ["c", "a", "c", "b"], "t": [1, 2, 3, 1]}
    ids = np.array(["b", "c", "a"])
    rows, _ = encode(od.read(log, time="t", keep="events"), ids, RECENT)
    assert rows.toarray().tolist() == [[0.0, 1.25, 0.5], [1.0, 0.0, 0.0]]
    rows, _ = encode(od.read(log, time="t"), ids, RECENT)  # of a repeated pair the latest time counts
    assert rows.toarray().tolist() == [[0.0, 1.0, 0.5], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("histories", [np.eye(3), sparse.eye_array(3), od.read(np.eye(3)), [{"a"}], {"a"}])
def test_recency_needs_an_order(histories):
    with pytest.raises(od.OffdiagError, match="by its order, but received"):
        encode(histories, np.array(["a", "b", "c"]), RECENT)
