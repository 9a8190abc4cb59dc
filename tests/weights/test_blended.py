"""A blend of weights, against the same formula in plain NumPy on dense arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.weights import Blended, Constant, Dense, LowRank, Packed, Sparse, heaps, tiles
from tests.laws.strategies import interactions


def parts_of(m, dtype=np.float32, seed=0):
    draws = np.random.default_rng(seed)
    B = draws.normal(size=(m, m)).astype(dtype)
    thin = np.where(draws.random((m, m)) < 0.3, np.abs(B), 0)
    return Dense(B), Sparse.of(sparse.csr_array(thin)), LowRank(B[:, : max(m // 2, 1)], B[:, : max(m // 2, 1)])


def plain(X, parts, shares, powers, best=20):
    """Σ shares·s/c by loops over users and parts."""
    X = X.toarray().astype(np.float64)
    out = np.zeros_like(X)
    for u, x in enumerate(X):
        for part, share, power in zip(parts, shares, powers, strict=True):
            raised = np.where(x != 0, np.abs(x) ** power, 0.0)
            scores = raised @ part.toarray().astype(np.float64)
            unseen = np.sort(scores[x == 0])[::-1][:best]
            if len(unseen) and unseen.mean() > 0:
                out[u] += share * scores / unseen.mean()
    return out


@given(X=interactions(min_items=2, values="counts"), dtype=st.sampled_from([np.float32, np.float64]))
def test_scores_are_those_of_the_formula(X, dtype):
    X = sparse.csr_array(X)
    X.data = np.minimum(X.data, 50)
    parts = parts_of(X.shape[1], dtype)
    shares, powers = np.array([1.0, 0.5, 2.0]), np.array([1.0, 0.0, 0.5])
    units = [plain(X, [part], [1.0], [power]) for part, power in zip(parts, powers, strict=True)]
    expected = plain(X, parts, shares, powers)
    found = X @ Blended.of(parts, shares, powers)
    assert found.dtype == dtype
    size = 1 + sum(np.abs(unit).max(initial=0.0) for unit in units)
    np.testing.assert_allclose(found, expected, atol=(3e-4 if dtype == np.float32 else 1e-9) * size)


def test_tiles_of_different_widths_are_joined(monkeypatch):
    """A part's tile is never computed twice, and no item is left out or scored twice."""
    monkeypatch.setattr(tiles, "DENSE_WIDTH", 7)
    monkeypatch.setattr(tiles, "TILE_BYTES", 64 * 4 * 11)
    X = od.synthetic.interactions(11, 300, 900, seed=1).matrix
    draws = np.random.default_rng(0).random((300, 300)).astype(np.float32)
    blend = Blended.of((Dense(draws), LowRank(draws[:, :3], draws[:, :3])), np.array([1.0, 1.0]), np.ones(2))
    bounds = [(lo, hi) for lo, hi, _ in blend.score_tiles(X)]
    assert [lo for lo, _ in bounds] == [0, *(hi for _, hi in bounds[:-1])]
    assert bounds[-1][1] == 300
    assert len(bounds) > 300 // 7
    expected = plain(X, blend.parts, [1.0, 1.0], [1.0, 1.0])
    np.testing.assert_allclose(X @ blend, expected, rtol=1e-4)


def test_the_linear_parts_add_up_to_the_scores():
    X = od.synthetic.interactions(20, 30, 200, seed=2).matrix
    blend = Blended.of(parts_of(30), np.array([1.0, 0.5, 2.0]), np.ones(3))
    added = sum(rows @ part for part, rows in blend.linear_parts(X))
    np.testing.assert_allclose(added, X @ blend, rtol=2e-4, atol=2e-4)


def test_a_part_without_a_positive_score_is_left_out_for_that_user():
    X = sparse.csr_array(np.eye(4, dtype=np.float32)[:2])
    worst = Dense(-np.ones((4, 4), dtype=np.float32))
    some = parts_of(4)[1]
    both = X @ Blended.of((worst, some), np.ones(2), np.ones(2))
    assert np.array_equal(both, X @ Blended.of((some,), np.ones(1), np.ones(1)))


def test_an_infinite_power_keeps_only_the_last_item():
    X = sparse.csr_array(np.array([[1.0, 0.5, 0.25, 0.0, 0.0]], dtype=np.float32))
    last = sparse.csr_array(np.array([[1.0, 1e-30, 1e-30, 0.0, 0.0]], dtype=np.float32))
    part = parts_of(5)[1]
    found = X @ Blended.of((part,), np.ones(1), np.array([np.inf]))
    np.testing.assert_allclose(found, last @ Blended.of((part,), np.ones(1), np.ones(1)), rtol=1e-6)


def test_lists_are_the_best_of_the_scores():
    X = od.synthetic.interactions(40, 60, 600, seed=3).matrix
    blend = Blended.of(parts_of(60), np.array([1.0, 0.5, 2.0]), np.ones(3))
    items, scores = heaps.top_k(blend, X, 10)
    every = np.where(X.toarray() > 0, -np.inf, X @ blend)
    np.testing.assert_allclose(scores, -np.sort(-every, axis=1)[:, :10], rtol=1e-5)
    assert (np.take_along_axis(X.toarray(), items, axis=1) == 0).all()


def test_scaled_columns_are_in_the_linear_parts_too():
    X = od.synthetic.interactions(10, 12, 60, seed=4).matrix
    blend = Blended.of(parts_of(12), np.ones(3)).scaled(np.linspace(0.5, 2.0, 12))
    added = sum(rows @ part for part, rows in blend.linear_parts(X))
    np.testing.assert_allclose(added, X @ blend, rtol=2e-4, atol=2e-4)


def test_what_needs_a_matrix_is_refused():
    blend = Blended.of(parts_of(5), np.ones(3), np.ones(3))
    for call in (blend.toarray, blend.diagonal, lambda: blend.column(np.array([0]), 1)):
        with pytest.raises(od.OffdiagError, match="a blend is no matrix"):
            call()


def test_arrays_of_a_file_give_the_same_blend_or_an_error():
    blend = Blended.of((*parts_of(6), Constant(np.ones(6, np.float32))), np.array([1.0, 0.0, 2.0, 3.0]), np.ones(4))
    arrays = blend.arrays()
    again = Blended.from_arrays(arrays, 6)
    assert [type(part) for part in again.parts] == [type(part) for part in blend.parts]
    assert np.array_equal(again.shares, blend.shares)
    bad = [
        arrays | {"shares": np.array([1.0, -1.0, 2.0, 3.0])},
        arrays | {"shares": np.array([1.0, np.nan, 2.0, 3.0])},
        arrays | {"powers": np.ones(3)},
        arrays | {"powers": np.array([1.0, np.nan, 1.0, 1.0])},
        arrays | {"kinds": arrays["kinds"][:-1]},
        arrays | {"0.B": np.ones((5, 5), np.float32)},
        {name: array for name, array in arrays.items() if name != "1.data"},
        arrays | {"kinds": np.frombuffer(b"nonsense".ljust(24, b"\0") * 4, dtype=np.uint8)},
        arrays | {"kinds": np.full(96, 200, dtype=np.uint8)},
    ]
    for changed in bad:
        with pytest.raises((KeyError, TypeError, ValueError)):
            Blended.from_arrays(changed, 6)


def test_packed_parts_are_read_like_dense_ones():
    X = od.synthetic.interactions(50, 30, 400, seed=5)
    model = od.EASE(l2=5.0).fit(X)
    assert isinstance(model.weights_, Packed)
    packed, dense = (Blended.of((W,), np.ones(1), np.ones(1)) for W in (model.weights_, model.weights_.todense()))
    np.testing.assert_allclose(X.matrix @ packed, X.matrix @ dense, rtol=1e-5)
