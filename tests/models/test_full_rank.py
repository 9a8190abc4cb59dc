"""Variants of the linear family from the same inverse: a bounded diagonal, normalised items, inverse propensities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

import offdiag as od
from tests.laws import oracles
from tests.laws.examples import close, example
from tests.laws.strategies import dtypes, interactions


def bounded_column(G, i, lam, bound):
    """Column i of argmin ‖X − XB‖² + ‖Λ^½B‖² under −ξ ≤ B_ii ≤ ξ, by a general optimiser with bounds."""
    m = len(G)
    H = G + np.diag(lam)
    unit = 1 / np.sqrt(np.diag(H))  # in a scale that makes the problem well-conditioned
    A, r = H * np.outer(unit, unit), G[:, i] * unit
    limits = [(None, None)] * m
    limits[i] = (-bound / unit[i], bound / unit[i])
    found = minimize(
        lambda v: v @ A @ v - 2 * r @ v, np.zeros(m), jac=lambda v: 2 * (A @ v - r), bounds=limits, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-11, "maxiter": 5000},
    )  # fmt: skip
    return found.x * unit


@pytest.mark.parametrize("bound", [0.0, 0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("dropout", [0.0, 0.35])
def test_a_bounded_diagonal_is_the_optimum_under_its_constraint(bound, dropout):
    X = example()
    model = od.RDLAE(dropout=dropout, l2=2.0, max_diagonal=bound, user_power=0.0, dtype="float64").fit(X)
    B = model.weights_.toarray()
    G = oracles.gram(X.toarray())
    lam = oracles.penalty(G, dropout, 2.0)
    expected = np.stack([bounded_column(G, i, lam, bound) for i in range(len(G))], axis=1)
    np.testing.assert_allclose(B, expected, atol=2e-6)
    assert np.abs(np.diag(B)).max() <= bound + 1e-12
    J = np.trace(G) - 2 * np.trace(G @ B) + np.trace(B.T @ (G + np.diag(lam)) @ B)
    assert np.isclose(model.objective_, J, rtol=1e-9)


@given(interactions(min_items=2, values="counts"), st.floats(0, 1), dtypes)
def test_the_bounded_diagonal_lies_between_edlae_and_dlae(X, bound, dtype):
    given = {"dropout": 0.4, "l2": 5.0, "user_power": 0.0, "dtype": dtype}
    found = od.RDLAE(max_diagonal=bound, **given).fit(X)
    B = found.weights_.toarray()
    slack = oracles.TOLERANCE[dtype]
    assert np.abs(np.diag(B)).max() <= bound + slack
    assert np.diag(B).min() >= -slack
    free, none = od.DLAE(**given).fit(X), od.EDLAE(**given).fit(X)
    assert free.objective_ <= found.objective_ * (1 + slack) + slack
    assert found.objective_ <= none.objective_ * (1 + slack) + slack
    corner = od.RDLAE(max_diagonal=0.0, **given).fit(X).weights_.toarray()
    np.testing.assert_allclose(corner, none.weights_.toarray(), atol=20 * slack)
    corner = od.RDLAE(max_diagonal=1.0, **given).fit(X).weights_.toarray()
    np.testing.assert_allclose(corner, free.weights_.toarray(), atol=20 * slack)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [-0.5, 0.5, 1.0])
def test_item_power_is_normalising_the_columns_before_and_undoing_it_after(power, dtype):
    """B = R B̃ R⁻¹ with B̃ fitted to X R, R = diag(g^(−power/2)) in a unit that keeps the sum of squares."""
    X = example().toarray().astype(np.float64)
    g = (X**2).sum(axis=0)
    live = g > 0
    r = np.where(live, np.where(live, g, 1.0) ** (-power / 2), 1.0)
    r[live] *= np.sqrt(g.sum() / (g * r**2)[live].sum())
    normalised = od.EASE(l2=3.0, user_power=0.0, dtype="float64").fit(X * r)
    expected = r[:, None] * normalised.weights_.toarray() / r
    model = od.EASE(l2=3.0, user_power=0.0, item_power=power, dtype=dtype).fit(X)
    close(model.weights_.toarray(), expected, dtype)
    assert not np.allclose(expected, od.EASE(l2=3.0, user_power=0.0).fit(X).weights_.toarray(), atol=1e-3)


def test_item_power_one_is_dropout_by_another_name():
    """l2·g_j/ḡ is what dropout adds: Λ = p/(1−p)·g."""
    X = example()
    g = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    mean = g.sum() / np.count_nonzero(g)
    as_l2 = od.EASE(l2=0.5 * mean, item_power=1.0, user_power=0.0, dtype="float64").fit(X)
    as_dropout = od.EDLAE(dropout=1 / 3, l2=0.0, user_power=0.0, dtype="float64").fit(X)
    close(as_l2.weights_.toarray(), as_dropout.weights_.toarray(), "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [od.EASE, od.DLAE, od.EDLAE])
def test_propensities_are_those_of_a_regression_on_targets_divided_by_them(make, dtype):
    """min ‖XΠ⁻¹ − XB‖² + the same penalty, π_i = (n_i/max n)^power: every column from its own normal equations."""
    X = example().toarray().astype(np.float64)
    model = make(l2=2.0, user_power=0.0, propensity_power=0.4, dtype=dtype).fit(X)
    B = model.weights_.toarray()
    G = X.T @ X
    lam = oracles.penalty(G, model.settings_.get("dropout", 0.0), 2.0)
    counts = (X > 0).sum(axis=0)
    for i in np.flatnonzero(counts):
        target = X[:, i] / (counts[i] / counts.max()) ** 0.4
        others = np.array([j for j in range(X.shape[1]) if j != i or make is od.DLAE])
        column = np.linalg.solve((G + np.diag(lam))[np.ix_(others, others)], X[:, others].T @ target)
        close(B[others, i], column, dtype)


@pytest.mark.parametrize(
    ("make", "rtol"),
    [
        (lambda **power: od.EDLAE(l2=2.0, **power), 2e-6),
        (lambda **power: od.EDLAE(l2=2.0, storage="dense", **power), 2e-6),
        (lambda **power: od.SparseEDLAE(neighbours=5, l2=2.0, **power), 2e-6),
        (lambda **power: od.SparseEDLAE(neighbours=5, l2=2.0, rank=3, smooth=0.5, **power), 1e-4),
    ],
    ids=["packed", "dense", "sparse", "smoothed"],
)
def test_propensities_can_be_changed_after_the_fit(make, rtol):
    X = example()
    one, other = (make(propensity_power=power).fit(X) for power in (0.2, -0.3))
    before = one.predict(X)
    changed = one.with_propensity(-0.3)
    np.testing.assert_allclose(changed.weights_.toarray(), other.weights_.toarray(), rtol=rtol, atol=1e-7)
    assert np.abs(changed.weights_.toarray() - one.weights_.toarray()).max() > 0.01
    assert changed.settings_ == other.settings_
    assert changed.get_params() == other.get_params()
    assert one.settings_["propensity_power"] == 0.2
    assert np.array_equal(one.predict(X), before)


def test_propensities_move_rare_items_up():
    inter = od.synthetic.interactions(800, 100, 12_000, seed=3)
    split = od.split.strong(inter, held_out=0.2, seed=0)
    novelty = [
        od.evaluate(od.EDLAE(propensity_power=power).fit(split.train), split.test, ["novelty@10"]).mean["novelty@10"]
        for power in (-0.5, 0.0, 0.5)
    ]
    assert novelty[0] < novelty[1] < novelty[2]


def test_an_item_without_users_has_no_weights_in_any_variant():
    X = example()
    X = sparse.hstack([X, sparse.csr_array((X.shape[0], 1), dtype=np.float32)]).tocsr()
    for model in (
        od.RDLAE(l2=2.0, max_diagonal=0.3),
        od.EDLAE(l2=2.0, item_power=0.7),
        od.EDLAE(dropout=0.4, l2=0.0, item_power=-0.7),
        od.EASE(l2=2.0, propensity_power=1.0),
    ):
        B = model.fit(X).weights_.toarray()
        assert np.isfinite(B).all()
        assert not B[-1].any()
        assert not B[:, -1].any()
