"""Lists found with a byte per weight are those found without it, bit for bit."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag.gramian import layout
from offdiag.weights import Dense, Packed, byte_copy, heaps
from tests.laws import oracles
from tests.laws.strategies import dtypes


@pytest.fixture(autouse=True, scope="module")
def for_small_catalogues():
    """Several tiles in a catalogue of a hundred items, and lists as long as it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"FEWEST_ITEMS": 1, "LEAST_SHARE": 1, "OF_MANY": 1, "WIDTH": 48}.items():
            patch.setattr(byte_copy, name, value)
        yield


def packed(m, seed, dtype, power=1, digits=None, near=False):
    """Symmetric weights: heavy tails for a power above 1, ties if rounded to few digits, or all of nearly the same."""
    rng = np.random.default_rng(seed)
    C, scale, own = (rng.standard_normal(n) ** power for n in (layout.size(m), m, m))
    C[rng.random(len(C)) < 0.3] = 0
    scale[rng.integers(m)] = 0  # a column of zeros
    if near:
        C, scale, own = 1 + C / 500, np.ones(m), np.ones(m)
    parts = [part if digits is None else np.round(part, digits) for part in (C, scale, own)]
    return Packed(*(part.astype(dtype) for part in parts))


def lists(W, X, k, copied, exclude_seen=True, allowed=None):
    """The lists from W, with or without its copy, scores as whole numbers so that every bit counts."""
    W.byte_copy.copy = byte_copy.encode(W) if copied else None
    W.byte_copy._done = True
    items, scores = heaps.top_k(W, X, k, exclude_seen=exclude_seen, allowed=allowed)
    return items, scores.view(f"i{scores.itemsize}")


@given(
    st.integers(2, 110), st.integers(0, 10**6), dtypes, st.sampled_from([1, 3, 9]), st.sampled_from([None, 0]),
    st.booleans(), st.booleans(), st.booleans(), st.data(),
)  # fmt: skip
def test_a_copy_changes_no_bit_of_a_list(m, seed, dtype, power, digits, near, dense, exclude_seen, data):
    rng, k = np.random.default_rng(seed), data.draw(st.integers(1, m))
    W = packed(m, seed, dtype, power, digits, near)
    W = W.todense() if dense else W
    X = (rng.random((5, m)) < rng.choice([0.05, 0.5, 1])).astype(dtype)
    X[0] = 0
    values = data.draw(st.sampled_from([1, 1, 1e6, -1]))
    X = sparse.csr_array(X * values)
    allowed = rng.random(m) < 0.8
    got, want = (lists(W, X, k, copied, exclude_seen, allowed) for copied in (True, False))
    assert np.array_equal(got[0], want[0])
    assert np.array_equal(got[1], want[1])
    assert np.array_equal(got[0], oracles.top_k(X @ W, (X.toarray() != 0) & exclude_seen, k, allowed))


@given(st.integers(1, 110), st.integers(0, 10**6), dtypes, st.sampled_from([1, 3, 9]))
def test_codes_and_extras_are_as_near_to_the_weights_as_stated(m, seed, dtype, power):
    W = packed(m, seed, dtype, power)
    copy = byte_copy.encode(W)
    whole = copy.codes[:, :m].astype(np.int64)
    ends = np.append(copy.ptr.reshape(-1)[1:], len(copy.columns))
    for n, (lo, hi) in enumerate(zip(copy.ptr.reshape(-1), ends, strict=True)):
        assert ((copy.columns[lo:hi] // byte_copy.WIDTH) == n % copy.ptr.shape[1]).all()
        whole[n // copy.ptr.shape[1], copy.columns[lo:hi]] += copy.extras[lo:hi]
    off = np.abs(W.toarray().astype(np.float64) - copy.unit * whole).max(axis=1)
    assert np.allclose(off, copy.errors, rtol=1e-9, atol=1e-9 * copy.unit)
    assert (copy.errors <= 0.51 * copy.unit).all()
    assert np.array_equal(copy.largest, np.abs(W.toarray()).max(axis=1))


@pytest.mark.parametrize("dense", [False, True])
def test_weights_that_differ_by_less_than_a_unit_are_ranked_exactly(dense):
    W = packed(100, 0, np.float32, near=True)
    W = W.todense() if dense else W
    X = sparse.csr_array((np.random.default_rng(0).random((20, 100)) < 0.3).astype(np.float32))
    got, want = (lists(W, X, 10, copied) for copied in (True, False))
    assert np.array_equal(got[0], want[0])
    assert np.array_equal(got[1], want[1])


def test_many_items_of_equal_score_are_all_candidates():
    W = Dense(np.zeros((700, 700), dtype=np.float32))
    X = sparse.csr_array(np.eye(2, 700, dtype=np.float32))
    assert lists(W, X, 5, copied=True)[0].tolist() == [[1, 2, 3, 4, 5], [0, 2, 3, 4, 5]]


def test_long_histories_do_not_overflow_sums_of_sixteen_bits():
    B = np.full((600, 600), 1.0, dtype=np.float32)
    B[:, 7] = -1.0
    X = sparse.csr_array(np.ones((1, 600), dtype=np.float32))
    got, want = (lists(Dense(B), X, 599, copied, exclude_seen=False) for copied in (True, False))
    assert 7 not in got[0]
    assert np.array_equal(got[1], want[1])


def test_weights_that_are_not_finite_get_no_copy():
    B = np.zeros((60, 60), dtype=np.float32)
    for bad in (np.inf, -np.inf, np.nan):
        B[3, 4] = bad
        assert byte_copy.encode(Dense(B)) is None


def test_a_copy_is_made_when_reading_rows_has_cost_as_much(monkeypatch):
    W = packed(100, 0, np.float32)
    X = sparse.csr_array(np.eye(100, dtype=np.float32)[:40])
    made = []
    for _ in range(3):
        heaps.top_k(W, X, 3)
        made.append(W.byte_copy.copy is not None)
    assert made == [False, False, True]
    assert pickle.loads(pickle.dumps(W)).byte_copy.copy is None
    monkeypatch.setenv("OFFDIAG_BYTE_COPY", "0")
    assert packed(100, 0, np.float32).byte_copy.make(W) is None


def test_no_copy_is_made_without_room_for_twice_its_size(monkeypatch):
    monkeypatch.setattr(byte_copy.memory, "available", lambda: 2 * 100 * 100 - 1)
    assert packed(100, 0, np.float32).byte_copy.make(packed(100, 0, np.float32)) is None
