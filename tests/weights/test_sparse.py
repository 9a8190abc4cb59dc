"""Sparse W: scores, lists and reasons as from the dense matrix, and inconsistent arrays are never read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import persist, ranking
from offdiag._kernels import parallel, topk
from offdiag.files import atomic, container
from offdiag.models.recommender import Recommender
from offdiag.weights import Sparse, tiles
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions


def weights(m, dtype="float64", seed=0, density=0.3, signs=True):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((m, m)) * (rng.random((m, m)) < density)
    W = np.round(W * 8) / 8  # ties, and sums that are exact in any order
    found = Sparse.of(sparse.csc_array((W if signs else np.abs(W)).astype(dtype)))
    for array in found.arrays().values():
        array.flags.writeable = False  # as in a loaded model
    return found


def selected(W, X, k, exclude_seen=True, allowed=None):
    """Lists by ``selector``, as ranking.top_k gives them."""
    n, m = X.shape
    allowed = np.ones(m, dtype=np.bool_) if allowed is None else allowed
    scores, items = np.full((n, k), -np.inf, dtype=W.dtype), np.full((n, k), m, dtype=np.int64)
    seen_ptr = X.indptr if exclude_seen else np.zeros_like(X.indptr)
    select = W.selector(X, seen_ptr, allowed, scores, items)
    for first, last in parallel.ranges(n, -(-n // 128)):
        select(first, last)
        topk.sort_heaps(first, last, scores, items)
    items[items == m] = -1
    return items, scores


small = interactions(max_users=20, max_items=12)


@given(small, dtypes, st.integers(0, 9))
def test_the_product_is_that_of_the_dense_weights(X, dtype, seed):
    W = weights(X.shape[1], dtype, seed)
    dense = W.toarray()
    assert W.dtype == dense.dtype == dtype
    assert np.array_equal(X @ W, X.toarray() @ dense)
    assert np.array_equal(X.toarray() @ W, X.toarray() @ dense)
    items = np.arange(X.shape[1])
    for target in items:
        assert np.array_equal(W.column(items, int(target)), dense[:, target])
    assert W.nbytes == sum(array.nbytes for array in W.arrays().values())
    assert W.nnz == (dense != 0).sum()


@given(small, dtypes, st.booleans(), st.booleans(), st.data())
def test_lists_are_those_of_a_stable_sort_of_the_dense_scores(X, dtype, exclude_seen, signs, data):
    m = X.shape[1]
    W = weights(m, dtype, seed=X.nnz, density=data.draw(st.sampled_from([0.0, 0.1, 0.5])), signs=signs)
    expected = X.toarray() @ W.toarray().astype(np.float64)
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    k = data.draw(st.integers(1, m))
    wanted = oracles.top_k(expected, (X.toarray() > 0) & exclude_seen, k, allowed)
    for indices, scores in (
        selected(W, X, k, exclude_seen, allowed),
        ranking.top_k(W, X, k, exclude_seen=exclude_seen, allowed=allowed),
    ):
        assert np.array_equal(indices, wanted)
        real = indices >= 0
        assert np.array_equal(scores[real], np.take_along_axis(expected, np.maximum(indices, 0), 1)[real])
        assert (scores[~real] == -np.inf).all()


@pytest.mark.parametrize("users", [1, 3, 700])
def test_borders_of_tiles_do_not_show(monkeypatch, users):
    monkeypatch.setattr(tiles, "DENSE_WIDTH", 70)
    monkeypatch.setattr(tiles, "USERS_AT_ONCE", 4)
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((users, 500)) < 0.05).astype(np.float32))
    W = weights(500, "float32", density=0.02)
    assert [lo for lo, _, _ in W.score_tiles(X)] == list(range(0, 500, 70 * max(1, 4 // users)))
    assert np.array_equal(X @ W, X.toarray() @ W.toarray())
    items, scores = ranking.top_k(W, X, 20)
    mine, same = selected(W, X, 20)
    assert np.array_equal(items, mine)
    assert np.array_equal(scores, same)


@pytest.mark.slow
def test_a_large_catalogue_takes_memory_by_its_weights_only():
    """200,000 items: the dense matrix would be 160 GB. Lists agree with scipy's product for each user."""
    m, rng = 200_000, np.random.default_rng(0)
    rows, columns = rng.integers(0, m, (2, 2_000_000))
    values = rng.integers(1, 9, len(rows)).astype(np.float32)
    W = Sparse.of(sparse.coo_array((values, (rows, columns)), shape=(m, m)))
    assert W.nbytes < 20_000_000
    X = sparse.csr_array(sparse.random(40, m, density=3e-4, format="csr", dtype=np.float32, random_state=1))
    X.data[:] = 1
    items, scores = selected(W, X, 10)
    assert np.array_equal(items, ranking.top_k(W, X, 10)[0])
    exact = (X @ W.tocsr()).toarray()
    exact[X.toarray() > 0] = -1
    for u in range(len(items)):
        assert np.array_equal(items[u], np.argsort(-exact[u], kind="stable")[:10])
        assert np.array_equal(scores[u], exact[u][items[u]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m"), [(0, 5), (3, 1), (200, 3)])
def test_no_user_and_one_item_will_do(dtype, n, m):
    X = sparse.csr_array(np.ones((n, m), dtype=np.float32))
    W = weights(m, dtype)
    assert np.array_equal(X @ W, np.ones((n, m)) @ W.toarray())
    assert (ranking.top_k(W, X, 1)[0] == -1).all()
    nothing = Sparse.of(sparse.csr_array((m, m), dtype=dtype))
    assert nothing.nnz == 0
    assert np.array_equal(X @ nothing, np.zeros((n, m)))


def test_scipy_matrices_are_put_in_order_and_must_be_square():
    given = sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 3.0]), np.array([2, 0, 1, 2]), np.array([0, 3, 3, 4])), shape=(3, 3)
    )
    W = Sparse.of(given)
    assert W.indices.tolist() == [0, 2, 2]
    assert W.nnz == 3
    assert given.indices.tolist() == [2, 0, 1, 2], "the caller's matrix is left alone"
    with pytest.raises(od.OffdiagError, match="items × items, received 2 × 3"):
        Sparse.of(sparse.csr_array((2, 3)))


def test_reasons_and_neighbours_come_from_the_stored_weights():
    W = weights(9, seed=3)
    model = Recommender()
    model.weights_, model.item_ids_, model.popularity_ = W, np.arange(9), np.ones(9)
    dense = W.toarray()
    told = model.explain([[1, 4, 7]], 2)
    assert told.score == dense[[1, 4, 7], 2].sum()
    near = model.similar([4], k=3)
    order = [j for j in np.argsort(-dense[4], kind="stable") if j != 4][:3]
    assert near.indices[0].tolist() == order


# A file may contain anything


def fitted():
    X = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0]], dtype=np.float32)
    return od.ItemKNN(neighbours=2).fit(X)


def broken(change):
    """The arrays of a good model, changed."""
    arrays = {name: array.copy() for name, array in fitted().weights_.arrays().items()}
    change(arrays)
    return arrays


def swap(arrays):
    lo = int(arrays["indptr"][np.flatnonzero(np.diff(arrays["indptr"]) > 1)[0]])
    arrays["indices"][[lo, lo + 1]] = arrays["indices"][[lo + 1, lo]]


BROKEN = {
    "a column outside": lambda a: a["indices"].__setitem__(0, 4),
    "a negative column": lambda a: a["indices"].__setitem__(0, -1),
    "columns out of order": swap,
    "rows that go back": lambda a: a["indptr"].__setitem__(1, 10**12),
    "a first row not at 0": lambda a: a["indptr"].__setitem__(0, 1),
    "rows that end early": lambda a: a["indptr"].__setitem__(-1, 1),
    "too few values": lambda a: a.__setitem__("data", a["data"][:-1]),
    "too few rows": lambda a: a.__setitem__("indptr", a["indptr"][:-1]),
    "other types": lambda a: a.__setitem__("indices", a["indices"].astype(np.int64)),
    "whole numbers": lambda a: a.__setitem__("data", a["data"].astype(np.int32)),
    "an array too many": lambda a: a.__setitem__("more", a["data"]),
    "a table": lambda a: a.__setitem__("data", a["data"][:, None]),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_with_weights_that_do_not_fit_is_refused(change, tmp_path, monkeypatch):
    """The hashes are correct, the numbers are not: the compiled loops would read outside their arrays."""
    model = fitted()
    about, tensors = persist._contents(model, None)
    arrays = broken(change)
    tensors = {name: array for name, array in tensors.items() if not name.startswith("weights.")}
    tensors |= {f"weights.{name}": array for name, array in arrays.items()}
    path = tmp_path / "model.od"
    with atomic.replacing(path) as file:
        container.write(file, about, dict(sorted(tensors.items(), key=lambda pair: -pair[1].dtype.itemsize)), None)
    with pytest.raises(od.OffdiagError, match="makes no sense"):
        od.load(path)


def test_a_good_file_is_mapped_and_ranks_alike(tmp_path):
    model = fitted()
    model.save(tmp_path / "model.od")
    again = od.load(tmp_path / "model.od")
    assert not again.weights_.data.flags.writeable
    assert np.array_equal(again.weights_.toarray(), model.weights_.toarray())
    assert np.array_equal(again.recommend([[0]], k=2).items, model.recommend([[0]], k=2).items)
