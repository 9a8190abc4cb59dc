"""Sparse and compressed W: scores and lists as from the dense matrix, and inconsistent arrays are never read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking
from offdiag._kernels import parallel, topk
from offdiag.weights import KINDS, Compressed, Sparse, tiles
from tests.fixtures.coded_weights import STORAGES, coded, model_of
from tests.laws import oracles
from tests.laws.strategies import interactions

FORMS = ["sparse float32", "sparse float64", *STORAGES]
forms = st.sampled_from(FORMS)
small = interactions(max_users=20, max_items=12)


def weights(m, form, seed=0, density=0.3, gap=np.uint8):
    """W and its dense twin: ties, sums that are exact in any order, and a separate scale for each column."""
    rng = np.random.default_rng(seed)
    scale = 2.0 ** rng.integers(-3, 3, m).astype(np.float32)
    dense = rng.integers(-4, 5, (m, m)) * (rng.random((m, m)) < density) * scale
    if not form.startswith("sparse"):
        return coded(dense.astype(np.float32), form, gap, scale), dense
    found = Sparse.of(sparse.csc_array(dense.astype(form.split()[1])))
    for array in found.arrays().values():
        array.flags.writeable = False  # as in a loaded model
    return found, dense


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


@given(small, forms, st.integers(0, 9))
def test_the_product_is_that_of_the_dense_weights(X, form, seed):
    W, dense = weights(X.shape[1], form, seed)
    assert W.dtype == W.toarray().dtype == ("float64" if form.endswith("64") else "float32")
    assert np.array_equal(W.toarray(), dense)
    assert np.array_equal(X @ W, X.toarray() @ dense)
    assert np.array_equal(X.toarray() @ W, X.toarray() @ dense)
    items = np.arange(X.shape[1])
    for target in items:
        assert np.array_equal(W.column(items, int(target)), dense[:, target])
    assert W.nbytes == sum(array.nbytes for array in W.arrays().values())
    assert W.nnz == (dense != 0).sum()
    assert getattr(W, "storage", form) == form


@given(small, forms, st.booleans(), st.data())
def test_lists_are_those_of_a_stable_sort_of_the_dense_scores(X, form, exclude_seen, data):
    m = X.shape[1]
    W, dense = weights(m, form, seed=X.nnz, density=data.draw(st.sampled_from([0.0, 0.1, 0.5])))
    expected = X.toarray() @ dense
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


@pytest.mark.slow
@pytest.mark.parametrize("users", [1, 3, 700])
@pytest.mark.parametrize(
    ("form", "gap"), [("sparse float32", None), ("int8", np.uint8), ("int8", np.uint16), ("int8", np.uint32)]
)
def test_borders_of_tiles_and_long_steps_do_not_show(monkeypatch, users, form, gap):
    monkeypatch.setattr(tiles, "DENSE_WIDTH", 70)
    monkeypatch.setattr(tiles, "USERS_AT_ONCE", 4)
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((users, 900)) < 0.05).astype(np.float32))
    W, dense = weights(900, form, 1, density=0.003, gap=gap)  # steps of 330 on average, more than 256
    assert (W.nnz > (dense != 0).sum()) == (gap is np.uint8)
    assert [lo for lo, _, _ in W.score_tiles(X)] == list(range(0, 900, 70 * max(1, 4 // users)))
    assert np.array_equal(X @ W, X.toarray() @ dense)
    for found, same in zip(ranking.top_k(W, X, 20), selected(W, X, 20), strict=True):
        assert np.array_equal(found, same)


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_catalogue_takes_memory_by_its_entries_only(compressed):
    """200,000 items, the dense matrix would be 160 GB; steps too long for two bytes are split."""
    m, rng = 200_000, np.random.default_rng(0)
    rows, columns = rng.integers(0, m, (2, 600_000))
    values = rng.integers(1, 9, len(rows)).astype(np.float32)
    dense = sparse.coo_array((values, (rows, columns)), shape=(m, m)).tocsr()
    W = Sparse.of(dense)
    assert W.nbytes < 8_000_000
    if compressed:
        model = od.compress(model_of(W), keep=m, storage="float32")
        W = model.weights_
        assert W.gaps.dtype == np.uint16
        assert len(W.gaps) > dense.nnz == model.compressed_["entries"]
        assert (W.tocsr() != dense).nnz == 0
        W.check()
    X = sparse.csr_array(sparse.random(40, m, density=3e-4, format="csr", dtype=np.float32, random_state=1))
    X.data[:] = 1
    items, scores = selected(W, X, 10)
    assert np.array_equal(items, ranking.top_k(W, X, 10)[0])
    expected = (X @ dense).toarray()
    expected[X.toarray() > 0] = -1
    for u in range(len(items)):
        assert np.array_equal(items[u], np.argsort(-expected[u], kind="stable")[:10])
        assert np.array_equal(scores[u], expected[u][items[u]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "m"), [(0, 5), (3, 1), (200, 3)])
def test_no_users_or_one_item_are_enough(form, n, m):
    X = sparse.csr_array(np.ones((n, m), dtype=np.float32))
    for density in (0.3, 0.0):
        W, dense = weights(m, form, density=density)
        assert np.array_equal(X @ W, np.ones((n, m)) @ dense)
        assert (ranking.top_k(W, X, 1)[0] == -1).all()


# A file may contain anything: the compiled loops would read outside their arrays


def entry(place, value):
    def change(array):
        array[place] = value
        return array

    return change


DAMAGED = [
    ("sparse", "indices", entry(0, 9)),  # a column outside
    ("sparse", "indices", entry(0, -1)),
    ("sparse", "indices", lambda a: a[::-1]),  # columns out of order
    ("sparse", "indptr", entry(1, 10**12)),  # rows that go back
    ("sparse", "indptr", entry(0, 1)),
    ("sparse", "indptr", entry(-1, 1)),
    ("sparse", "indices", lambda a: a.astype(np.int64)),
    ("sparse", "data", lambda a: a.astype(np.int32)),
    ("compressed", "gaps", entry(0, 250)),  # a row that ends outside the catalogue
    ("compressed", "indptr", entry(1, 10**6)),
    ("compressed", "indptr", entry(0, 1)),
    ("compressed", "indptr", entry(-1, 1)),
    ("compressed", "codes", lambda a: np.append(a, a[:1])),
    ("compressed", "codes", lambda a: a.astype(np.int16)),
    ("compressed", "scale", lambda a: a.astype(np.float64)),
    ("compressed", "gaps", lambda a: a.astype(np.int8)),
]


@pytest.mark.parametrize(("kind", "name", "change"), DAMAGED)
def test_arrays_that_do_not_fit_each_other_are_refused(kind, name, change):
    W, _ = weights(9, "sparse float32" if kind == "sparse" else "int8")
    arrays = {key: array.copy() for key, array in W.arrays().items()}
    KINDS[kind].from_arrays(arrays, 9)
    with pytest.raises((ValueError, TypeError)):
        KINDS[kind].from_arrays(arrays | {name: change(arrays[name])}, 9)


def test_every_code_of_half_precision_is_read_as_numpy_reads_it():
    m = 1 << 16
    codes = np.arange(m, dtype=np.uint16).view(np.float16)
    ptr = np.append([0], np.full(m, m)).astype(np.uint32)
    W = Compressed(ptr, np.zeros(m, np.uint8), codes, np.ones(m, np.float32))
    W.check()
    one = sparse.csr_array(([1.0], ([0], [0])), shape=(1, m), dtype=np.float32)
    with np.errstate(invalid="ignore"):
        expected = codes.astype(np.float32)
    assert np.array_equal((one @ W)[0], expected, equal_nan=True)
    for code in (0, 1, 0x3FF, 0x400, 0x7BFF, 0x8001, 0xFBFF):
        assert W.column(np.array([0]), code)[0] == expected[code]


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
