"""SparseEDLAE against dense NumPy: neighbours, columns, blocks, restarts, size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag import memory
from offdiag._kernels import parallel
from offdiag.solvers import support
from tests.fixtures.sparse_catalogue import example, same_bytes, solve_densely
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, interactions, powers


def fit(X, **words):
    return od.SparseEDLAE(**{"neighbours": 10, "dropout": 0.4, "l2": 3.0} | words).fit(X)


l2s = st.sampled_from([0.5, 3.0, 40.0])
neighbour_counts = st.sampled_from([1, 2, 4, 7])


@given(interactions(values="ratings"), neighbour_counts, dropouts, l2s, powers, dtypes)
def test_every_column_is_the_exact_solution_on_its_support(X, k, dropout, l2, power, dtype):
    model = od.SparseEDLAE(neighbours=k, dropout=dropout, l2=l2, user_power=power, dtype=dtype).fit(X)
    expected, supports, G, _ = solve_densely(X, k, dropout, l2, power)
    B = model.weights_.toarray()
    if not has_close_calls(X, G, k, dropout, l2):
        np.testing.assert_allclose(B, expected, rtol=0, atol=oracles.TOLERANCE[dtype] * max(1, np.abs(expected).max()))
        left = sum(G[i, i] - G[S, i] @ expected[S, i] for i, S in enumerate(supports))
        assert model.objective_ == pytest.approx(left, rel=10 * oracles.TOLERANCE[dtype], abs=1e-3)


def has_close_calls(X, G, k, dropout, l2):
    """Rounding may decide between neighbours of equal merit; then any choice is right."""
    H = np.diag(G) + oracles.penalty(G, dropout, l2)
    scores = G**2 / np.maximum(H, 1e-300)[:, None]
    np.fill_diagonal(scores, -1)
    ordered = -np.sort(-scores, axis=0)
    if k >= len(G):
        return False
    edge, beyond = ordered[k - 1], ordered[k]
    return bool(((edge > 0) & (np.abs(edge - beyond) <= 1e-9 * edge)).any())


@given(interactions(values="counts", min_items=2), dropouts, l2s, powers, dtypes)
def test_with_all_other_items_as_neighbours_it_is_edlae(X, dropout, l2, power, dtype):
    words = {"dropout": dropout, "l2": 100 * l2 if dropout == 0 else l2, "user_power": power, "dtype": dtype}
    dense = od.EDLAE(**words).fit(X)
    full = od.SparseEDLAE(neighbours=X.shape[1] - 1, **words).fit(X)
    G = oracles.gram(X.toarray(), power)
    H = G + np.diag(oracles.penalty(G, dropout, words["l2"]))
    live = np.diag(G) > 0
    condition = np.linalg.cond(H[np.ix_(live, live)])
    allowed = 8 * np.finfo(dtype).eps * max(condition, 10) * max(1, np.abs(dense.weights_.toarray()).max())
    np.testing.assert_allclose(full.weights_.toarray(), dense.weights_.toarray(), rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_the_gradient_is_zero_on_every_support(dtype, user_power):
    X = example()
    model = fit(X, neighbours=12, user_power=user_power, dtype=dtype)
    _, supports, G, H = solve_densely(X, 12, 0.4, 3.0, user_power)
    B = model.weights_.toarray().astype(np.float64)
    assert model.weights_.nnz > 500
    for i, S in enumerate(supports):
        assert set(np.flatnonzero(B[:, i])) <= set(S)
        gradient = (G - np.diag(np.diag(G)) + np.diag(H))[S] @ B[:, i] - G[S, i]
        grid = 2.0**-52 * X.shape[0]  # of the users' weights
        assert np.abs(gradient).max(initial=0) <= 20 * np.finfo(dtype).eps * max(G[i, i], 1) + 10 * grid


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_threads_and_the_order_of_users_change_no_byte(dtype, monkeypatch):
    X = example()
    words = {"user_power": 0.5, "dtype": dtype}
    model = fit(X, **words)
    for block_bytes in (1, 3_000, 20_000):
        assert same_bytes(model, fit(X, **words, block_bytes=block_bytes))
    shuffled = X[np.random.default_rng(1).permutation(X.shape[0])]
    assert same_bytes(model, fit(shuffled, **words, block_bytes=5_000))
    monkeypatch.setattr(support, "ITEMS_AT_ONCE", 3)
    assert same_bytes(model, fit(X, **words))
    monkeypatch.setattr(parallel, "n_threads", lambda: 1)
    assert same_bytes(model, fit(X, **words))


@given(interactions(values="counts"), neighbour_counts, powers, dtypes)
def test_the_gram_alone_gives_the_same_model(X, k, power, dtype):
    words = {"neighbours": k, "dropout": 0.3, "l2": 20.0, "dtype": dtype}
    one = od.SparseEDLAE(**words, user_power=power).fit(X)
    if has_close_calls(X, oracles.gram(X.toarray(), power), k, 0.3, 20.0):
        return
    other = od.SparseEDLAE(**words).fit_gram(od.gram(X, power, dtype=dtype))
    np.testing.assert_allclose(other.weights_.toarray(), one.weights_.toarray(), rtol=0, atol=oracles.TOLERANCE[dtype])
    assert np.array_equal(one.popularity_, other.popularity_)


def test_duplicate_items_without_any_penalty_are_refused():
    X = example()
    model = od.SparseEDLAE(neighbours=20, l2=3.0, dropout=0.2).fit(X)
    before = model.weights_
    model.set_params(l2=0.0, dropout=0.0)
    with pytest.raises(od.OffdiagError, match="singular at this precision"):
        model.fit(X)
    assert model.weights_ is before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_memory_budget_drops_the_weakest_weights_and_solves_again(dtype):
    X = example()
    words = {"neighbours": 30, "user_power": 0.0, "dtype": dtype}
    free = fit(X, **words)
    budget = free.weights_.nbytes // 3
    small = fit(X, **words, max_bytes=budget)
    assert budget * 0.98 < small.weights_.nbytes <= budget
    assert free.objective_ < small.objective_
    _, _, G, H = solve_densely(X, 30, 0.4, 3.0)
    B, before = small.weights_.toarray().astype(np.float64), free.weights_.toarray().astype(np.float64)
    cost = before**2 * H[:, None]
    assert cost[B != 0].min() >= cost[(B == 0) & (before != 0)].max() * (1 - 1e-5)
    for i in range(len(G)):
        S = np.flatnonzero(B[:, i])
        gradient = (G + np.diag(H - np.diag(G)))[S] @ B[:, i] - G[S, i]
        assert np.abs(gradient).max(initial=0) <= 20 * np.finfo(dtype).eps * max(G[i, i], 1)
    assert np.abs(B - np.where(B != 0, before, 0)).max() > 1e-3, "it must be solved again, not only cut"
    assert same_bytes(fit(X, **words, max_bytes=10 * free.weights_.nbytes), free)
    with pytest.raises(od.OffdiagError, match="max_bytes must be at least 7"):
        fit(X, **words, max_bytes=100)


def test_items_without_neighbours_have_no_weights():
    X = np.zeros((6, 5), dtype=np.float32)
    X[:3, :2] = 1
    X[3, 2] = 1  # the only item in its only history
    X[4, 3] = X[5, 3] = X[5, 1] = 1
    model = fit(X, neighbours=2, dropout=0.2, l2=1.0)
    B = model.weights_.toarray()
    assert not B[2].any()
    assert not B[:, [2, 4]].any()
    assert np.isfinite(model.predict(X)).all()


def test_more_neighbours_than_items_are_all_the_others():
    assert same_bytes(*(fit(example(), neighbours=k) for k in (89, 10**9)))


def test_values_too_large_to_square_are_refused():
    X = example().astype(np.float64) * 1e25
    with pytest.raises(od.OffdiagError, match="overflow"):
        od.SparseEDLAE(l2=1.0).fit(X)
    assert np.isfinite(od.SparseEDLAE(l2=1.0, dtype="float64").fit(X).weights_.data).all()


def test_too_little_memory_is_refused_before_anything_is_counted(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(od.NotEnoughMemory, match="90 items with 89 neighbours each needs .* ask for fewer neighbours"):
        od.SparseEDLAE().fit(example())


def test_a_weight_power_bends_the_weights_and_keeps_their_signs():
    X = example()
    plain, bent = (fit(X, weight_power=power).weights_.toarray() for power in (1.0, 1.3))
    assert (plain < 0).any()
    np.testing.assert_allclose(bent, np.sign(plain) * np.abs(plain) ** 1.3, rtol=1e-5)


def test_normalised_items_get_a_penalty_of_their_own():
    X = example()
    words = {"dropout": 0.4, "l2": 3.0, "item_power": 0.6, "dtype": "float64"}
    dense, full = od.EDLAE(**words).fit(X), od.SparseEDLAE(neighbours=89, **words).fit(X)
    np.testing.assert_allclose(full.weights_.toarray(), dense.weights_.toarray(), atol=1e-10)


@settings(max_examples=20)
@given(interactions(values="counts"))
def test_defaults_work_on_any_data(X):
    model = od.SparseEDLAE().fit(X)
    assert np.isfinite(model.predict(X)).all()
    assert model.recommend(X, k=3).indices.shape[0] == X.shape[0]


@pytest.mark.parametrize("power", [5.0, -5.0, 3.0])
def test_users_whose_weight_vanishes_have_no_influence(power):
    """Users with 1,900 items next to one with a single item: the ratio of their weights is 10^±16."""
    rng = np.random.default_rng(0)
    X = np.zeros((60, 2_000), dtype=np.float32)
    for u in range(40):
        X[u, rng.permutation(2_000)[:1_900]] = 1
    X[40:59, :3] = rng.random((19, 3)) < 0.7
    X[59, 0] = 1
    model = fit(X, neighbours=5, user_power=power, dtype="float64")
    G = oracles.gram(X, power)
    H = np.diag(G) + oracles.penalty(G, 0.4, 3.0)
    B = model.weights_.toarray()
    for i in range(0, 2_000, 97):
        S = np.flatnonzero(B[:, i])
        A = G[np.ix_(S, S)].copy()
        np.fill_diagonal(A, H[S])
        np.testing.assert_allclose(A @ B[S, i], G[S, i], atol=1e-9 * H.max())


def test_values_whose_products_underflow_are_accepted():
    X = example().astype(np.float64)
    X.data = np.where(np.arange(len(X.data)) % 3 == 0, 1e-200, 1.0)
    model = fit(X, neighbours=8, dtype="float64")
    assert np.isfinite(model.weights_.data).all()
    assert same_bytes(model, fit(X, neighbours=8, dtype="float64", block_bytes=2_000))


@pytest.mark.slow
def test_pivots_at_the_level_of_rounding_are_refused():
    """Two items that differ in one user of a million: too little separates them in float32, enough in float64."""
    X = np.zeros((1_600_000, 3), dtype=np.float32)
    X[:, 0] = X[:, 1] = 1
    X[0, 1] = 0
    X[::2, 2] = 1
    words = {"neighbours": 2, "dropout": 0.0, "l2": 1e-3, "user_power": 0.0}
    with pytest.raises(od.OffdiagError, match="singular at this precision.*float64"):
        od.SparseEDLAE(**words).fit(X)
    assert np.isfinite(od.SparseEDLAE(**words, dtype="float64").fit(X).weights_.data).all()


def test_progress_reports_the_items_per_second():
    heard = []
    od.SparseEDLAE(neighbours=10, l2=3.0).fit(example(), progress=lambda stage, part: heard.append((stage, part)))
    solving = [(stage, part) for stage, part in heard if stage.startswith(support.SOLVING)]
    assert solving[-1][1] == 1.0
    rate = float(solving[-1][0].partition(" · ")[2].removesuffix(" items/s").replace(",", ""))
    assert 1 < rate < 1e8
    assert [part for _, part in solving] == sorted(part for _, part in solving)
