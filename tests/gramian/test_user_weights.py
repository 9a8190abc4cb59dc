from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.gramian import user_weights
from offdiag.gramian.sparse import of_packed


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40), st.sampled_from([0.0, 0.3, 0.5, 1.0, -0.4, 5.0, -5.0]))
def test_sums_of_user_weights_are_not_rounded(lengths, power):
    weight = user_weights.weights_of(np.array(lengths), power)
    wanted = np.array([float(n) ** -power if n else 0.0 for n in lengths])
    assert (np.abs(weight - wanted) <= 2.0**-24 * wanted).all()
    if weight.any() and weight.sum() < 2.0**29 * weight[weight > 0].min():
        exact = sum((Fraction(float(w)) for w in weight), Fraction(0))
        assert Fraction(float(np.sum(weight))) == exact == Fraction(float(np.sum(weight[::-1])))


def test_the_mean_weight_stays_near_one_as_users_come_and_go():
    rng = np.random.default_rng(0)
    n_u = rng.integers(1, 300, 5_000)
    scales = [user_weights.scale_of(np.bincount(n_u[k:], minlength=300), 0.5) for k in range(100)]
    for k, scale in enumerate(scales):
        assert np.average(n_u[k:] ** -0.5, weights=n_u[k:]) * scale == pytest.approx(1, abs=0.0055)
    assert len(set(scales)) <= 2
    assert user_weights.scale_of(np.bincount(n_u[n_u >= 150], minlength=300), 0.5) > 1.1 * scales[0]


def test_packed_and_sparse_grams_share_their_facts():
    G = od.gram((np.random.default_rng(0).random((20, 7)) < 0.4).astype(np.float32), 0.5)
    rows = of_packed(G)
    assert rows.scale == G.scale
    assert (rows.n_items, rows.n_users, rows.n_interactions) == (G.n_items, G.n_users, G.n_interactions)
    assert rows.diagonal().tobytes() == G.diagonal().tobytes()
    at = np.array([3, -1, 0])
    for moved in (G.moved(at), rows.moved(at)):
        assert moved.item_counts.tolist() == [G.item_counts[3], 0, G.item_counts[0]]
    for copy in (G.copy(), rows.copy()):
        assert type(copy) is type(G if copy.kind == "packed" else rows)
        assert type(copy).from_arrays(copy.arrays(), {"user_power": 0.5}).toarray().tobytes() == G.toarray().tobytes()


@pytest.mark.parametrize("power", [np.nan, np.inf, "half"])
def test_a_user_power_that_is_not_a_finite_number_is_refused(power):
    with pytest.raises(od.OffdiagError, match="user_power must be a finite number, received .*; 0 weights all"):
        user_weights.checked_power(power)
