import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.solvers import cholesky, grouped
from offdiag.weights import Grouped, Packed
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, interactions

l2s = st.sampled_from([0.5, 3.0, 40.0])


def numbered(labels):
    """Groups from 0 without gaps, in the order of their first items."""
    first = {}
    return np.array([first.setdefault(label, len(first)) for label in labels], dtype=np.int64)


def solve(G, group, dropout, l2, dtype="float64"):
    solution = grouped.solve(layout.pack(G.astype(dtype)), len(G), group, dropout=dropout, l2=l2)
    return Grouped(solution.C, np.ones(len(G), dtype=dtype), group, solution.blocks).toarray(), solution


@st.composite
def grouped_data(draw):
    X = draw(interactions(values="ratings"))
    m = X.shape[1]
    return X, numbered(draw(st.lists(st.integers(0, 3), min_size=m, max_size=m)))


@given(grouped_data(), dropouts, l2s, dtypes)
def test_each_item_is_regressed_on_the_items_of_other_groups(data, dropout, l2, dtype):
    X, group = data
    G = oracles.gram(X.toarray())
    B, _ = solve(G, group, dropout, l2, dtype)
    expected = oracles.grouped_weights(G, group, dropout, l2)
    np.testing.assert_allclose(B, expected, rtol=0, atol=oracles.TOLERANCE[dtype] * max(1, np.abs(expected).max()))
    assert not B[oracles.same_group(group) == 1].any()


@given(interactions(values="counts"), dropouts, l2s, dtypes)
def test_groups_of_one_item_give_edlae_to_the_last_bit(X, dropout, l2, dtype):
    G = oracles.gram(X.toarray()).astype(dtype)
    B, solution = solve(G, np.arange(len(G)), dropout, l2, dtype)
    plain = cholesky.solve(layout.pack(G), len(G), dropout=dropout, l2=l2, kept_weight=0.0)
    np.testing.assert_array_equal(B, Packed(plain.C, plain.scale, plain.diagonal).toarray())
    assert solution.objective == pytest.approx(plain.objective, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("group", [[0, 0, 1, 2, 1], [0, 1, 1, 1, 2], [0, 1, 0, 1, 0]])
@pytest.mark.parametrize("dropout", [0.2, 0.6])
def test_it_minimises_the_mean_loss_over_all_masks_of_groups(group, dropout):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (7, 5)).astype(float)
    G, group, l2 = X.T @ X, np.array(group), 0.7
    B, solution = solve(G, group, dropout, l2)

    def loss(B):
        return oracles.expected_loss_of_groups(X, B, group, dropout) + l2 * (B**2).sum()

    assert solution.objective == pytest.approx(loss(B), rel=1e-10)
    for _ in range(20):
        step = rng.standard_normal(B.shape) * (1 - oracles.same_group(group))
        assert loss(B + 1e-3 * step) > loss(B) < loss(B + step)


def test_near_duplicates_within_a_group_do_no_harm():
    X = np.random.default_rng(4).integers(0, 2, (60, 6)).astype(float)
    X[:, 1] = X[:, 0]  # the same article in another colour
    G, group = X.T @ X, np.array([0, 0, 1, 2, 3, 4])
    B, _ = solve(G, group, 0.5, 1.0, "float32")
    np.testing.assert_allclose(B, oracles.grouped_weights(G, group, 0.5, 1.0), atol=2e-5)
    np.testing.assert_allclose(B[:, 0], B[:, 1], atol=2e-5)


def test_a_singular_problem_is_an_error():
    G = np.ones((3, 3))
    with pytest.raises(OffdiagError, match="l2"):
        solve(G, np.array([0, 0, 1]), 0.0, 0.0)
