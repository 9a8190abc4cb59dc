"""Sums that are never rounded, against Python's fractions: a forgotten user leaves nothing behind."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.errors import OffdiagError
from offdiag.gramian import exact
from offdiag.gramian.sparse import sparse_gram
from offdiag.gramian.user_weights import weights_of
from offdiag.living import past, user_rows

NUMBERS = st.one_of(
    st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 2.5, 1e-4, 1e4, 1234.567]),
    st.floats(1e-3, 1e3, allow_nan=False),
    st.integers(1, 5).map(float),
)


@st.composite
def matrices(draw, width=5, most=7):
    row = st.lists(st.one_of(st.just(0.0), NUMBERS), min_size=width, max_size=width)
    return np.array(draw(st.lists(row, min_size=1, max_size=most)))


def truth(X, power):
    """The exact sums of the users' contributions, as fractions; each contribution is rounded once."""
    m = X.shape[1]
    weight = weights_of((X > 0).sum(axis=1), power)
    parts = [exact.on_grid(np.outer(x, x) * w) for x, w in zip(X, weight, strict=True)]
    G = [[sum(Fraction(part[i, j]) for part in parts) for j in range(m)] for i in range(m)]
    return G, [sum(map(Fraction, column)) for column in X.T.tolist()]


def check(G, low, X, power):
    expected, sums = truth(X, power)
    high = G.toarray() / G.scale if G.scale == 1 else G.part(np.arange(G.n_items))
    rest = np.zeros_like(high) if low is None else low.part(np.arange(G.n_items))
    rest_sums = np.zeros(G.n_items) if low is None else low.item_sums
    for i, row in enumerate(expected):
        assert Fraction(float(G.item_sums[i])) + Fraction(float(rest_sums[i])) == sums[i]
        for j, value in enumerate(row):
            assert Fraction(float(high[i, j])) + Fraction(float(rest[i, j])) == value
            assert high[i, j] == float(value)  # the nearest double


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("count", [od.gram, sparse_gram])
@given(X=matrices())
def test_counted_sums_are_the_sums_of_fractions(X, power, count):
    matrix = sparse.csr_array(X)
    if matrix.nnz:
        G, low = exact.count(count(matrix, power), matrix)
        check(G, low, X, power)


@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("name", ["EDLAE", "SparseEDLAE", "Popularity"])
@given(X=matrices(most=8), data=st.data())
def test_the_state_depends_only_on_the_current_users(X, data, name, power):
    """Neither on earlier users nor on the order, to the last bit."""
    X = X[X.any(axis=1)]
    if len(X) < 3 or not X[:2].any():
        return
    some = data.draw(st.lists(st.integers(2, len(X) - 1), unique=True, min_size=1))
    order = data.draw(st.permutations(some))
    settings = {} if name == "Popularity" else {"l2": 3.0, "dropout": 0.3, "user_power": power, "dtype": "float64"}
    model = getattr(od, name)(**settings).fit(X)
    for u in order:
        model.forget(X[[u]])
    left = np.setdiff1d(np.arange(len(X)), some)
    fresh = getattr(od, name)(**settings).fit(X[left])
    past.gram_of(fresh)
    for a, b in ((model._past.gram, fresh._past.gram), (model._past.low, fresh._past.low)):
        one, other = (None if G is None else {k: v.tobytes() for k, v in G.arrays().items()} for G in (a, b))
        assert one == other
    check(model._past.gram, model._past.low, X[left], 0.0 if name == "Popularity" else power)


@given(X=matrices(most=8), power=st.sampled_from([0.0, 0.5]), size=st.integers(1, 4))
def test_many_users_at_once_are_as_exact_as_one_by_one(X, power, size):
    matrix = sparse.csr_array(X)
    if matrix.nnz and X[:1].any():
        first = sparse.csr_array(X[:1])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(user_rows, "BATCH_ITEMS", size)
            sums = user_rows.Sums(*exact.count(od.gram(first, power), first))
            sums = user_rows.exact_sums(sums, sparse.csr_array(X[1:]), 1)
            check(sums.G, sums.low, X, power)
            sums = user_rows.exact_sums(sums, sparse.csr_array(X[1:]), -1)
            check(sums.G, sums.low, X[:1], power)


@pytest.mark.parametrize("values", [[1, 1, 1], [1, 2, 5], [0.5, 4.5, 3.0], [300, 7, 2]])
def test_ordinary_values_need_no_remainders(values):
    X = sparse.csr_array(np.array([values, values[::-1], [0, 1, 0]], dtype=np.float64))
    for power in (0.0, 0.5, 1.0):
        assert exact.count(od.gram(X, power), X)[1] is None


def test_remainders_vanish_with_the_users_who_caused_them():
    X = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=np.float64)
    model = od.EDLAE(l2=1.0, dropout=0.2, user_power=0.0).fit(X)
    model.update(np.array([[0.1, 0.3, 0.7]]))
    model.update(np.array([[0.1, 0.1, 0.0]]))
    assert model._past.low is not None
    model.forget(np.array([[0.1, 0.3, 0.7]]))
    model.forget(np.array([[0.1, 0.1, 0.0]]))
    assert model._past.low is None
    assert np.array_equal(model.gram_.toarray(), X.T @ X)


@pytest.mark.parametrize("values", [[1e-12, 1.0], [1e150, 0.1], [1e9, 1e-7]])
def test_values_that_differ_too_much_are_refused_with_a_way_out(values):
    X = np.array([values, values[::-1], [1.0, 1.0]])
    model = od.EASE(l2=1.0, user_power=0.0, dtype="float64").fit(X)
    with pytest.raises(OffdiagError, match="differ too much in size.*scale them"):
        model.forget(X[:1])
