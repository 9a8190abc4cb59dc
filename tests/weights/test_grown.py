"""Weights with items added: the fitted ones are never touched, and histories with new items are folded into them."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.weights import Dense, Grown, Packed, Sparse
from offdiag.weights.grown import grow, mix_columns

RNG = np.random.default_rng(0)
MODELS = {
    "packed": lambda dtype: od.EASE(l2=5.0, dtype=dtype),
    "dense": lambda dtype: od.EASE(l2=5.0, dtype=dtype, storage="dense"),
    "diagonal": lambda dtype: od.DLAE(dropout=0.3, l2=5.0, dtype=dtype),
    "sparse": lambda dtype: od.SparseEDLAE(neighbours=3, dtype=dtype),
    "smoothed": lambda dtype: od.SparseEDLAE(neighbours=3, rank=2, dtype=dtype),
    "low rank": lambda dtype: od.LowRankDLAE(rank=3, l2=5.0, dtype=dtype),
    "symmetric": lambda dtype: od.Spectral(rank=3, dtype=dtype),
}


def weights(kind, m, dtype="float64"):
    X = (np.random.default_rng(m).random((40, m)) < 0.4).astype(float)
    return MODELS[kind](dtype).fit(X).weights_


@pytest.mark.parametrize("kind", MODELS)
def test_mixed_columns_are_those_of_the_dense_twin(kind):
    W = weights(kind, 9)
    R = sparse.csr_array(RNG.random((4, 9)) * (RNG.random((4, 9)) < 0.5))
    np.testing.assert_allclose(mix_columns(W, R), W.toarray() @ R.toarray().T, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_packed_columns_are_mixed_band_by_band(monkeypatch, dtype):
    monkeypatch.setattr("offdiag.weights.grown.BAND_BYTES", 0)
    packed = weights("packed", 75, dtype)
    W = Packed(packed.C, packed.scale, RNG.random(75).astype(dtype))
    R = sparse.csr_array(RNG.random((6, 75)) * (RNG.random((6, 75)) < 0.2))
    found = mix_columns(W, R)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, W.toarray() @ R.toarray().T, atol=1e-5 if dtype == "float32" else 1e-12)
    assert not mix_columns(W, sparse.csr_array((2, 75))).any()


def test_fitted_scores_keep_every_bit_and_new_ones_follow_the_formula():
    base = weights("packed", 7, dtype="float32")
    like, into = sparse.csr_array(RNG.random((2, 7))), RNG.random((7, 2)).astype(np.float32)
    W = grow(base, like, into)
    X = sparse.csr_array((RNG.random((5, 9)) < 0.5 * (np.arange(9) < 7)).astype(np.float32))
    alone = sparse.csr_array(X[:, :7])
    assert (X @ W)[:, :7].tobytes() == (alone @ base).tobytes()
    np.testing.assert_allclose((X @ W)[:, 7:], alone.toarray() @ into, rtol=1e-5)
    one = sparse.csr_array(np.eye(9, dtype=np.float32)[[8]])
    np.testing.assert_allclose(one @ W, like.toarray()[[1]] @ np.hstack([base.toarray(), into]), rtol=1e-5)


def test_selecting_new_items_ends_with_the_fitted_weights_themselves():
    base = weights("dense", 4)
    W = grow(base, sparse.csr_array(np.eye(3, 4)), np.arange(12.0).reshape(4, 3))
    some = W.select(np.array([2, 0]))
    assert np.array_equal(some.into, W.into[:, [2, 0]])
    assert np.array_equal(some.like.toarray(), W.like.toarray()[[2, 0]])
    assert W.select(np.array([], dtype=np.int64)) is base
    assert W.learned is base
    assert base.learned is base


def test_what_a_new_item_is_like_is_strongest_first_and_positive():
    W = grow(Dense(np.eye(4)), sparse.csr_array([[0.1, -0.9, 0.5, 0.0]]), np.zeros((4, 1)))
    assert W.likeness(0) == [(2, 0.5), (0, 0.1)]


def test_properties_of_the_fitted_weights_hold_for_the_grown_ones():
    for base in (weights("packed", 4), weights("smoothed", 4)):
        W = grow(base, sparse.csr_array(np.ones((1, 4))), np.ones((4, 1), dtype=base.dtype))
        assert (W.compound, W.lossy, W.batch_invariant) == (base.compound, base.lossy, base.batch_invariant)
        assert W.C is getattr(base, "C", None)


def test_grown_weights_within_grown_weights_are_refused():
    W = grow(Sparse.of(sparse.eye_array(3)), sparse.csr_array(np.ones((1, 3))), np.ones((3, 1)))
    own = {name: W.arrays()[name] for name in ("indptr", "indices", "data", "into")}
    nested = own | {f"grown.{name}": array for name, array in W.arrays().items()}
    with pytest.raises(ValueError, match="one kind"):
        Grown.from_arrays(nested, 5)
    far = W.arrays() | {"indices": np.array([0, 1, 3], dtype=np.int32)}
    with pytest.raises(ValueError, match="do not exist"):
        Grown.from_arrays(far, 4)
    assert isinstance(weights("packed", 3), Packed)
