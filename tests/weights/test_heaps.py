import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag import ranking
from offdiag.weights import Dense, heaps, tiles
from tests.fixtures.groceries import fitted
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions


@given(interactions(max_items=12), st.integers(1, 14), st.booleans(), st.sampled_from(["packed", "dense"]), st.data())
def test_ranked_lists_equal_a_stable_sort_of_the_dense_scores(X, k, exclude_seen, storage, data):
    model = fitted(X, storage=storage)
    m = X.shape[1]
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    indices, scores = ranking.top_k(model.weights_, X, min(k, m), exclude_seen=exclude_seen, allowed=allowed)
    dense = model.predict(X)
    expected = oracles.top_k(dense, (X.toarray() > 0) & exclude_seen, min(k, m), allowed)
    assert np.array_equal(indices, expected)
    assert np.array_equal(scores[indices >= 0], np.take_along_axis(dense, np.maximum(indices, 0), 1)[indices >= 0])
    assert (scores[indices < 0] == -np.inf).all()


@given(
    interactions(max_items=12), st.integers(1, 14), st.booleans(), st.sampled_from(["packed", "dense"]),
    dtypes, st.data(),
)  # fmt: skip
def test_lists_without_compiled_loops_have_the_same_bits(X, k, exclude_seen, storage, dtype, data):
    W = fitted(X, storage=storage, dtype=dtype).weights_
    m = X.shape[1]
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    words = {"exclude_seen": exclude_seen, "allowed": allowed}
    want = ranking.top_k(W, X, min(k, m), **words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heaps, "sys", SimpleNamespace(modules={}))
        patch.setattr(heaps, "_fill_heaps", None)
        got = ranking.top_k(W, X, min(k, m), **words)
    assert np.array_equal(got[0], want[0])
    assert got[1].tobytes() == want[1].tobytes()


@given(interactions(max_items=10))
def test_no_list_holds_a_seen_item_and_all_unseen_ones_are_listed(X):
    m = X.shape[1]
    found = fitted(X).recommend(X, k=m)
    for u, seen in enumerate(X.toarray() > 0):
        listed = found.indices[u][found.indices[u] >= 0]
        assert not seen[listed].any()
        assert len(set(listed)) == len(listed) == m - seen.sum()


def test_tiles_and_threads_do_not_change_a_list(monkeypatch):
    """Enough users and items for several tiles, passes and threads, against one plain product and sort."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((700, 500)) < 0.05).astype(np.float32))
    model = fitted(X)
    whole = model.recommend(X, k=20)
    expected = oracles.top_k(model.predict(X), X.toarray() > 0, 20)
    assert np.array_equal(whole.indices, expected)
    monkeypatch.setattr(tiles, "TILE_BYTES", 1 << 12)
    monkeypatch.setattr(heaps, "USERS_PER_PASS", 300)
    assert np.array_equal(model.recommend(X, k=20).indices, expected)
    assert np.array_equal(model.predict(X), X @ model.weights_)
    np.testing.assert_allclose(model.predict(X), X @ model.weights_.toarray(), atol=1e-5)


def test_equal_scores_go_to_the_earlier_item():
    W = Dense(np.zeros((300, 300), dtype=np.float32))
    X = sparse.csr_array(np.eye(1, 300, dtype=np.float32))
    indices, _ = ranking.top_k(W, X, 5)
    assert indices.tolist() == [[1, 2, 3, 4, 5]]


def test_a_small_model_is_loaded_and_ranked_without_the_compiler(tmp_path):
    fitted(np.eye(6, dtype=np.float32) + 1).save(tmp_path / "small.od")
    code = "import sys, offdiag as od; od.load(sys.argv[1]).recommend([[0, 2]], k=3); print('numba' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "small.od"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
