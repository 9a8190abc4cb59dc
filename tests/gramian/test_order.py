"""A and K of ordered histories against direct sums, one example at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag._kernels import parallel
from offdiag.data.sequences import Sequences
from offdiag.gramian import item_bands, layout, order
from offdiag.gramian.order import Ageing, count_order
from offdiag.gramian.packed import gram
from tests.fixtures.ordered_histories import as_sequences, tolerance
from tests.laws import oracles
from tests.laws.strategies import ordered


def unpacked(sums, m):
    return layout.unpack(sums.A, m), sums.K


@given(
    data=ordered(),
    decay=st.sampled_from([1.0, 0.9, 0.5, 1e-3]),
    window=st.sampled_from([None, 1, 2, 5, 1000]),
    later=st.booleans(),
    power=st.sampled_from([0.0, 0.5, 1.0, -0.3]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_sums_by_position_equal_direct_sums(data, decay, window, later, power, dtype):
    events, m = data
    plain = [[item for item, _ in user] for user in events]
    weights = oracles.user_weights(np.array([max(len(user) - 1, 0) for user in plain]), power)
    A, K = oracles.order_sums(plain, m, weights=weights, decay=decay, window=window, later=later)
    found = count_order(as_sequences(plain), m, Ageing(decay, None, window), later=later, user_power=power, dtype=dtype)
    for mine, true in zip(unpacked(found, m), (A, K), strict=True):
        np.testing.assert_allclose(mine, true, **tolerance(plain, weights, dtype))
        assert mine.dtype == dtype


@given(
    data=ordered(),
    half_life=st.sampled_from([0.3, 2.0, 50.0]),
    window=st.sampled_from([None, 1, 3]),
    later=st.booleans(),
)
def test_sums_by_time_equal_direct_sums(data, half_life, window, later):
    events, m = data
    tau = half_life / np.log(2)
    A, K = oracles.order_sums(events, m, tau=tau, window=window, later=later)
    found = count_order(
        as_sequences(events, timed=True), m, Ageing(half_life=half_life, window=window), later=later, dtype="float64"
    )
    for mine, true in zip(unpacked(found, m), (A, K), strict=True):
        np.testing.assert_allclose(mine, true, **tolerance(events, [1.0], "float64"))


@given(data=ordered(), mix=st.sampled_from([0.0, 0.3, 1.0]), power=st.sampled_from([0.0, 0.5]))
def test_mixed_sums_contain_the_gram_in_both(data, mix, power):
    events, m = data
    plain = [[item for item, _ in user] for user in events]
    X = np.zeros((len(plain), m), dtype=np.float32)
    for u, user in enumerate(plain):
        X[u, user] = 1
    order = count_order(as_sequences(plain), m, Ageing(0.7), user_power=power, dtype="float64")
    both = count_order(as_sequences(plain), m, Ageing(0.7), user_power=power, mix=mix, matrix=X, dtype="float64")
    G = oracles.gram(X, power)
    for mine, alone in zip(unpacked(both, m), unpacked(order, m), strict=True):
        np.testing.assert_allclose(mine, mix * G + (1 - mix) * alone, rtol=1e-9, atol=1e-12)


def example(n_users=60, m=23, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, n_users)
    lengths[:3] = (0, 1, 200)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    times = np.concatenate([np.sort(rng.integers(0, 1000, n)) for n in lengths])
    return Sequences(indptr, rng.integers(0, m, indptr[-1]).astype(np.int32), times), m


@pytest.mark.parametrize("ageing", [Ageing(0.8), Ageing(half_life=30.0), Ageing(0.99, window=4)])
def test_users_in_any_order_give_the_same_bits(ageing):
    sequences, m = example()
    shuffled = sequences.select_users(np.random.default_rng(1).permutation(sequences.n_users))
    one, other = (count_order(s, m, ageing, user_power=0.5, dtype="float64") for s in (sequences, shuffled))
    assert one.A.tobytes() == other.A.tobytes()
    assert one.K.tobytes() == other.K.tobytes()


def test_threads_and_bands_do_not_change_a_bit(monkeypatch):
    sequences, m = example()
    one = count_order(sequences, m, Ageing(0.8))
    monkeypatch.setattr(parallel, "n_threads", lambda: 1)
    monkeypatch.setattr(item_bands, "SMALL_BAND", 64)
    monkeypatch.setattr(order, "LEAST_NUMBERS", 3)
    reported = []
    other = count_order(sequences, m, Ageing(0.8), progress=lambda *report: reported.append(report))
    assert one.A.tobytes() == other.A.tobytes()
    assert one.K.tobytes() == other.K.tobytes()
    assert reported[-1] == ("counting histories", 1.0)


def test_sums_of_parts_add_up_exactly():
    sequences, m = example()
    whole = count_order(sequences, m, Ageing(0.8), dtype="float64")
    halves = [
        count_order(sequences.select_users(part), m, Ageing(0.8), dtype="float64")
        for part in (np.arange(25), np.arange(25, 60))
    ]
    assert (halves[0].A + halves[1].A == whole.A).all()
    assert (halves[0].K + halves[1].K == whole.K).all()


def test_a_window_beyond_every_history_is_no_window():
    sequences, m = example()
    one, other = (count_order(sequences, m, Ageing(0.8, window=w), dtype="float64") for w in (None, 200))
    np.testing.assert_array_equal(one.A, other.A)
    np.testing.assert_array_equal(one.K, other.K)


def test_mix_one_counts_only_the_gram():
    sequences, m = example()
    X = (np.random.default_rng(0).random((60, m)) < 0.3).astype(np.float32)
    sums = count_order(sequences, m, Ageing(0.8), mix=1.0, matrix=X)
    np.testing.assert_array_equal(sums.A, gram(X).values)
    np.testing.assert_array_equal(sums.K, gram(X).toarray())
