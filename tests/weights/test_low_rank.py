"""Weights W = U Vᵀ: scores, lists, reasons and neighbours as from the dense product, which is never formed."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking, weights
from offdiag.weights import Dense, LowRank, heaps, tiles
from tests.fixtures.coded_weights import model_of
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions


def factors(m, rank, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((2, m, rank)).astype(dtype)
    for array in (U, V):
        array.flags.writeable = False  # as in a loaded model
    return LowRank(U, V)


def exact(W):
    """The twin: the dense product in float64."""
    return W.U.astype(np.float64) @ W.V.astype(np.float64).T


def close(a, b, dtype):
    assert a.dtype == dtype
    np.testing.assert_allclose(a, b, rtol=0, atol=oracles.TOLERANCE[dtype] * max(1.0, np.abs(b).max(initial=0)))


def histories(n, m, seed=0, density=0.05):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < density) * rng.integers(1, 6, (n, m))
    X[::50] = 0  # users without a history, also on either side of a border
    return sparse.csr_array(X.astype(np.float32))


small = interactions(max_users=20, max_items=12, values="ratings")


# Scores


@given(small, st.integers(1, 14), dtypes, st.integers(0, 9))
def test_a_history_is_encoded_by_its_product_with_the_encoder(X, rank, dtype, seed):
    W = factors(X.shape[1], rank, dtype, seed)
    close(W.toarray(), exact(W), dtype)
    close(W.encode(X), X.toarray() @ W.U.astype(np.float64), dtype)
    assert not (X @ W)[np.diff(X.indptr) == 0].any(), "no history, no score"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("tile_bytes", "users_per_pass"), [(96 << 20, 16_384), (1, 16_384), (300 * 70 * 4, 300)])
def test_borders_of_tiles_and_passes_do_not_show(monkeypatch, dtype, tile_bytes, users_per_pass):
    monkeypatch.setattr(tiles, "TILE_BYTES", tile_bytes)
    monkeypatch.setattr(heaps, "USERS_PER_PASS", users_per_pass)
    X, W = histories(700, 500), factors(500, 7, dtype)
    expected = X.toarray() @ exact(W)
    close(X @ W, expected, dtype)
    indices, scores = ranking.top_k(W, X, 20)
    assert [lo for lo, _, _ in W.score_tiles(X)] == list(range(0, 500, 64 if tile_bytes < 96 << 20 else 500))
    wanted = oracles.top_k(expected, X.toarray() > 0, 20)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, wanted, 1), rtol=1e-3, atol=1e-3)
    agree = indices == wanted  # neighbours that float32 cannot distinguish may change places
    assert agree.mean() > (0.999 if dtype == "float32" else 0.9999999)
    assert not (X.toarray()[np.arange(700)[:, None], indices] > 0).any()


def test_the_same_call_gives_the_same_bits():
    X, W = histories(300, 90, density=0.3), factors(90, 33, "float32")
    (items, scores), (again, same) = (ranking.top_k(W, X, 10) for _ in range(2))
    assert items.tobytes() == again.tobytes()
    assert scores.tobytes() == same.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m", "rank"), [(0, 5, 2), (3, 1, 1), (1, 5, 5), (200, 3, 1), (2, 4, 9)])
def test_no_users_one_item_and_any_rank_are_enough(dtype, n, m, rank):
    X = sparse.csr_array(np.ones((n, m), dtype=np.float32))
    W = factors(m, rank, dtype)
    close(X @ W, np.ones((n, m)) @ exact(W), dtype)
    indices, _ = ranking.top_k(W, X, m, exclude_seen=False)
    assert indices.shape == (n, m)
    assert (np.sort(indices, axis=1) == np.arange(m)).all()
    assert (ranking.top_k(W, X, m)[0] == -1).all(), "everything has been seen"


@pytest.mark.parametrize("shape", [(1, 3), (1, 9), (4,)])
def test_a_product_with_another_width_is_refused(shape):
    with pytest.raises(od.OffdiagError, match="users × 4 items"):
        np.ones(shape) @ factors(4, 2)


def test_no_square_of_the_catalogue_is_ever_held():
    m = 20_000
    W, X = factors(m, 3, "float32"), histories(40, m, density=0.001)
    ranking.top_k(W, X, 10)  # what is compiled or imported once is not measured
    ranking.similar(W, np.arange(m), [3, 5], 10, space="encoder")
    tracemalloc.start()
    ranking.top_k(W, X, 10)
    ranking.explain(W, np.arange(m), X[[1]], 7)
    ranking.similar(W, np.arange(m), [3, 5], 10, space="encoder")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6, "40 users × 20,000 items in float32 are 3.2 MB, items × items would be 1.6 GB"


def test_its_size_is_that_of_the_two_embeddings():
    W = factors(50, 4, "float32")
    assert W.nbytes == 2 * 50 * 4 * 4
    assert W.shape == (50, 50)
    assert weights.KINDS["low_rank"] is LowRank
    assert {name: array is getattr(W, name) for name, array in W.arrays().items()} == {"U": True, "V": True}


# Neighbours


def cosines(E):
    E = E.astype(np.float64)
    norms = np.linalg.norm(E, axis=1)
    E = E / np.where(norms > 0, norms, 1)[:, None]
    return E @ E.T


@pytest.mark.parametrize("space", ["encoder", "decoder"])
@given(m=st.integers(2, 30), rank=st.integers(2, 5), dtype=dtypes, size=st.sampled_from([1e-30, 1.0, 1e15]))
def test_similar_items_have_the_largest_cosines_in_either_space(space, m, rank, dtype, size):
    W = factors(m, rank, dtype, seed=m)
    W = LowRank(*(array * np.array(size, dtype) for array in (W.U, W.V)))
    W.U[m // 2] = W.V[-1] = 0  # not learned
    E = W.U if space == "encoder" else W.V
    expected = cosines(E / size)
    asked = np.array([0, m - 1, m // 2])
    found = model_of(W).similar(asked, k=m, space=space)
    assert found.indices.shape == (3, m - 1)
    assert np.isfinite(found.scores).all()
    for item, row, scores in zip(asked, found.indices, found.scores, strict=True):
        assert sorted(row) == [i for i in range(m) if i != item], "all but itself"
        close(scores, expected[item, row], dtype)
        close(scores, np.sort(np.delete(expected[item], item))[::-1], dtype)


def test_similar_by_score_is_a_list_for_a_history_of_one_item():
    W = factors(30, 4)
    model = model_of(W)
    found, same = model.similar([3, 8], k=5), model.similar([3, 8], k=5, space="score")
    assert np.array_equal(found.indices, model.recommend([[3], [8]], k=5).indices)
    assert np.array_equal(found.indices, same.indices)
    others = {space: model.similar([3, 8], k=5, space=space).indices.tolist() for space in ("encoder", "decoder")}
    assert len({str(lists) for lists in (found.indices.tolist(), *others.values())}) == 3


def test_items_without_users_have_similarity_zero():
    W = LowRank(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32))
    found = model_of(W).similar(2, k=3, space="encoder")
    assert found.scores.tolist() == [[0, 0, 0]]
    assert found.indices.tolist() == [[0, 1, 3]]


def test_models_without_embeddings_name_those_that_have_them():
    W = factors(4, 2)
    dense = model_of(Dense(exact(W)))
    for model, words in ((dense, "dense weights"), (od.Popularity().fit(np.eye(4)), "constant weights")):
        with pytest.raises(od.OffdiagError, match=f"LowRankDLAE, .* and Spectral .* {words}"):
            model.similar(1, space="encoder")
    for space in ("both", None, ["encoder"]):
        with pytest.raises(od.OffdiagError, match="space must be one of 'score', 'encoder', 'decoder', received"):
            model_of(W).similar(1, space=space)
    with pytest.raises(od.OffdiagError, match="no item 9"):
        model_of(W).similar(9, space="decoder")


def test_a_nearest_neighbour_index_finds_the_recommended_items():
    """Largest inner products as nearest neighbours, by one more coordinate that makes all decoder rows equally long."""
    from sklearn.neighbors import NearestNeighbors

    X, W = histories(60, 200), factors(200, 8)
    X = X[np.diff(X.indptr) > 0]
    squares = (W.V**2).sum(axis=1)
    index = NearestNeighbors(n_neighbors=10).fit(np.column_stack([W.V, np.sqrt(squares.max() - squares)]))
    asked = X @ W.U
    found = index.kneighbors(np.column_stack([asked, np.zeros(len(asked))]), return_distance=False)
    assert np.array_equal(found, model_of(W).recommend(X, k=10, exclude_seen=False).indices)
