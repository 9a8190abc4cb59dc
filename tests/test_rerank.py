"""Reranking: quotas are kept, lists stay full where they can be, similarities are symmetric and from 0 to 1."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag import rerank


def order_of_columns(X, k, blocked):
    """A ranking in which column 0 is best for everybody."""
    n, m = X.shape
    k = min(k, m)
    return np.tile(np.arange(k), (n, 1)), np.tile(-np.arange(k, dtype=float), (n, 1))


def test_a_quota_looks_further_down_until_the_list_is_full():
    m = 1_000
    category = np.zeros(m, dtype=np.int64)
    category[[400, 900]] = 1  # far outside the first candidates
    how = rerank.Rerank(category=category, at_most=1)
    items, scores = how.choose(order_of_columns, sparse.csr_array((3, m)), None, 2, np.dtype(np.float64))
    assert items.tolist() == [[0, 400]] * 3
    assert scores.tolist() == [[0.0, -400.0]] * 3
    items, scores = how.choose(order_of_columns, sparse.csr_array((1, m)), None, 3, np.dtype(np.float64))
    assert items.tolist() == [[0, 400, -1]], "two categories hold no third item"
    assert np.isneginf(scores[0, 2])


def test_relevance_goes_from_0_to_1_in_each_row():
    columns = np.array([[3, 1, 2], [0, 5, -1], [4, -1, -1], [-1, -1, -1]])
    scores = np.array([[3.0, 2.0, 1.0], [5.0, 4.0, -np.inf], [7.0, -np.inf, -np.inf], [-np.inf] * 3])
    assert rerank.relevance(columns, scores).tolist() == [[1, 0.5, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_similarities_of_neighbours_are_relative_to_the_strongest():
    columns = np.array([[1, 2], [0, 2], [0, -1]])
    scores = np.array([[4.0, 1.0], [3.0, -2.0], [5.0, -np.inf]])
    S = rerank.from_neighbours(columns, scores).toarray()
    assert S.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert rerank.from_neighbours(columns[:, 1:], scores[:, 1:] / 2).toarray()[0].tolist() == [0, 0, 1]


def test_items_of_one_category_are_similar_and_others_are_not():
    S = rerank.from_categories(np.array([0, -1, 0, 1, -1])).toarray()
    expected = np.zeros((5, 5))
    expected[0, 2] = expected[2, 0] = 1
    assert np.array_equal(S, expected)


def test_categories_are_found_by_id_or_by_its_text():
    codes = rerank.category_codes({"10": "film", 20: "book", 30: None}, np.array([10, 20, 30, 40]))
    assert codes.tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("categories", "message"), [({"x": "film"}, "such as 10, received none"), (["film"], "dict of item id")]
)
def test_categories_of_other_items_are_an_error(categories, message):
    with pytest.raises(od.OffdiagError, match=message):
        rerank.category_codes(categories, np.array([10, 20]))
