"""Which columns of a sparse model a change of the Gram may affect, and on which supports they are solved again."""

import numpy as np
import pytest

from offdiag.gramian.sparse import sparse_gram
from offdiag.solvers import changed_columns, gram_rows, gram_supports, support
from offdiag.solvers.changed_columns import NEW, SAME, SUPPORTED
from tests.fixtures.sparse_catalogue import neighbours_by_hand


def fitted(X, k):
    """The Gram by popularity, diag(H) in the order of the catalogue, and the weights by row."""
    data = gram_supports.RankedGram.of(sparse_gram(X))
    H = 2 * data.G.own_diagonal() + 2.0
    supports = gram_supports.choose(data, H[data.order], k, np.float64)
    support.solve(data, H[data.order], supports, gram_rows.plan(supports, 8, 1 << 20))
    return data, H, support.to_rows(supports, data.rank, np.ones(X.shape[1]))


def examples():
    rng = np.random.default_rng(5)
    for _ in range(60):
        X = (rng.random((40, 30)) < 0.12).astype(np.float32)
        X[:, 7] = X[:, 8]
        few = rng.choice(40, size=rng.integers(1, 3), replace=False)
        yield X, np.delete(X, few, axis=0), np.flatnonzero(X[few].any(axis=0)), int(rng.integers(1, 6))


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_column_keeps_what_a_new_fit_would_choose_and_solve(sign):
    seen = np.zeros(3, dtype=int)
    for X, left, changed, k in examples():
        one, other = (X, left) if sign < 0 else (left, X)
        (_, before, (indptr, indices, values)), (data, after, _) = fitted(one, k), fitted(other, k)
        places = np.arange(30)
        old = changed_columns.OldWeights(indptr, indices, values, places, 1.0, np.ones(30))
        found = changed_columns.compare(data, old, changed, before, after, k, np.float64)
        (chosen, _), (wanted, _) = neighbours_by_hand(one, k), neighbours_by_hand(other, k)
        H = after[data.order]
        again = found.to_solve(data, H, k, np.float64, None)
        for c, i in enumerate(data.order):
            state = found.state[c]
            rows = again.rows[again.ptr[c] : again.ptr[c + 1]]
            support_of_i = set(data.order[rows].tolist())
            if state == SAME:
                assert chosen[i] == wanted[i]
                assert not wanted[i] & set(changed)
                assert not len(rows)
            else:
                assert support_of_i == wanted[i], (state, i)
                assert (np.diff(rows) < 0).all()
                assert np.array_equal(again.values[again.ptr[c] : again.ptr[c + 1]], data.G.row(i)[data.order[rows]])
            seen[state] += 1
    assert (seen > 100).all(), seen


def test_what_the_kept_columns_explain_is_known_without_solving_them():
    X, left, changed, k = next(examples())
    (_, before, (indptr, indices, values)), (data, after, fresh) = fitted(X, k), fitted(left, k)
    scale = np.linspace(0.5, 2, 30)
    rows = np.sign(values) * np.abs(values) ** 1.5 * scale[indices]
    old = changed_columns.OldWeights(indptr, indices, rows, np.arange(30), 1.5, scale)
    found = changed_columns.compare(data, old, changed, before, after, k, np.float64)
    B = np.zeros((30, 30))
    for j in range(30):
        B[j, fresh[1][fresh[0][j] : fresh[0][j + 1]]] = fresh[2][fresh[0][j] : fresh[0][j + 1]]
    same = found.state == SAME
    expected = np.einsum("ji,ji->i", data.G.toarray(), B)[data.order]
    np.testing.assert_allclose(found.explained[same], expected[same], rtol=1e-9)
    assert same.sum() > 3


def test_a_support_with_a_weight_of_zero_is_chosen_again():
    """Weights of exactly 0 are not stored, so the support cannot be read from them."""
    X, left, changed, k = next(examples())
    (_, before, (indptr, indices, values)), (data, after, _) = fitted(X, k), fitted(left, k)
    args = (np.arange(30), 1.0, np.ones(30))
    found = changed_columns.compare(
        data, changed_columns.OldWeights(indptr, indices, values, *args), changed, before, after, k, np.float64
    )
    row = int(np.flatnonzero(np.diff(indptr))[0])
    lost = indices[indptr[row]]
    at = np.delete(np.arange(len(indices)), indptr[row])
    shorter = np.where(np.arange(31) > row, indptr - 1, indptr)
    again = changed_columns.compare(
        data, changed_columns.OldWeights(shorter, indices[at], values[at], *args), changed, before, after, k, np.float64
    )
    c = data.rank[lost]
    assert again.state[c] == NEW
    others = np.arange(30) != c
    assert np.array_equal(again.state[others], found.state[others])
    assert SUPPORTED in found.state
