import numpy as np
from hypothesis import given
from scipy import sparse

import offdiag as od
from offdiag.ranking.dislikes import encode_dislikes, signed_rows
from tests.laws.strategies import interactions


@given(interactions(min_items=2), interactions(min_items=2))
def test_a_dislike_is_minus_one_also_where_the_item_is_in_the_history(X, D):
    n, m = min(X.shape[0], D.shape[0]), min(X.shape[1], D.shape[1])
    likes, dislikes = X[:n, :m].toarray(), (D[:n, :m].toarray() > 0).astype(np.float32)
    rows = signed_rows(sparse.csr_array(likes), sparse.csr_array(dislikes))
    np.testing.assert_array_equal(rows.toarray(), np.where(dislikes > 0, -1, likes))
    assert rows.has_sorted_indices
    assert rows.data.all()


def test_dislikes_are_matched_by_id_and_joined_from_both_sources():
    log = {"user": [1, 1, 2, 2], "item": ["a", "b", "b", "a"], "stars": [5, 1, 5, 4]}
    X, ids = od.read(log, value="stars", dislike_below=3), np.array(["c", "b", "a"])
    rows, unknown = encode_dislikes(X, None, ids, 2)
    assert rows.toarray().tolist() == [[0, 1, 0], [0, 0, 0]]
    rows, unknown = encode_dislikes(X, [["b", "c", "z"], []], ids, 2)
    assert rows.toarray().tolist() == [[1, 1, 0], [0, 0, 0]]
    assert unknown == [("z",), ()]
    assert encode_dislikes([["a"]], None, ids, 1) is None
