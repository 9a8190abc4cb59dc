"""Columns of models of order on their supports, against dense solves on the same supports."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag.gramian.order import Ageing
from offdiag.solvers import order_supports, popularity_order, support
from tests.fixtures.ordered_histories import as_sequences, tolerance
from tests.laws import oracles
from tests.laws.strategies import dtypes, ordered


def pairs(plain, m):
    X = np.zeros((len(plain), m), dtype=np.float32)
    for u, user in enumerate(plain):
        X[u, user] = 1
    return sparse.csr_array(X)


def rows_of(events, m, ageing, *, power=0.0, mix=0.0, timed=False, later=False):
    """The OrderRows of these events, and the number of each item in them."""
    X = pairs([[item for item, _ in user] for user in events], m)
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=m))
    kept = events if timed else [[item for item, _ in user] for user in events]
    n_u = np.diff(X.indptr)
    sequences = as_sequences(kept, timed)
    data = order_supports.OrderRows.of(sequences, n_u, rank, ageing, user_power=power, mix=mix, later=later)
    return data, rank


def sums_of(events, m, ageing, *, power=0.0, mix=0.0, later=False):
    """A and K by direct sums, with the Gram mixed in, and the weights in both: each term is rounded."""
    plain = [[item for item, _ in user] for user in events]
    weights = oracles.user_weights(np.array([max(len(user) - 1, 0) for user in plain]), power)
    tau = None if ageing.half_life is None else ageing.half_life / np.log(2)
    A, K = oracles.order_sums(
        plain if tau is None else events, m, weights=weights, decay=ageing.decay, tau=tau, window=ageing.window,
        later=later,
    )  # fmt: skip
    X = pairs(plain, m)
    G = oracles.gram(X.toarray(), power)
    weights = np.concatenate([weights, oracles.user_weights(np.diff(X.indptr), power)])
    return mix * G + (1 - mix) * A, mix * G + (1 - mix) * K, weights


def rows_before_the_diagonal(data):
    """Every row of A by ``count_rows``, in full, and the diagonal."""
    m = data.n_items
    below = data.choose(np.ones(m), 1, "float32", repeats=False).below
    A = np.zeros((m, m))
    for full in (True, False):  # as a whole row, and as a list
        for i in range(m):
            size = i if full else below[i]
            columns, values = np.empty(0 if full else size, dtype=np.uint32), np.empty(size)
            room = (np.array([0, size]), np.array([0, len(columns)]), columns, values)
            data.count_rows(np.array([i], dtype=np.int32), 0, 1, *room)
            row = np.zeros(m)
            row[np.arange(i) if full else columns] = values
            assert full or np.array_equal(row, A[i])
            A[i] = row
    return A + A.T + np.diag(data.diagonal())


ageings = st.one_of(
    st.builds(Ageing, decay=st.sampled_from([1.0, 0.7, 1e-3]), window=st.sampled_from([None, 1, 2, 5])),
    st.builds(Ageing, half_life=st.sampled_from([0.3, 4.0]), window=st.sampled_from([None, 1, 2, 5])),
)


@given(data=ordered(), ageing=ageings, power=st.sampled_from([0.0, 0.5]), mix=st.sampled_from([0.0, 0.4, 1.0]))
def test_rows_of_a_equal_direct_sums(data, ageing, power, mix):
    events, m = data
    rows, rank = rows_of(events, m, ageing, power=power, mix=mix, timed=ageing.half_life is not None)
    A, _, weights = sums_of(events, m, ageing, power=power, mix=mix)
    mine = rows_before_the_diagonal(rows)[np.ix_(rank, rank)]
    np.testing.assert_allclose(mine, A, **tolerance(events, weights, "float64"))


@given(
    data=ordered(), ageing=ageings, power=st.sampled_from([0.0, 0.5]), mix=st.sampled_from([0.0, 0.4]),
    later=st.booleans(), repeats=st.booleans(),
)  # fmt: skip
def test_columns_of_k_equal_direct_sums(data, ageing, power, mix, later, repeats):
    """With every item as neighbour, and nothing solved yet, the supports hold K."""
    events, m = data
    timed = ageing.half_life is not None
    rows, rank = rows_of(events, m, ageing, power=power, mix=mix, timed=timed, later=later)
    _, K, weights = sums_of(events, m, ageing, power=power, mix=mix, later=later)
    found = rows.choose(np.ones(m), m, "float64", repeats=repeats)
    mine = np.zeros((m, m))
    for i in range(m):
        mine[found.rows[found.ptr[i] : found.ptr[i + 1]], i] = found.values[found.ptr[i] : found.ptr[i + 1]]
    if not repeats:
        np.fill_diagonal(K, 0)
    np.testing.assert_allclose(mine[np.ix_(rank, rank)], K, **tolerance(events, weights, "float64"))


def solve_densely(A, K, popularity, k, dropout, l2, repeats):
    """Each column on the k items of largest K_ji²/H_jj, ties to the more popular one, by a general solver."""
    H = A + np.diag(oracles.penalty(A, dropout, l2))
    rank = popularity_order.popularity_rank(popularity)
    B = np.zeros_like(K)
    for i in range(len(A)):
        others = [j for j in range(len(A)) if K[j, i] > 1e-9 and (repeats or j != i)]
        S = sorted(others, key=lambda j: (-(K[j, i] ** 2) / H[j, j], rank[j]))[:k]
        if S:
            B[S, i] = np.linalg.solve(H[np.ix_(S, S)], K[S, i])
    return B


def catalogue(n_users=150, m=40, seed=0):
    rng = np.random.default_rng(seed)
    share = rng.random(m) ** 3
    events = [
        [(int(item), time) for time, item in enumerate(rng.choice(m, int(rng.integers(0, 15)), p=share / share.sum()))]
        for _ in range(n_users)
    ]
    return events, m


@pytest.mark.parametrize("ageing", [Ageing(0.7), Ageing(half_life=1.5), Ageing(0.9, window=3)])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_each_column_is_solved_on_its_support(ageing, repeats, mix):
    events, m = catalogue()
    rows, rank = rows_of(events, m, ageing, power=0.5, mix=mix, timed=ageing.half_life is not None)
    found = order_supports.solve(rows, 7, "float64", dropout=0.3, l2=2.0, repeats=repeats, block_bytes=1 << 30)
    indptr, indices, data = support.to_rows(found, rank, np.ones(m))
    mine = sparse.csr_array((data, indices, indptr), shape=(m, m)).toarray()
    A, K, _ = sums_of(events, m, ageing, power=0.5, mix=mix)
    popularity = np.bincount([item for user in events for item in {i for i, _ in user}], minlength=m)
    np.testing.assert_allclose(mine, solve_densely(A, K, popularity, 7, 0.3, 2.0, repeats), atol=1e-6)
    assert np.diff(found.ptr).max() == 7


@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_blocks_and_the_order_of_users_do_not_change_a_bit(mix):
    events, m = catalogue()
    results = []
    for users, block_bytes in ((events, 1 << 30), (events, 500), (events[::-1], 2_000)):
        rows, _ = rows_of(users, m, Ageing(0.7), power=0.5, mix=mix, later=True)
        found = order_supports.solve(rows, 7, "float32", dropout=0.3, l2=2.0, repeats=False, block_bytes=block_bytes)
        results.append((found.rows.tobytes(), found.values.tobytes()))
    assert len(set(results)) == 1


@given(data=ordered(), dtype=dtypes, repeats=st.booleans())
def test_items_that_no_source_holds_need_no_penalty(data, dtype, repeats):
    """Without l2 and dropout an item that only ends histories has a zero pivot."""
    events, m = [[(0, 0), (1, 1)], [(0, 0), (2, 1)], *data[0]], max(data[1], 3)
    rows, _ = rows_of(events, m, Ageing(0.7))
    found = order_supports.solve(rows, 1, dtype, dropout=0.0, l2=0.0, repeats=repeats, block_bytes=1 << 20)
    assert np.isfinite(found.values).all()
