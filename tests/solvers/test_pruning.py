"""Which weights a compressed model keeps, against a stable sort of each column, and how they are rounded."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory
from offdiag._kernels import coded_rows
from offdiag.gramian import layout
from offdiag.solvers import pruning
from offdiag.weights import Dense, LowRank, Packed, Sparse, Symmetric, tiles
from tests.fixtures.coded_weights import STORAGES, all_storages, coded, model_of, random_weights


def strength(W, popularity):
    """|W_ji|·popularity_j^¼ in single precision, as documented."""
    boost = ((popularity / popularity.max()) ** 0.25).astype(np.float32)
    return np.abs(W.astype(np.float32)) * boost[:, None]


def expected_kept(W, popularity, keep):
    """A stable sort per column."""
    s = strength(W, popularity)
    kept = np.zeros(W.shape, dtype=bool)
    for i in range(len(W)):
        best = np.argsort(-s[:, i], kind="stable")[:keep]
        kept[best[s[best, i] > 0], i] = True
    return kept


def kinds(m, seed, dtype="float32"):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal(layout.size(m)).astype(dtype)
    scale, diagonal = rng.random((2, m)).astype(dtype)
    U, V, Q = rng.standard_normal((3, m, 3)).astype(dtype)
    return {
        "packed": Packed(C, scale, diagonal),
        "dense": Dense(random_weights(m, seed, 0.7, dtype)),
        "low rank": LowRank(U, V),
        "symmetric": Symmetric(Q, rng.random(3), rng.random(3), 0.5 + scale),
        "sparse": Sparse.of(sparse.csr_array(random_weights(m, seed, 0.4, dtype))),
        "compressed": coded(random_weights(m, seed, 0.4)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(1, 0))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 2, 7, 60])
def test_the_strongest_of_each_column_are_kept(kind, dtype, m, monkeypatch):
    weights = kinds(m, seed=m, dtype=dtype)[kind]
    dense = weights.toarray()
    popularity = np.random.default_rng(1).integers(1, 100, m).astype(np.float64)
    for keep in {1, 3, m}:
        kept = expected_kept(dense, popularity, keep)
        found = od.compress(model_of(weights, popularity), keep=keep, storage="float32")
        W = found.weights_.toarray()
        # products of factors may be rounded differently than in toarray
        np.testing.assert_allclose(W, np.where(kept, dense, 0), rtol=1e-5, atol=1e-6)
        assert np.array_equal(W != 0, kept)
        assert found.compressed_["entries"] == kept.sum()
        monkeypatch.setattr(tiles, "TILE_BYTES", 1)  # one column at a time
        again = od.compress(model_of(weights, popularity), keep=keep, storage="float32").weights_.toarray()
        np.testing.assert_allclose(again, W, rtol=1e-5, atol=1e-6)
        monkeypatch.undo()


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(0, 99), st.sampled_from(STORAGES), st.booleans(), st.sampled_from([None, 4]))
def test_a_budget_is_met_by_one_threshold_for_all(m, seed, storage, tied, keep):
    rng = np.random.default_rng(seed)
    W = rng.integers(-2, 3, (m, m)).astype(np.float32) if tied else random_weights(m, seed)
    popularity = np.ones(m) if tied else rng.integers(1, 50, m).astype(np.float64)
    model = model_of(Dense(W), popularity)
    budget = int(rng.integers(12 * m + 4, 12 * m + 4 + 3 * m * m))
    try:
        found = od.compress(model, max_bytes=budget, storage=storage, keep=keep)
    except od.OffdiagError as error:
        least = int(str(error).split(" bytes as")[0].split()[-1])
        assert least > budget
        assert od.compress(model, max_bytes=least, storage=storage, keep=keep).weights_.nbytes == least
        return
    assert found.weights_.nbytes == found.compressed_["bytes"] <= budget
    s, kept = strength(W, popularity), np.zeros((m, m), dtype=bool)
    rows = np.repeat(np.arange(m), np.diff(found.weights_.indptr))
    columns = np.empty(len(found.weights_.gaps), dtype=np.int64)
    coded_rows.columns_of(found.weights_.indptr, found.weights_.gaps, 0, m, columns)
    kept[rows, columns] = True
    candidates = expected_kept(W, popularity, m if keep is None else keep)
    assert not (kept & ~candidates).any()
    strongest = expected_kept(W, popularity, 1)
    assert kept[strongest].all()
    others = candidates & ~strongest
    if (others & ~kept).any():
        weakest_kept = s[kept & others].min(initial=np.inf)
        strongest_lost = s[others & ~kept].max()
        assert weakest_kept > strongest_lost, "equal strengths stay or go together"
        room = budget - found.weights_.nbytes
        ties = (s[others] == strongest_lost).sum()
        each = 1 + np.dtype(storage).itemsize
        assert room < each * ties + 0.02 * budget + each, "what is left has no room for more"


@all_storages
def test_the_order_of_the_items_does_not_matter(storage):
    W, popularity = random_weights(50), np.random.default_rng(3).integers(1, 99, 50).astype(np.float64)
    order = np.random.default_rng(1).permutation(50)
    one = od.compress(model_of(Dense(W), popularity), max_bytes=4000, storage=storage).weights_
    other = od.compress(model_of(Dense(W[np.ix_(order, order)]), popularity[order]), max_bytes=4000, storage=storage)
    assert np.array_equal(other.weights_.toarray(), one.toarray()[np.ix_(order, order)])


def test_items_by_items_numbers_are_never_held(monkeypatch):
    m = 2000
    weights = Packed(np.random.default_rng(0).standard_normal(layout.size(m)).astype(np.float32), *np.ones((2, m), "f"))
    monkeypatch.setattr(tiles, "TILE_BYTES", 1 << 20)
    od.compress(model_of(weights), max_bytes=1 << 20)  # compiles the loops
    tracemalloc.start()
    od.compress(model_of(weights), max_bytes=1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20 < 4 * m * m // 2
    monkeypatch.setattr(memory, "available", lambda: 2 << 20)
    with pytest.raises(od.NotEnoughMemory, match="compressing 2,000 items needs"):
        od.compress(model_of(weights), max_bytes=1 << 20)


@pytest.mark.parametrize("factor", [2, 0.5])  # more or fewer reach the threshold than were counted
def test_weights_that_change_while_they_are_read_are_noticed(factor, monkeypatch):
    model, blocks = model_of(Dense(random_weights(40))), pruning.Columns.blocks

    def other_numbers_at_last(self, stage):
        for lo, (ptr, rows, values) in blocks(self, stage):
            yield lo, (ptr, rows, values * np.float32(factor) if stage == "storing" else values)

    monkeypatch.setattr(pruning.Columns, "blocks", other_numbers_at_last)
    with pytest.raises(od.OffdiagError, match="changed while they were read"):
        od.compress(model, max_bytes=900)


def test_the_choice_of_gaps_is_the_smallest():
    for density, gap in ((0.03, np.uint8), (0.0005, np.uint16)):
        W = random_weights(3000, density=density)
        columns = pruning.Columns(Sparse.of(sparse.csr_array(W)))
        choice = pruning.within_columns(columns, np.ones(3000), 3000)
        form = pruning.form_of(columns, choice, "int8")
        each = {g: coded(W, "int8", g).nbytes for g in (np.uint8, np.uint16, np.uint32)}
        assert min(each, key=lambda g: each[g]) is gap
        assert form.nbytes == each[gap]


def test_values_are_rounded_no_more_than_their_storage_must():
    W = random_weights(80) * 10.0 ** np.random.default_rng(2).integers(-30, 30, 80)[None, :].astype(np.float32)
    top = np.abs(W).max(axis=0)
    model = model_of(Dense(W))
    found = {s: od.compress(model, keep=80, storage=s).weights_.toarray().astype(np.float64) for s in STORAGES}
    assert np.array_equal(found["float32"], W)
    assert (np.abs(found["float16"] - W) <= np.maximum(np.abs(W) * 2.0**-11, top * 2.0**-25)).all()
    assert (np.abs(found["int8"] - W) <= top / 254 * (1 + 1e-5)).all()
    assert np.allclose(np.abs(found["int8"]).max(axis=0), top, rtol=1e-6)


def test_a_unit_that_is_itself_rounded_turns_no_sign():
    W = np.zeros((40, 40), dtype=np.float32)
    W[1:, 0] = np.linspace(1.2e-43, 1.9e-43, 39)
    found = od.compress(model_of(Dense(W)), keep=40, storage="int8").weights_.toarray()
    assert (found[1:, 0] > 0).all()


@all_storages
@pytest.mark.parametrize("size", [1e-44, 1e-38, 65_505.0, 1e38])
def test_numbers_that_half_precision_cannot_hold_are_scaled(storage, size):
    W = np.array([[0, size], [size / 2, 0]], dtype=np.float32)
    found = od.compress(model_of(Dense(W)), keep=1, storage=storage).weights_.toarray()
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, W, rtol=0.01, atol=3e-45)
