"""Every shape of W answers every question as its dense twin does, in both precisions, and can be read back."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking
from offdiag.gramian import layout
from offdiag.weights import (
    KINDS,
    Blended,
    Compressed,
    Constant,
    Dense,
    Grouped,
    ImplicitFactors,
    LowRank,
    Network,
    Packed,
    SelfAttention,
    Signed,
    Smoothed,
    Sparse,
    Symmetric,
    Weights,
)
from offdiag.weights.attention import shapes
from offdiag.weights.grown import grow
from offdiag.weights.tiles import Tiled
from tests.fixtures.coded_weights import coded, model_of
from tests.laws import oracles
from tests.laws.strategies import dtypes


def matrix(m, rng, dtype, empty, density=0.5):
    """Some entries in eighths; where ``empty``, a row and a column of zeros."""
    W = np.round(8 * rng.standard_normal((m, m)) * (rng.random((m, m)) < density)) / 8
    if empty:
        W[rng.integers(m)] = W[:, rng.integers(m)] = 0
    return W.astype(dtype)


def packed(m, rng, dtype, empty):
    scale, own = rng.standard_normal((2, m)).astype(dtype)
    if empty:
        scale[0] = own[0] = 0  # a column of zeros
    return Packed(rng.standard_normal(layout.size(m)).astype(dtype), scale, own)


def grouped(m, rng, dtype, empty):
    group = rng.integers(0, max(m // 2, 1), m)
    _, group = np.unique(group, return_inverse=True)
    blocks = [(block + block.T).reshape(-1) for block in (rng.random((s, s)) for s in np.bincount(group))]
    scale = rng.standard_normal(m)
    if empty:
        scale[0] = 0
    numbers = (rng.standard_normal(layout.size(m)), scale, np.concatenate(blocks))
    C, scale, blocks = (part.astype(dtype) for part in numbers)
    return Grouped(C, scale, group.astype(np.int64), blocks)


def signed(m, rng, dtype, empty):
    disliked = np.flatnonzero(rng.random(m) < 0.5)
    B = rng.standard_normal((m + len(disliked), m))
    if empty:
        B[0] = B[:, -1] = 0
    return Signed(B.astype(dtype), disliked)


def low_rank(m, rng, dtype, empty):
    U, V = rng.standard_normal((2, m, min(3, m))).astype(dtype)
    if empty:
        U[0] = V[-1] = 0
    return LowRank(U, V)


def symmetric(m, rng, dtype, empty):
    Q = rng.standard_normal((m, min(3, m))).astype(dtype)
    if empty:
        Q[0] = 0
    sigma, shrink = rng.random((2, Q.shape[1]))
    return Symmetric(Q, sigma, shrink, (0.5 + rng.random(m)).astype(dtype))


def stored(m, rng, dtype, empty):
    return Sparse.of(sparse.csr_array(matrix(m, rng, dtype, empty, density=0.3)))


def smoothed(m, rng, dtype, empty):
    Q, said, heard = rng.standard_normal((m, min(2, m))), 0.5 + rng.random(m), rng.random(m)
    if empty:
        heard[0] = said[-1] = 0
    return Smoothed(stored(m, rng, dtype, empty), *(array.astype(dtype) for array in (Q, said, heard)))


def grown(m, rng, dtype, empty):
    n = min(m - 1, 2)
    base = MAKE[rng.choice(["packed", "dense", "low_rank", "symmetric"])](m - n, rng, dtype, empty)
    like = sparse.csr_array(rng.random((n, m - n)) * (rng.random((n, m - n)) < 0.5) * (not empty))
    return grow(base, like, rng.standard_normal((m - n, n)).astype(dtype))


def network(m, rng, dtype, empty):
    encoder, decoder = rng.standard_normal((2, m, 4)).astype(dtype)
    layers = ((encoder, rng.random(4).astype(dtype)), (decoder, rng.random(m).astype(dtype)))
    return Network(layers, ("tanh",), True)


def attention(m, rng, dtype, empty):
    parts = {name: rng.standard_normal(shape) for name, shape in shapes(m, 4, 5, 2).items()}
    if empty:
        parts["items"][0] = 0
    return SelfAttention({name: part.astype(dtype) for name, part in parts.items()})


MAKE = {
    "packed": packed,
    "grouped": grouped,
    "signed": signed,
    "dense": lambda m, rng, dtype, empty: Dense(matrix(m, rng, dtype, empty)),
    "low_rank": low_rank,
    "symmetric": symmetric,
    "sparse": stored,
    "smoothed": smoothed,
    "compressed": lambda m, rng, dtype, empty: coded(matrix(m, rng, "float32", empty, density=0.3)),
    "blended": lambda m, rng, dtype, empty: Blended.of(
        [Dense(matrix(m, rng, dtype, empty)), low_rank(m, rng, dtype, empty)], np.array([1.0, 0.5])
    ),
    "grown": grown,
    "constant": lambda m, rng, dtype, empty: Constant(rng.random(m).astype(dtype)),
    "network": network,
    "self_attention": attention,
    "implicit_factors": lambda m, rng, dtype, empty: ImplicitFactors(
        rng.standard_normal((m, min(3, m))).astype(dtype), 2.0, 0.5, 1.0, float(m)
    ),
}
LINEAR = [kind for kind in MAKE if KINDS[kind].linear]


def weights(kind, m, seed=0, dtype="float64", empty=False):
    found = MAKE[kind](m, np.random.default_rng(seed), dtype, empty)
    for array in found.arrays().values():
        array.flags.writeable = False  # as in a loaded model
    return found


def histories(m, seed, n=6):
    rng = np.random.default_rng([seed, 1])
    X = (rng.random((n, m)) < 0.5) * rng.integers(1, 4, (n, m))
    X[0] = 0  # a user without a history
    return sparse.csr_array(X.astype(np.float32))


def assert_close(found, expected, dtype):
    assert found.dtype == dtype
    size = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=10 * oracles.TOLERANCE[str(dtype)] * size)


cases = {
    "m": st.integers(1, 9),
    "seed": st.integers(0, 2**32 - 1),
    "dtype": dtypes,
    "empty": st.booleans(),
}
every_kind = pytest.mark.parametrize("kind", MAKE)
linear_kinds = pytest.mark.parametrize("kind", LINEAR)


def test_every_kind_that_a_file_can_name_is_tested_here():
    assert KINDS.keys() == MAKE.keys()
    assert all(issubclass(shape, Tiled) and not shape.__abstractmethods__ for shape in KINDS.values())
    asked = {name for name in vars(Weights) if not name.startswith("_")} | set(Weights.__annotations__)
    assert all(hasattr(shape, name) for shape in KINDS.values() for name in asked)


@linear_kinds
@given(**cases)
def test_scores_columns_and_diagonal_are_those_of_the_dense_twin(kind, m, seed, dtype, empty):
    W = weights(kind, m, seed, dtype, empty)
    B, X = W.toarray(), histories(m, seed)
    assert W.shape == B.shape == (m, m)
    assert_close(B, B, W.dtype)
    for rows in (X, X.toarray()):
        assert_close(rows @ W, X.toarray() @ B.astype(np.float64), W.dtype)
    assert_close(W.diagonal(), np.diag(B), W.dtype)
    assert_close(W.tocsr().toarray(), B, W.dtype)
    for target in range(m):
        assert_close(W.column(np.arange(0, m, 2), target), B[::2, target], W.dtype)
    lo, hi = sorted((seed % (m + 1), seed // 7 % (m + 1)))
    block, given = W.columns(lo, hi), np.full((hi - lo, m), np.nan, dtype=W.dtype)
    assert_close(block, B[:, lo:hi].T, W.dtype)
    assert block.flags.c_contiguous
    assert W.columns(lo, hi, given).tobytes() == given.tobytes() == block.tobytes()
    assert W.nnz is None or W.nnz >= np.count_nonzero(B)
    if (U := W.embedding("encoder")) is not None:
        assert_close(U @ W.embedding("decoder").T, B, W.dtype)


@every_kind
@given(**cases)
def test_scaled_weights_give_scaled_scores(kind, m, seed, dtype, empty):
    W, X = weights(kind, m, seed, dtype, empty), histories(m, seed)
    columns = np.random.default_rng(seed).random(m)
    columns[0] = 0
    if kind in ("implicit_factors", "self_attention"):
        with pytest.raises(od.OffdiagError, match="cannot be scaled"):
            W.scaled(columns)
        return
    before = X @ W
    scaled = W.scaled(columns)
    assert_close(X @ scaled, before * columns, W.dtype)
    assert (X @ W).tobytes() == before.tobytes()
    if W.linear:
        assert_close(scaled.toarray(), W.toarray() * columns, W.dtype)


@every_kind
@given(**cases)
def test_a_list_is_a_stable_sort_of_the_scores(kind, m, seed, dtype, empty):
    W, X = weights(kind, m, seed, dtype, empty), histories(m, seed)
    scores = X @ W
    found, best = ranking.top_k(W, X, m)
    values = np.where(found >= 0, np.take_along_axis(scores, np.maximum(found, 0), 1), -np.inf)
    assert np.array_equal(best, values)
    assert np.array_equal(found, oracles.top_k(scores, X.toarray() > 0, m))


@linear_kinds
@given(**cases)
def test_contributions_sum_to_the_score_exactly_in_any_order(kind, m, seed, dtype, empty):
    W, X = weights(kind, m, seed, dtype, empty), histories(m, seed)
    assume(X.nnz)
    user, item = int(np.argmax(np.diff(X.indptr))), seed % m
    reason = model_of(W).explain(X[[user]], item)
    parts = reason.contributions
    assert parts.sum() == reason.score == sum(parts.tolist()) == sum(sorted(parts.tolist()))
    added = X.toarray()[user].astype(np.float64)[:, None] * W.toarray()
    close = {"rtol": 0, "atol": 10 * oracles.TOLERANCE[str(W.dtype)] * max(1.0, np.abs(added).max())}
    np.testing.assert_allclose(parts, added[reason.items, item], **close)
    np.testing.assert_allclose(reason.score, (X[[user]] @ W)[0, item], **close)


@every_kind
@given(**cases)
def test_scores_that_claim_it_have_the_same_bits_in_any_batch(kind, m, seed, dtype, empty):
    W, X = weights(kind, m, seed, dtype, empty), histories(m, seed, n=40)
    alone = np.concatenate([X[[u]] @ W for u in range(40)])
    if W.batch_invariant:
        assert (X @ W).tobytes() == alone.tobytes()
    else:
        assert_close(X @ W, alone, W.dtype)


@every_kind
@given(**cases)
def test_weights_are_restored_from_their_arrays(kind, m, seed, dtype, empty):
    W, X = weights(kind, m, seed, dtype, empty), histories(m, seed)
    arrays = W.arrays()
    again = KINDS[kind].from_arrays(arrays, m)
    assert type(again) is type(W)
    assert all(array.tobytes() == arrays[name].tobytes() for name, array in again.arrays().items())
    assert (X @ again).tobytes() == (X @ W).tobytes()
    assert sum(array.nbytes for array in arrays.values()) - 32 <= W.nbytes <= sum(a.nbytes for a in arrays.values())


@every_kind
def test_arrays_that_do_not_fit_are_refused_by_the_shape_itself(kind):
    arrays = dict(weights(kind, 5, dtype="float32").arrays())
    for m in (4, 6):
        with pytest.raises((ValueError, TypeError)):
            KINDS[kind].from_arrays(arrays, m)
    with pytest.raises((ValueError, TypeError, KeyError)):
        KINDS[kind].from_arrays(arrays | {"more": np.ones(5, np.float32)}, 5)
    for name, array in arrays.items():
        for wrong in (array[:-1], array[None], array.astype(np.complex64), np.zeros((), array.dtype)):
            with pytest.raises((ValueError, TypeError, IndexError)):
                KINDS[kind].from_arrays(arrays | {name: wrong}, 5)
        with pytest.raises((ValueError, TypeError, KeyError)):
            KINDS[kind].from_arrays({key: value for key, value in arrays.items() if key != name}, 5)


@pytest.mark.parametrize("kind", ["network", "implicit_factors", "self_attention", "blended"])
def test_shapes_without_a_matrix_say_so(kind):
    W = weights(kind, 4)
    for ask in (W.toarray, W.tocsr, W.diagonal, lambda: W.columns(0, 2), lambda: W.column(np.arange(2), 1)):
        with pytest.raises(od.OffdiagError, match="no matrix"):
            ask()


def test_constant_weights_have_no_pairs():
    W = weights("constant", 4)
    assert not W.toarray().any()
    assert not W.columns(1, 3).any()
    assert not W.diagonal().any()


def test_only_compressed_weights_are_lossy_and_only_sums_compound():
    assert [kind for kind in MAKE if weights(kind, 4).lossy] == [Compressed.kind]
    assert {kind for kind in MAKE if weights(kind, 4).compound} == {Signed.kind, Smoothed.kind}


@pytest.mark.parametrize("storage", ["packed", "dense"])
@pytest.mark.parametrize("shape", [(1, 3), (1, 9), (4,)])
def test_a_product_with_weights_of_another_width_is_refused(storage, shape):
    model = od.EDLAE(dropout=0.3, l2=1.0, storage=storage).fit(np.eye(4))
    with pytest.raises(od.OffdiagError, match="users × 4 items"):
        np.ones(shape) @ model.weights_
