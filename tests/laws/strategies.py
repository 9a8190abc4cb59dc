"""Matrices drawn by hypothesis: empty users, cold items, duplicate columns, one item, huge counts."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse


@st.composite
def interactions(draw, *, max_users=12, max_items=9, values="binary", min_items=1):
    """A small users×items matrix with at least one interaction."""
    n = draw(st.integers(1, max_users))
    m = draw(st.integers(min_items, max_items))
    seed = draw(st.integers(0, 2**32 - 1))
    density = draw(st.sampled_from([0.1, 0.4, 0.9]))
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < density).astype(np.float64)
    if values == "counts":
        X *= rng.integers(1, draw(st.sampled_from([3, 50, 5000])), size=(n, m))
    elif values == "ratings":
        X *= rng.integers(1, 11, size=(n, m)) / 2
    if draw(st.booleans()):
        X[rng.integers(n)] = 0  # a user without history
    if draw(st.booleans()):
        X[:, rng.integers(m)] = 0  # an item without users
    if m > 1 and draw(st.booleans()):
        X[:, rng.integers(m)] = X[:, rng.integers(m)]  # two items that always co-occur
    if not X.any():
        X[0, 0] = 1
    return sparse.csr_array(X.astype(np.float32))


dropouts = st.sampled_from([0.0, 0.1, 0.33, 0.5, 0.8])
kept_weights = st.sampled_from([0.0, 0.01, 0.3, 1.0])
dtypes = st.sampled_from(["float32", "float64"])
powers = st.sampled_from([0.0, 0.5, 1.0, -0.3])


@st.composite
def ordered(draw, *, max_users=6, max_items=6, longest=12):
    """Histories as lists of (item, time), times ascending: empty ones, single events, repeats, equal times."""
    m = draw(st.integers(1, max_items))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 3, longest]), min_size=1, max_size=max_users))
    return [
        list(zip(rng.integers(0, m, n).tolist(), np.sort(rng.integers(0, 2 * n + 1, n)).tolist(), strict=True))
        for n in lengths
    ], m
