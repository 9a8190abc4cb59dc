"""Masks of any distribution: the formulas against every mask, and the minima against the normal equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.lab import masks
from offdiag.lab import montecarlo as mc
from tests.fixtures.mistakes import rejects

seeds = st.integers(0, 2**32 - 1)
GROUPS = [[0, 0, 1, 1, 2], [4, 1, 4, 1, 4], [0, 1, 2, 3, 4], [3, 3, 3, 1, 1]]


def rows(seed, n=8, m=5):
    return np.random.default_rng(seed).standard_normal((n, m))


def every_group_mask(groups, drop):
    """All masks that keep or drop whole groups, (2ⁿ, m), with their probabilities."""
    _, place = np.unique(groups, return_inverse=True)
    z, chances = mc.enumerate_masks(place.max() + 1, drop=drop)
    return z[:, place], chances


@given(seeds)
def test_the_loss_is_the_mean_over_every_mask_of_any_distribution(seed):
    """Correlated, signed, with unequal means."""
    rng = np.random.default_rng(seed)
    X, B = rows(seed), rng.standard_normal((5, 5))
    z, chances = rng.standard_normal((7, 5)) + 2, rng.dirichlet(np.ones(7))
    mean, cov = mc.moments(z, chances)
    exact = mc.exact_mean(lambda one: float(np.sum((X - (X * one / mean) @ B) ** 2)), z, chances)
    found = masks.expected_loss(X.T @ X, B, cov, mean, l2=0.7)
    assert found == pytest.approx(exact + 0.7 * np.sum(B**2), rel=1e-9)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_the_optimum_solves_the_least_squares_over_every_mask(groups, l2):
    """All masked copies of X stacked, each with the square root of its probability, regressed on X."""
    X, drop = rows(1), 0.4
    z, chances = every_group_mask(groups, drop)
    stacked = np.vstack([np.sqrt(c) * X * one / (1 - drop) for one, c in zip(z, chances, strict=True)])
    targets = np.vstack([np.sqrt(c) * X for c in chances])
    if l2:
        stacked, targets = np.vstack([stacked, np.sqrt(l2) * np.eye(5)]), np.vstack([targets, np.zeros((5, 5))])
    B = np.linalg.lstsq(stacked, targets)[0]
    found = masks.optimum(X.T @ X, masks.group_covariance(groups, drop), l2=l2)
    assert np.allclose(found.B, B, atol=1e-12)
    assert found.value == pytest.approx(np.sum((targets - stacked @ B) ** 2), rel=1e-12)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_no_item_is_predicted_from_its_own_group_with_emphasis(groups, l2):
    """Each column by itself: only masks that drop its target count, over the items of other groups."""
    X, drop = rows(2), 0.3
    G = X.T @ X
    z, chances = every_group_mask(groups, drop)
    found = masks.group_optimum(G, groups, drop, l2=l2)
    total = 0.0
    for i in range(5):
        out = z[:, i] == 0
        others = np.flatnonzero(np.not_equal(groups, groups[i]))
        weights = np.sqrt(chances[out] / drop)
        A = np.vstack([w * (X * one / (1 - drop))[:, others] for one, w in zip(z[out], weights, strict=True)])
        y = np.concatenate([w * X[:, i] for w in weights])
        A, y = np.vstack([A, np.sqrt(l2) * np.eye(len(others))]), np.append(y, np.zeros(len(others)))
        b = np.linalg.lstsq(A, y)[0]
        total += float(np.sum((y - A @ b) ** 2))
        assert np.allclose(found.B[others, i], b, atol=1e-12)
        assert not np.delete(found.B[:, i], others).any()
    assert found.value == pytest.approx(total, rel=1e-12)
    filled = found.B + 7 * np.equal.outer(groups, groups)  # entries within a group count for nothing
    assert masks.group_loss(G, filled, groups, drop, l2=l2) == pytest.approx(total, rel=1e-12)


def test_groups_of_one_item_are_the_library_models():
    inter = od.synthetic.interactions(100, 12, 500, seed=0)
    G = od.gram(inter, dtype="float64").toarray()
    settings = {"dropout": 0.4, "l2": 3.0, "user_power": 0.0, "dtype": "float64"}
    edlae, dlae = od.EDLAE(**settings).fit(inter), od.DLAE(**settings).fit(inter)
    found = masks.group_optimum(G, range(12), 0.4, l2=3.0)
    assert np.allclose(found.B, edlae.weights_.toarray(), atol=1e-12)
    assert found.value == pytest.approx(edlae.objective_, rel=1e-12)
    found = masks.optimum(G, masks.group_covariance(range(12), 0.4), l2=3.0)
    assert np.allclose(found.B, dlae.weights_.toarray(), atol=1e-12)
    low = masks.optimum(G, masks.group_covariance(range(12), 0.4), l2=3.0, rank=3)
    assert low.value == pytest.approx(od.LowRankDLAE(rank=3, **settings).fit(inter).objective_, rel=1e-10)
    assert np.linalg.matrix_rank(low.B, tol=1e-9) == 3


def test_no_matrix_of_the_rank_is_better_under_correlated_masks():
    X, rng = rows(3, n=20, m=6), np.random.default_rng(0)
    cov = masks.group_covariance([0, 0, 1, 1, 2, 2], 0.5)
    best = masks.optimum(X.T @ X, cov, rank=2)
    U, s, Vt = np.linalg.svd(best.B)
    for _ in range(200):
        noise = 0.1 * rng.standard_normal((2, 6, 2))
        near = (U[:, :2] * s[:2] + noise[0]) @ (Vt[:2].T + noise[1]).T
        assert masks.expected_loss(X.T @ X, near, cov) > best.value


def test_a_group_that_always_occurs_together_needs_l2():
    X = rows(4)
    X[:, 1] = X[:, 0]
    with pytest.raises(od.OffdiagError, match="give l2 above 0"):
        masks.group_optimum(X.T @ X, [0, 0, 1, 1, 2], 0.5)
    apart = masks.group_optimum(X.T @ X, [0, 3, 1, 1, 2], 0.5)  # in two groups they predict each other
    assert apart.B[0, 1] > 0.3


square = np.eye(2)
test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: masks.optimum(square, np.eye(3)), "cov must be 2×2"),
    (lambda: masks.optimum(square, square, [1.0, 0.0]), "mean must not be 0"),
    (lambda: masks.optimum(square, square, [1.0, 1.0, 1.0]), "mean must be 1×2"),
    (lambda: masks.optimum(square, square, rank=0), "rank must be a whole number"),
    (lambda: masks.optimum([[1.0, 2.0], [0.0, 1.0]], square), "G must be square and symmetric"),
    (lambda: masks.expected_loss(square, np.eye(3), square), "B must be 2×2"),
    (lambda: masks.group_optimum(square, [0, 1, 2], 0.5), "cov must be 2×2"),
    (lambda: masks.group_optimum(square, [0, 1], 1.0), "drop, the probability of dropping"),
    (lambda: masks.group_optimum(square, [0, 1], 0.5, l2=-1.0), "l2 must be a number"),
)
