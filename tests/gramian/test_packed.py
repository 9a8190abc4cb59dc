import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.gramian import item_bands
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions, powers


@given(interactions(), dtypes)
def test_counts_are_exact_integers(X, dtype):
    assert np.array_equal(od.gram(X, dtype=dtype).toarray(), oracles.gram(X.toarray()))


@given(interactions(values="counts"), powers, dtypes)
def test_weighted_gram_equals_the_dense_product(X, power, dtype):
    G = od.gram(X, power, dtype=dtype)
    expected = oracles.gram(X.toarray(), power)
    tolerance = {"float32": 3e-7, "float64": 1e-14}[dtype] * expected.max()
    np.testing.assert_allclose(G.toarray(), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(G.diagonal(), np.diag(expected), rtol=0, atol=tolerance)


@given(interactions(max_users=20), powers)
def test_the_mean_weight_of_an_interaction_is_one_within_half_a_step(X, power):
    """Σ over interactions of s·n_u^-power, which is the sum of the diagonal for 0/1 data."""
    G = od.gram(X, power, dtype=np.float64)
    assert np.isclose(G.diagonal().sum(), X.nnz, rtol=0.0055 if power else 1e-12)


@given(interactions(), interactions(), st.sampled_from([0.0, 0.5, 1.0, 0.37, -0.3, -0.5, -1.0]), st.randoms())
def test_users_of_ones_come_and_go_bit_for_bit(old, new, power, random):
    """Weights of 24 digits: no sum is rounded, so it depends on neither order nor history; nor does the scale."""
    new.resize((new.shape[0], old.shape[1]))
    both = sparse.vstack([old, new]).tocsr()
    shuffled = both[random.sample(range(both.shape[0]), both.shape[0])]
    G, extra = od.gram(old, power), od.gram(new, power)
    assert G.dtype == (np.float32 if power == 0 else np.float64)
    for one, other in (
        (G + extra, od.gram(both, power)),
        (od.gram(shuffled, power), od.gram(both, power)),
        ((G + extra) - extra, G),
    ):
        assert one.values.dtype == other.values.dtype
        assert one.values.tobytes() == other.values.tobytes()
        assert np.array_equal(one.activity, other.activity)
        assert np.array_equal(one.item_sums, other.item_sums)
        assert one.scale == other.scale


def test_an_item_whose_last_user_is_forgotten_vanishes_without_a_trace():
    rng = np.random.default_rng(0)
    X = (rng.random((30, 7)) < 0.6).astype(np.float32)
    X[:, 3] = 0
    X[[4, 9], 3] = 1
    left = (od.gram(X, 0.37) - od.gram(X[[4, 9]], 0.37)).toarray()
    assert not left[3].any()
    assert not left[:, 3].any()
    np.testing.assert_allclose(left, od.gram(np.delete(X, [4, 9], axis=0), 0.37).toarray(), atol=1e-5)


@given(interactions(), st.integers(1, 3))
def test_an_empty_user_changes_no_number(X, extra):
    more = sparse.vstack([X, sparse.csr_array((extra, X.shape[1]), dtype=np.float32)]).tocsr()
    assert np.array_equal(od.gram(more).toarray(), od.gram(X).toarray())
    assert od.gram(more).n_users == od.gram(X).n_users + extra


def test_counts_beyond_what_float32_holds_are_accumulated_exactly():
    """2^24 + 1 is not a float32: adding one at a time in float32 would stay at 2^24; here G is rounded once."""
    big = 4097.0  # 4097² = 2^24 + 8193
    X = sparse.csr_array(np.array([[big, 1.0]] + [[1.0, 1.0]] * 5000, dtype=np.float32))
    exact = 4097**2 + 5000
    assert od.gram(X, dtype=np.float32).toarray()[0, 0] == np.float32(exact)
    assert od.gram(X).toarray()[0, 0] == exact
    assert od.gram(X, dtype=np.float64).toarray()[0, 0] == exact
    summed_in_float32 = np.float32(big * big)
    for _ in range(5000):
        summed_in_float32 += np.float32(1)
    assert summed_in_float32 != np.float32(exact), "the case must be one where float32 sums go wrong"


@settings(max_examples=20)
@given(interactions())
def test_unsorted_and_duplicate_entries_are_summed_in_a_copy(X):
    coo = X.tocoo()
    messy = sparse.csr_array(
        (
            np.concatenate([coo.data / 2, coo.data / 2, [0.0]]).astype(np.float32),
            (np.concatenate([coo.row, coo.row, [0]]), np.concatenate([coo.col, coo.col, [0]])),
        ),
        shape=X.shape,
    )
    backwards = messy[:, ::-1][:, ::-1]  # scipy leaves such rows unsorted
    before = backwards.copy()
    assert np.array_equal(od.gram(backwards).toarray(), oracles.gram(X.toarray()))
    assert np.array_equal(backwards.data, before.data)
    assert np.array_equal(backwards.indices, before.indices)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[1.0, np.nan]]), "NaN"),
        (np.array([[1.0, np.inf]]), "infinite"),
        (np.array([[1.0, -2.0]]), "negative"),
        (np.array([1.0, 2.0]), "users×items"),
        (np.array([["a", "b"]]), "users×items"),
    ],
)
def test_bad_data_is_named(X, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.gram(X)


def test_a_table_or_a_broken_sparse_matrix_is_refused():
    import pandas as pd

    with pytest.raises(od.OffdiagError, match="od.read"):
        od.gram(pd.DataFrame({"user": [1, 2], "item": [5, 6]}))
    broken = sparse.csr_array((1, 14), dtype=np.float32)
    broken.data, broken.indices, broken.indptr = np.ones(1, "f4"), np.array([50_000_000], "i4"), np.array([0, 1], "i4")
    with pytest.raises(od.OffdiagError, match="not valid"):
        od.gram(broken)
    with pytest.raises(od.OffdiagError, match="float32 or float64"):
        od.gram(np.eye(3), dtype=np.int32)


def test_many_small_integer_duplicates_do_not_overflow():
    ones = np.ones(300, dtype=np.uint8)
    X = sparse.coo_array((ones, (np.zeros(300, int), np.zeros(300, int))), shape=(1, 2))
    assert od.gram(X).toarray()[0, 0] == 300**2


def test_forgetting_users_one_by_one_leaves_nothing_of_their_items():
    stay = np.array([[0, 1, 1]] * 2, dtype=np.float64)
    leave = np.zeros((6, 3))
    leave[:, 0] = [0.1, 0.2, 0.3, 0.7, 1.3, 2.2]
    leave[:, 1] = 1
    G = sum([od.gram(stay), od.gram(leave)])
    for row in leave:
        G = G - od.gram(row[None, :])
    assert G.toarray()[0].tolist() == [0, 0, 0]
    assert G.item_sums[0] == 0
    assert od.EDLAE(dropout=0.5, l2=0.0, user_power=0.0).fit_gram(G).weights_.toarray()[0].tolist() == [0, 0, 0]


def test_grams_of_different_precision_meet_in_the_wider_one():
    ones, thirds = np.eye(3), np.eye(3) / 3
    both = od.gram(ones) + od.gram(thirds)
    assert both.dtype == np.float64
    np.testing.assert_allclose(both.toarray(), np.eye(3) * (1 + 1 / 9), rtol=1e-15)
    assert np.array_equal((both - od.gram(ones)).toarray() > 0, np.eye(3) > 0)


def test_grams_that_do_not_belong_together_are_refused():
    a, b = np.eye(3), np.eye(4)
    with pytest.raises(od.OffdiagError, match="same items"):
        od.gram(a) + od.gram(b)
    with pytest.raises(od.OffdiagError, match="user_power"):
        od.gram(a) + od.gram(a, 0.5)
    with pytest.raises(od.OffdiagError, match="not in the first"):
        od.gram(a) - od.gram(np.ones((1, 3)))
    with pytest.raises(od.OffdiagError, match="not in the first"):
        od.gram(np.array([[1, 1, 0], [1, 1, 0]])) - od.gram(np.array([[0, 1, 1]]))
    with pytest.raises(od.OffdiagError, match="adds to a Gram"):
        od.gram(a) + 1


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_bands_of_items_do_not_change_the_gram(monkeypatch, power):
    X = sparse.csr_array((np.random.default_rng(0).random((200, 61)) < 0.3).astype(np.float32))
    whole = od.gram(X, power)
    monkeypatch.setattr(item_bands, "SMALL_BAND", 8)
    reported = []
    banded = od.gram(X, power, progress=lambda *report: reported.append(report))
    assert banded.values.tobytes() == whole.values.tobytes()
    assert len(reported) >= 61
    assert reported == sorted(reported)
    assert reported[-1] == ("counting pairs", 1.0)
