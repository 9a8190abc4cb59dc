"""Weighted factorisation: its optimum, the vector of an unseen user, and that it behaves like every model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.solvers import als
from offdiag.weights import ImplicitFactors
from tests.fixtures.mistakes import rejects
from tests.laws.strategies import interactions

PRECISIONS = {"float32": 2e-3, "float64": 1e-8}


def penalties(X, alpha, l2, power):
    """λ of the users and μ of the items; empty users and cold items are not counted."""
    users, items = (X.sum(1) > 0).sum(), (X.sum(0) > 0).sum()
    return l2 * (alpha * X.sum(1) + items) ** power, l2 * (alpha * X.sum(0) + users) ** power


def loss(X, Z, V, alpha, l2, power):
    """The objective of docs/baselines.md, entry by entry."""
    lam, mu = penalties(X, alpha, l2, power)
    total = 0.0
    for u in range(X.shape[0]):
        for i in range(X.shape[1]):
            score = Z[u] @ V[i]
            total += alpha * X[u, i] * (score - 1) ** 2 * (X[u, i] > 0) + score**2
    return total + lam @ (Z**2).sum(1) + mu @ (V**2).sum(1)


def best_vectors(X, V, lam, alpha):
    """The optimum of each row, by the normal equations."""
    return np.array(
        [
            np.linalg.solve(V.T @ V + (V.T * (alpha * x)) @ V + lam_u * np.eye(V.shape[1]), V.T @ (alpha * x))
            for x, lam_u in zip(X, lam, strict=True)
        ]
    )


def example(seed=0, n=50, m=20, counts=False):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < 0.8 * rng.random((n, 2)) @ rng.random((2, m))).astype(np.float64)
    X *= rng.integers(1, 6, X.shape) if counts else 1
    X[3], X[:, 5] = 0, 0
    return X


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(("l2", "power", "counts"), [(0.05, 1.0, False), (3.0, 0.0, True), (0.5, 0.5, True)])
def test_at_the_end_no_vector_of_a_user_or_an_item_can_be_improved(dtype, l2, power, counts):
    X = example(counts=counts)
    given = {"alpha": 4.0, "l2": l2, "power": power}
    found = als.factorise(sparse.csr_array(X), rank=5, iterations=400, seed=1, dtype=dtype, **given)
    Z, V = found.Z.astype(np.float64), found.V.astype(np.float64)
    lam, mu = penalties(X, 4.0, l2, power)
    np.testing.assert_allclose(Z, best_vectors(X, V, lam, 4.0), atol=PRECISIONS[dtype])
    np.testing.assert_allclose(V, best_vectors(X.T, Z, mu, 4.0), atol=PRECISIONS[dtype])
    assert np.abs(V).max() > 0.1
    assert found.objectives[-1] == pytest.approx(loss(X, Z, V, **given), rel=1e-5)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_every_iteration_lowers_the_loss(dtype):
    given = {"rank": 4, "alpha": 2.0, "l2": 0.01, "power": 1.0, "iterations": 30, "seed": 0}
    found = als.factorise(sparse.csr_array(example(counts=True)), **given, dtype=dtype)
    steps = np.diff(found.objectives)
    assert (steps <= 1e-5 * found.objectives[0]).all()
    assert found.objectives[-1] < 0.9 * found.objectives[0]


def test_as_many_gradient_steps_as_dimensions_solve_each_row_exactly():
    X = example()
    given = {"rank": 4, "alpha": 3.0, "l2": 0.1, "power": 1.0, "iterations": 1, "seed": 2, "dtype": "float64"}
    found = als.factorise(sparse.csr_array(X), steps=4, **given)
    start = np.random.default_rng(2).standard_normal((20, 4)) * (als.START / 2)
    start[5] = 0
    lam, mu = penalties(X, 3.0, 0.1, 1.0)
    Z = best_vectors(X, start, lam, 3.0)
    np.testing.assert_allclose(found.Z, Z, atol=1e-9)
    np.testing.assert_allclose(found.V, best_vectors(X.T, Z, mu, 3.0), atol=1e-9)


@pytest.mark.parametrize("dtype", PRECISIONS)
@given(X=interactions(values="counts"), rank=st.integers(1, 7), power=st.sampled_from([0.0, 0.5, 1.0]))
def test_a_history_gets_the_vector_of_the_closed_form(dtype, X, rank, power):
    V = np.random.default_rng(rank).standard_normal((X.shape[1], rank)).astype(dtype)
    weights = ImplicitFactors(V, 2.0, 0.5, power, 7.0)
    rows = X.toarray().astype(np.float64)
    lam = 0.5 * (2.0 * rows.sum(1) + 7.0) ** power
    exact = best_vectors(rows, V.astype(np.float64), lam, 2.0)
    close = {"float32": 2e-3, "float64": 1e-7}[dtype] * max(1.0, np.abs(exact).max())  # up to 1e4 counts in float32
    np.testing.assert_allclose(weights.encode(X), exact, atol=close)
    np.testing.assert_allclose(X @ weights, exact @ V.T.astype(np.float64), atol=close * rank * np.abs(V).max())


def test_a_user_of_the_training_data_gets_the_scores_of_the_factorisation():
    X = sparse.csr_array(example())
    model = od.WMF(rank=6, iterations=300, dtype="float64").fit(X)
    found = als.factorise(
        X, rank=6, alpha=model.settings_["alpha"], l2=model.l2, power=1.0, iterations=300, seed=0, dtype="float64"
    )
    np.testing.assert_allclose(model.predict(X), found.Z @ found.V.T, atol=1e-6)


def test_auto_makes_the_observed_pairs_weigh_a_tenth_of_all():
    X = example(counts=True)
    alpha = od.WMF(rank=2).fit(X).settings_["alpha"]
    assert alpha * X.sum() == pytest.approx(0.1 * (X.sum(1) > 0).sum() * 19)


def test_the_seed_decides_everything():
    X = sparse.csr_array(example())
    one, other = (od.WMF(rank=3, seed=4).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.item_factors_, other.item_factors_)
    assert one.objectives_ == other.objectives_
    assert not np.array_equal(one.item_factors_, od.WMF(rank=3, seed=5).fit(X).item_factors_)


def test_empty_users_and_items_without_users_change_nothing():
    X = example()
    more = np.zeros((60, 23))
    more[:50, :20] = X
    one, other = (od.WMF(rank=3, iterations=60, dtype="float64").fit(x) for x in (X, more))
    V = other.item_factors_
    assert not V[20:].any()
    assert not V[5].any()
    # The draws differ with the shape, the optimum does not: compare what does not depend on a rotation.
    assert other.objectives_[-1] == pytest.approx(one.objectives_[-1], rel=1e-2)
    assert other.weights_.items == one.weights_.items == 19


def test_it_recovers_factors_that_are_there():
    """Two groups of users with disjoint tastes: all items of a user's own group rank before any of the other."""
    rng = np.random.default_rng(0)
    X = np.zeros((200, 40), dtype=np.float32)
    X[:100, :20] = rng.random((100, 20)) < 0.5
    X[100:, 20:] = rng.random((100, 20)) < 0.5
    found = od.WMF(rank=2, l2=1e-3).fit(X).recommend([[0, 1, 2], [20, 21, 22]], k=10)
    assert (found.indices[0] < 20).all()
    assert (found.indices[1] >= 20).all()


def test_it_is_saved_without_users_and_loaded_bit_for_bit(tmp_path):
    X = sparse.csr_array(example())
    model = od.WMF(rank=3).fit(X)
    model.save(tmp_path / "m.od")
    again = od.load(tmp_path / "m.od")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert again.objectives_ == model.objectives_
    assert set(model.weights_.arrays()) == {"V", "confidence"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"V": np.ones((3, 2), np.float32)},
        {"V": np.ones((4, 0), np.float32)},
        {"V": np.ones((4, 2), np.int64)},
        {"confidence": np.ones(3)},
        {"confidence": np.array([1.0, 0.0, 1.0, 4.0])},
        {"confidence": np.array([np.nan, 1.0, 1.0, 4.0])},
        {"more": np.ones(1)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(wrong):
    sound = {"V": np.ones((4, 2), np.float32), "confidence": np.array([1.0, 1.0, 1.0, 4.0])}
    assert ImplicitFactors.from_arrays(sound, 4).shape == (4, 4)
    with pytest.raises((ValueError, TypeError)):
        ImplicitFactors.from_arrays(sound | wrong, 4)


test_mistakes_are_errors = rejects(
    (lambda: od.WMF(alpha=0.0).fit(example()), "alpha of WMF must be a number above 0 or 'auto'"),
    (lambda: od.WMF(l2=0.0).fit(example()), "l2 of WMF must be a number above 0"),
    (lambda: od.WMF(l2="auto").fit(example()), "l2 of WMF"),
    (lambda: od.WMF(rank=0).fit(example()), "rank must be a whole number"),
    (lambda: od.WMF(iterations=0).fit(example()), "iterations of WMF"),
    (lambda: od.WMF(l2_power=2.0).fit(example()), "l2_power must be a number"),
    (lambda: od.WMF(dtype="float16").fit(example()), "dtype must be"),
    (lambda: od.WMF(rank=3, alpha=2.0).fit(example() * 1e38), "left the range of float32"),
    (lambda: od.WMF(rank=3).fit(example()).explain([0], 1), "explain with EDLAE"),
    (lambda: od.WMF(rank=3).fit(example()).weights_.toarray(), "no matrix"),
    (lambda: od.WMF(rank=3).fit(example()).weights_.column(np.array([0]), 1), "no matrix"),
)


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=60), st.integers(1, 64), st.integers(1, 16))
def test_the_shares_of_the_threads_cover_every_row_once(lengths, rank, parts):
    from offdiag._kernels import als as kernels_als

    shares = kernels_als.shares(np.concatenate(([0], np.cumsum(lengths))), rank, parts)
    assert [row for first, last in shares for row in range(first, last)] == list(range(len(lengths)))
    assert len(shares) <= parts
