"""Sparse columns with a smooth part, against dense NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory
from offdiag.weights import Smoothed, Sparse, tiles
from tests.fixtures.sparse_catalogue import example, many_tastes, normalised, same_bytes
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions

WORDS = {"neighbours": 8, "dropout": 0.4, "l2": 3.0, "user_power": 0.5}


def smoothed(m, dtype="float64", seed=0, rank=3):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((m, m)) * (rng.random((m, m)) < 0.3)
    np.fill_diagonal(B, 0)
    Q, said, heard = rng.standard_normal((m, min(rank, m))), 0.5 + rng.random(m), rng.random(m)
    found = Smoothed(Sparse.of(sparse.csr_array(B.astype(dtype))), *(a.astype(dtype) for a in (Q, said, heard)))
    for array in found.arrays().values():
        array.flags.writeable = False  # as in a loaded model
    W = said[:, None] * (Q @ Q.T) * heard
    np.fill_diagonal(W, 0)
    return found, W + B


@given(st.integers(1, 12), dtypes, st.integers(0, 9))
def test_the_dense_array_is_both_parts_without_a_diagonal(m, dtype, seed):
    W, dense = smoothed(m, dtype, seed)
    np.testing.assert_allclose(W.toarray(), dense, rtol=0, atol=oracles.TOLERANCE[dtype] * 10)
    assert not np.diag(W.toarray()).any()
    assert all(W.column(np.array([i]), i)[0] == 0 for i in range(m))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_tiles_give_the_same_scores(monkeypatch, dtype):
    X = many_tastes(2, 300, 500)
    W, dense = smoothed(500, dtype)
    whole = X @ W
    np.testing.assert_allclose(whole, X.toarray() @ dense, rtol=0, atol=oracles.TOLERANCE[dtype] * 100)
    monkeypatch.setattr(tiles, "TILE_BYTES", 1)
    assert len(list(W.score_tiles(X))) == 8
    np.testing.assert_allclose(X @ W, whole, rtol=0, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_model_is_its_sparse_part_plus_the_filter(dtype):
    X = example()
    plain = od.SparseEDLAE(**WORDS, dtype=dtype).fit(X)
    model = od.SparseEDLAE(**WORDS, dtype=dtype, rank=6, smooth=0.7).fit(X)
    assert plain.weights_.kind == "sparse"
    assert model.weights_.kind == "smoothed"
    _, A, scale = normalised(X)
    Q = np.linalg.eigh(A)[1][:, :-7:-1]
    smooth = 0.7 * scale[:, None] * (Q @ Q.T) / scale
    np.fill_diagonal(smooth, 0)
    expected = plain.weights_.toarray() + smooth
    np.testing.assert_allclose(model.weights_.toarray(), expected, rtol=0, atol=oracles.TOLERANCE[dtype])
    np.testing.assert_allclose(model.predict(X), X.toarray() @ expected, rtol=0, atol=10 * oracles.TOLERANCE[dtype])
    spectral = od.Spectral(rank=6, shrink="hard", item_power=1.0, user_power=1.0, dtype=dtype).fit(X)
    np.testing.assert_allclose(0.7 * spectral.weights_.toarray() - np.diag(0.7 * np.diag(spectral.weights_.toarray())),
                               smooth, rtol=0, atol=5e-3)  # fmt: skip
    assert model.objective_ == plain.objective_
    assert model.settings_ == plain.settings_ | {"rank": 6, "smooth": 0.7}


def test_without_a_rank_nothing_changes():
    X = example()
    assert same_bytes(od.SparseEDLAE(**WORDS, rank=0, smooth=3.0).fit(X), od.SparseEDLAE(**WORDS).fit(X))
    assert same_bytes(od.SparseEDLAE(**WORDS, rank=np.int64(0)).fit(X), od.SparseEDLAE(**WORDS).fit(X))


def test_a_smooth_part_reaches_items_that_no_neighbour_leads_to():
    X = example()
    plain, model = (od.SparseEDLAE(**WORDS | {"neighbours": 1}, rank=rank).fit(X) for rank in (0, 10))
    lonely = (X[:20] @ plain.weights_ == 0) & (X[:20].toarray() == 0)
    lonely[:, X.sum(axis=0) == 0] = False
    lonely[X[:20].sum(axis=1) == 0] = False
    assert lonely.any()
    assert (np.abs(X[:20] @ model.weights_)[lonely] > 1e-6).mean() > 0.9


@settings(max_examples=25)
@given(interactions(values="counts"), st.integers(1, 12), dtypes)
def test_any_data_gives_a_model_that_never_predicts_an_item_from_itself(X, rank, dtype):
    model = od.SparseEDLAE(**WORDS | {"l2": 30.0}, rank=rank, dtype=dtype).fit(X)
    W = model.weights_.toarray()
    assert np.isfinite(W).all()
    assert not np.diag(W).any()
    assert not W[model.popularity_ == 0].any()
    assert not W[:, model.popularity_ == 0].any()
    assert 1 <= model.settings_["rank"] == model.weights_.Q.shape[1] <= rank
    assert model.recommend(X, k=3).indices.shape[0] == X.shape[0]


def test_the_budget_holds_for_both_parts_together():
    X = example()
    words = WORDS | {"neighbours": 30, "rank": 5}
    free = od.SparseEDLAE(**words).fit(X).weights_.nbytes
    small = od.SparseEDLAE(**words, max_bytes=free // 2).fit(X).weights_
    assert 0.95 * (free // 2) < small.nbytes <= free // 2
    with pytest.raises(od.OffdiagError, match="max_bytes must be at least 3,2"):
        od.SparseEDLAE(**words, max_bytes=2_000).fit(X)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Q", lambda Q: Q[:, :0]),
        ("Q", lambda Q: np.repeat(Q, 40, axis=1)),
        ("Q", lambda Q: Q.astype(np.float64)),
        ("heard", lambda a: a.astype(np.int32)),
        ("indices", lambda a: a + np.int32(1000)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, change):
    arrays = smoothed(12, "float32")[0].arrays()
    assert isinstance(Smoothed.from_arrays(arrays, 12), Smoothed)
    with pytest.raises((ValueError, TypeError)):
        Smoothed.from_arrays(arrays | {name: change(arrays[name])}, 12)


def test_a_smooth_part_is_refused_where_it_cannot_be_learned(monkeypatch):
    X = example()
    with pytest.raises(od.OffdiagError, match="not learned from a Gram; use fit with data, or rank=0"):
        od.SparseEDLAE(l2=3.0, rank=2).fit_gram(od.gram(X))
    with pytest.raises(od.OffdiagError, match="smoothed weights; it cannot be compressed"):
        od.compress(od.SparseEDLAE(**WORDS, rank=2).fit(X))
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    od.SparseEDLAE(neighbours=5, l2=3.0)._check_memory(90, 0, od.SparseEDLAE(neighbours=5)._valid_settings())
    with pytest.raises(od.NotEnoughMemory, match="smaller rank"):
        od.SparseEDLAE(neighbours=5, rank=80, l2=3.0).fit(X)
