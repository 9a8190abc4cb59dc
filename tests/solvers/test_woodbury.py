"""Changes of a packed inverse and its residual, against dense inverses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offdiag.gramian import layout
from offdiag.solvers import woodbury

sizes = st.integers(1, 24)
seeds = st.integers(0, 2**32 - 1)


def positive(m, seed):
    A = np.random.default_rng(seed).standard_normal((m, m + 3))
    return A @ A.T + 0.5 * np.eye(m)


@given(sizes, seeds, st.data())
@settings(deadline=None)
def test_the_inverse_follows_items_that_change_come_and_go(m, seed, data):
    """One step with everything in it, against the inverse of what H becomes."""
    rng = np.random.default_rng(seed)
    live = rng.random(m) < 0.7
    gone = live & (rng.random(m) < 0.3)
    coming = ~live & (rng.random(m) < 0.5)
    H = np.where(np.outer(live, live), positive(m, seed), 0.0) + np.diag(np.where(live, 0.0, 2.0))
    lives = (live & ~gone) | coming
    S = np.flatnonzero(lives & ((rng.random(m) < 0.5) | coming))
    after = np.where(np.outer(lives, lives), H, 0.0)
    x = rng.standard_normal((len(S), 2))
    delta = x @ x.T
    after[np.ix_(S, S)] += delta
    pivots = after[S, S]
    delta[coming[S], coming[S]] = 0.0
    empty = 3.0
    expected = np.zeros((m, m))
    there = np.flatnonzero(lives)
    fresh = np.flatnonzero(coming)
    after[fresh, fresh] = pivots[np.isin(S, fresh)]
    expected[np.ix_(there, there)] = np.linalg.inv(after[np.ix_(there, there)])
    dropped = data.draw(st.booleans())
    step = woodbury.Step(
        old=np.where(coming[S], -1, S),
        new=np.searchsorted(np.flatnonzero(~gone), S) if dropped else S,
        gone=np.flatnonzero(gone),
        left=np.zeros(0, np.int64) if dropped else np.flatnonzero(gone),
        delta=delta,
        pivots=pivots,
        empty_pivot=empty,
        at=np.flatnonzero(~gone) if dropped else None,
    )
    values = layout.pack(np.linalg.inv(H))
    if dropped and not (~gone).any():
        return
    found = woodbury.change(values, m, step)
    assert found is not None
    expected[gone, gone] = 1 / empty
    untouched = ~live & ~coming
    expected[untouched, untouched] = 1 / 2.0
    if dropped:
        expected = expected[np.ix_(~gone, ~gone)]
    else:
        assert found is values  # in place
    np.testing.assert_allclose(layout.unpack(found, len(expected)), expected, rtol=1e-8, atol=1e-10)


def test_a_singular_change_is_seen_before_anything_is_touched():
    H = np.diag([2.0, 3.0])
    values = layout.pack(np.linalg.inv(H))
    before = values.copy()
    none = np.zeros(0, np.int64)
    one = np.array([1])
    step = woodbury.Step(one, one, none, none, np.array([[-3.0]]), np.array([0.0]), 1.0, None)
    assert woodbury.change(values, 2, step) is None
    assert np.array_equal(values, before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_residual_is_rounding_for_an_inverse_and_bounds_an_error(dtype):
    m = 40
    H = positive(m, 1)
    C = np.linalg.inv(H)
    G, penalty = H - 0.5 * np.eye(m), np.full(m, 0.5)
    live = np.ones(m, bool)
    size, distance = woodbury.residual(layout.pack(C.astype(dtype)), layout.pack(G), m, penalty, live)
    eps = np.finfo(dtype).eps
    assert size < 2e3 * eps
    C[3, 7] = C[7, 3] = C[3, 7] + 1e-3
    size, distance = woodbury.residual(layout.pack(C.astype(dtype)), layout.pack(G), m, penalty, live)
    assert size > 1e-4
    np.testing.assert_allclose(distance[[3, 7]], 1e-3, rtol=0.5)
    size, distance = woodbury.residual(layout.pack(0 * C.astype(dtype)), layout.pack(G), m, penalty, live)
    assert size >= 0.9
    assert np.isinf(distance).all()  # C·(HC − I) is 0, and C as wrong as can be
