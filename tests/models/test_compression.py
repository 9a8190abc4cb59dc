"""Compressed models: the kept weights are those of an obvious selection, scores are those of the stored numbers."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory, persist, ranking
from offdiag._kernels import parallel, topk
from offdiag.cli.compress import bytes_of
from offdiag.files import atomic, container
from offdiag.gramian import layout
from offdiag.models.recommender import Recommender
from offdiag.solvers import pruning
from offdiag.weights import Compressed, Dense, LowRank, Packed, Sparse, Symmetric, tiles
from tests.fixtures.coded_weights import coded
from tests.laws import oracles
from tests.laws.examples import example
from tests.laws.strategies import interactions

ROOT = Path(__file__).resolve().parents[2]
STORAGES = ["float32", "float16", "int8"]
all_storages = pytest.mark.parametrize("storage", STORAGES)


def model_of(weights, popularity=None):
    """A model that only has weights."""
    model = Recommender()
    m = weights.shape[0]
    model.weights_, model.item_ids_, model.n_users_, model.settings_ = weights, np.arange(m), 9, {}
    model.popularity_ = np.ones(m) if popularity is None else np.asarray(popularity, dtype=np.float64)
    return model


def random_weights(m, seed=0, density=1.0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((m, m)) * (rng.random((m, m)) < density)).astype(dtype)


def grid_weights(m, storage, seed, density=0.3, gap=np.uint8):
    """Ties, and sums that are exact in any order, with a separate scale for each column."""
    rng = np.random.default_rng(seed)
    scale = 2.0 ** rng.integers(-3, 3, m).astype(np.float32)
    W = rng.integers(-4, 5, (m, m)) * (rng.random((m, m)) < density) * scale
    return coded(W.astype(np.float32), storage, gap, scale), W


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


# Scores and lists from the codes

small = interactions(max_users=20, max_items=12)


@given(small, st.sampled_from(STORAGES), st.integers(0, 9))
def test_the_product_is_that_of_the_dense_weights(X, storage, seed):
    W, dense = grid_weights(X.shape[1], storage, seed)
    assert np.array_equal(W.toarray(), dense)
    assert W.toarray().dtype == W.dtype == np.float32
    assert np.array_equal(X @ W, X.toarray() @ dense)
    items = np.arange(X.shape[1])
    for target in items:
        assert np.array_equal(W.column(items, int(target)), dense[:, target])
    assert W.nbytes == sum(array.nbytes for array in W.arrays().values())
    assert W.storage == storage


@given(small, st.sampled_from(STORAGES), st.booleans(), st.data())
def test_lists_are_those_of_a_stable_sort_of_the_dense_scores(X, storage, exclude_seen, data):
    m = X.shape[1]
    W, dense = grid_weights(m, storage, X.nnz, density=data.draw(st.sampled_from([0.0, 0.1, 0.5])))
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
@pytest.mark.parametrize("gap", [np.uint8, np.uint16, np.uint32])
def test_borders_of_tiles_and_long_steps_do_not_show(monkeypatch, users, gap):
    monkeypatch.setattr(tiles, "DENSE_WIDTH", 70)
    monkeypatch.setattr(tiles, "USERS_AT_ONCE", 4)
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((users, 900)) < 0.05).astype(np.float32))
    W, dense = grid_weights(900, "int8", 1, density=0.003, gap=gap)  # steps of 330 on average, more than 256
    assert (len(W.gaps) > (dense != 0).sum()) == (gap is np.uint8)
    assert [lo for lo, _, _ in W.score_tiles(X)] == list(range(0, 900, 70 * max(1, 4 // users)))
    assert np.array_equal(X @ W, X.toarray() @ dense)
    items, scores = ranking.top_k(W, X, 20)
    mine, same = selected(W, X, 20)
    assert np.array_equal(items, mine)
    assert np.array_equal(scores, same)


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


@pytest.mark.slow
def test_a_large_catalogue_takes_memory_by_its_entries_only():
    """200,000 items, the dense matrix would be 160 GB; steps too long for two bytes are split."""
    m, rng = 200_000, np.random.default_rng(0)
    rows, columns = rng.integers(0, m, (2, 600_000))
    values = rng.integers(1, 9, len(rows)).astype(np.float32)
    W = sparse.coo_array((values, (rows, columns)), shape=(m, m)).tocsr()
    model = od.compress(model_of(Sparse.of(W)), keep=m, storage="float32")
    found = model.weights_
    assert found.gaps.dtype == np.uint16
    assert len(found.gaps) > W.nnz == model.compressed_["entries"]
    assert (found.tocsr() != W).nnz == 0
    found.check()
    X = sparse.csr_array((np.ones(60, np.float32), (np.repeat(np.arange(3), 20), rng.integers(0, m, 60))), (3, m))
    items, scores = selected(found, X, 10, exclude_seen=False)
    expected = (X @ W).toarray()
    for u in range(3):
        assert items[u].tolist() == np.argsort(-expected[u], kind="stable")[:10].tolist()
        assert np.array_equal(scores[u], expected[u, items[u]])


# Which weights are kept


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
def test_the_strongest_of_each_column_stay_whatever_the_weights(kind, dtype, m, monkeypatch):
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
    kept[rows, _columns(found.weights_)] = True
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


def _columns(weights):
    from offdiag._kernels import coded_rows

    out = np.empty(len(weights.gaps), dtype=np.int64)
    coded_rows.columns_of(weights.indptr, weights.gaps, 0, weights.shape[0], out)
    return out


@all_storages
def test_the_order_of_the_items_does_not_matter(storage):
    W, popularity = random_weights(50), np.random.default_rng(3).integers(1, 99, 50).astype(np.float64)
    order = np.random.default_rng(1).permutation(50)
    one = od.compress(model_of(Dense(W), popularity), max_bytes=4000, storage=storage).weights_
    other = od.compress(model_of(Dense(W[np.ix_(order, order)]), popularity[order]), max_bytes=4000, storage=storage)
    assert np.array_equal(other.weights_.toarray(), one.toarray()[np.ix_(order, order)])


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


def test_weights_that_are_not_numbers_of_single_precision_are_refused():
    for bad in (np.nan, np.inf, 1e39):
        W = np.eye(3)
        W[0, 1] = bad
        with pytest.raises(od.OffdiagError, match="range of float32"), np.errstate(over="ignore"):
            od.compress(model_of(Dense(W)), keep=1)


def test_a_smaller_default_is_a_tenth_and_items_nobody_has_do_no_harm():
    W = random_weights(300)
    W[:, 5] = W[7] = 0
    popularity = np.full(300, 3.0)
    popularity[7] = 0
    found = od.compress(model_of(Dense(W), popularity))
    assert 0.097 * W.nbytes < found.weights_.nbytes <= W.nbytes // 10
    assert found.compressed_["storage"] == "int8"
    assert not found.weights_.toarray()[:, 5].any()
    nothing = od.compress(model_of(Dense(np.zeros((4, 4), np.float32)), np.zeros(4)))
    assert nothing.compressed_["entries"] == 0
    assert not nothing.weights_.toarray().any()


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
def test_weights_that_change_while_they_are_read_are_noticed_before_anything_is_overwritten(factor, monkeypatch):
    model, blocks = model_of(Dense(random_weights(40))), pruning.Columns.blocks

    def other_numbers_at_last(self, stage):
        for lo, (ptr, rows, values) in blocks(self, stage):
            yield lo, (ptr, rows, values * np.float32(factor) if stage == "storing" else values)

    monkeypatch.setattr(pruning.Columns, "blocks", other_numbers_at_last)
    with pytest.raises(od.OffdiagError, match="changed while they were read"):
        od.compress(model, max_bytes=900)


# The laws of every model

MODELS = {
    "EDLAE": lambda: od.EDLAE(dropout=0.3, l2=2.0),
    "EDLAE double": lambda: od.EDLAE(dropout=0.3, l2=2.0, dtype="float64"),
    "DLAE dense": lambda: od.DLAE(dropout=0.4, l2=2.0, storage="dense"),
    "RDLAE": lambda: od.RDLAE(l2=2.0, propensity_power=0.3),
    "LowRankEDLAE": lambda: od.LowRankEDLAE(rank=3, dropout=0.3, l2=2.0),
    "Spectral": lambda: od.Spectral(rank=3),
    "SLIM": lambda: od.SLIM(),
    "ItemKNN": lambda: od.ItemKNN(neighbours=5),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_another_propensity_needs_no_full_matrix(dtype):
    inter = od.synthetic.interactions(80, 30, 900, seed=1)
    whole = od.EDLAE(dropout=0.3, l2=5.0, dtype=dtype).fit(inter)
    turned = od.compress(whole, storage="float32", keep=30).with_propensity(0.4)
    assert turned.weights_.kind == "compressed"
    np.testing.assert_allclose(turned.weights_.toarray(), whole.with_propensity(0.4).weights_.toarray(), rtol=1e-5)


@pytest.mark.slow
@every_model
@all_storages
def test_a_compressed_model_is_a_model_like_any_other(make, storage, tmp_path):
    X = example()
    whole = make().fit(X)
    before = whole.predict(X)
    model = od.compress(whole, keep=6, storage=storage)
    assert np.array_equal(whole.predict(X), before)
    assert type(model) is type(whole)
    assert model.settings_ == whole.settings_
    assert model.get_params() == whole.get_params()
    assert (np.count_nonzero(model.weights_.toarray(), axis=0) <= 6).all()

    found = model.recommend(X, k=4)
    assert not any(X.toarray()[u, i] for u, row in enumerate(found.indices) for i in row if i >= 0)
    for u in (0, 7):
        one = model.recommend(X[[u]], k=4)
        assert np.array_equal(one.indices[0], found.indices[u])
        assert np.array_equal(one.scores[0], found.scores[u])
    assert np.array_equal(model.similar([1, 2], k=3).items, model.recommend([[1], [2]], k=3).items)

    model.save(tmp_path / "model.od")
    again = od.load(tmp_path / "model.od")
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert again.compressed_ == model.compressed_ == json.loads(json.dumps(model.compressed_))
    assert np.array_equal(again.recommend(X, k=4).items, found.items)
    stored = persist.describe(tmp_path / "model.od")["tensors"]
    sizes = {name: tensor["bytes"] for name, tensor in stored.items() if name.startswith("weights.")}
    assert sum(sizes.values()) == model.weights_.nbytes == model.compressed_["bytes"]


@given(interactions(min_items=2), st.integers(0, 100), st.sampled_from(STORAGES))
def test_contributions_sum_to_the_score_exactly_in_any_order(X, seed, storage):
    model = od.compress(od.EDLAE(dropout=0.3, l2=2.0).fit(X), keep=3, storage=storage)
    user, item = int(np.argmax(np.diff(X.indptr))), seed % X.shape[1]
    reasons = model.explain(X[[user]], item)
    parts = reasons.contributions
    assert parts.sum() == reasons.score == sum(parts.tolist()) == sum(sorted(parts.tolist()))
    assert reasons.score == pytest.approx(float(model.predict(X[[user]])[0, item]), abs=1e-5)
    np.testing.assert_allclose(parts, model.weights_.toarray()[reasons.items, item], atol=1e-7)


def test_everything_kept_in_single_precision_is_the_same_model():
    X = example()
    whole = od.EDLAE(dropout=0.3, l2=2.0).fit(X)
    for keep in (13, 14, 10**9):
        model = od.compress(whole, keep=keep, storage="float32")
        assert np.array_equal(model.weights_.toarray(), whole.weights_.toarray())
        assert np.array_equal(model.recommend(X, k=5).indices, whole.recommend(X, k=5).indices)


def test_compressing_again_keeps_less_of_what_was_left():
    whole = od.EDLAE(dropout=0.3, l2=2.0).fit(example())
    once = od.compress(whole, keep=6, storage="float32")
    twice = od.compress(once, keep=3, storage="float32")
    direct = od.compress(whole, keep=3, storage="float32")
    assert np.array_equal(twice.weights_.toarray(), direct.weights_.toarray())
    assert twice.compressed_["weights_before"] == "compressed"


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"keep": 0}, "keep must be a whole number of at least 1 or None, received 0"),
        ({"keep": -3}, "keep must be"),
        ({"keep": 2.0}, "keep must be"),
        ({"keep": True}, "keep must be"),
        ({"max_bytes": 0}, "max_bytes must be"),
        ({"max_bytes": "20MB"}, "max_bytes must be"),
        ({"max_bytes": 100}, r"room for one weight per item, \d+ bytes as int8, received 100"),
        ({"storage": "float64"}, "storage must be one of 'float32', 'float16', 'int8', received 'float64'"),
        ({"storage": None}, "storage must be one of"),
    ],
)
def test_a_wish_that_cannot_be_met_is_named(wish, message):
    model = od.EDLAE(dropout=0.3, l2=2.0).fit(example())
    with pytest.raises(od.OffdiagError, match=message):
        od.compress(model, **wish)


def test_what_is_not_linear_or_not_fitted_is_refused():
    X = example()
    for model in (od.Popularity().fit(X), od.WMF(rank=2).fit(X)):
        with pytest.raises(od.OffdiagError, match="expected a linear model"):
            od.compress(model)
    with pytest.raises(od.OffdiagError, match="not fitted yet"):
        od.compress(od.EDLAE())
    with pytest.raises(od.OffdiagError, match="expected a fitted model, received str"):
        od.compress("model.od")


def test_embeddings_are_gone_and_that_is_said():
    X = example()
    low_rank = od.compress(od.LowRankEDLAE(rank=3).fit(X), keep=5)
    spectral = od.compress(od.Spectral(rank=3).fit(X), keep=5)
    for call in (
        lambda: low_rank.encoder_,
        lambda: low_rank.similar(1, space="encoder"),
        lambda: spectral.singular_values_,
        lambda: spectral.with_shrink("hard"),
    ):
        with pytest.raises(od.OffdiagError, match="embeddings"):
            call()
    assert not hasattr(low_rank.weights_, "nonsense")


# Inconsistent files


def changed(name, change):
    def apply(arrays):
        arrays[name] = change(arrays[name].copy())

    return apply


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


BROKEN = {
    "a row that ends outside the catalogue": changed("gaps", put(0, 250)),
    "a row that ends before it begins": changed("indptr", put(1, 10**6)),
    "entries too many": changed("codes", lambda a: np.append(a, a[:1])),
    "rows too few": changed("indptr", lambda a: a[:-1]),
    "rows that do not begin at 0": changed("indptr", put(0, 1)),
    "rows that do not end with the entries": changed("indptr", put(-1, 1)),
    "scales too few": changed("scale", lambda a: a[:-1]),
    "scales of another type": changed("scale", lambda a: a.astype(np.float64)),
    "codes of another type": changed("codes", lambda a: a.astype(np.int16)),
    "signed gaps": changed("gaps", lambda a: a.astype(np.int8)),
    "a table": changed("codes", lambda a: a[:, None]),
    "an array too many": lambda arrays: arrays.__setitem__("more", arrays["scale"]),
    "an array too few": lambda arrays: arrays.__delitem__("scale"),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_with_weights_that_do_not_fit_is_refused(change, tmp_path):
    """The hashes are correct, the numbers are not: the compiled loops would read outside their arrays."""
    about, tensors = persist._contents(od.compress(od.EASE(l2=2.0).fit(example()), keep=4), None)
    arrays = {name.removeprefix("weights."): tensors.pop(name) for name in list(tensors) if "weights." in name}
    change(arrays)
    tensors |= {f"weights.{name}": array for name, array in arrays.items()}
    path = tmp_path / "model.od"
    with atomic.replacing(path) as file:
        container.write(file, about, dict(sorted(tensors.items(), key=lambda pair: -pair[1].dtype.itemsize)), None)
    with pytest.raises(od.OffdiagError, match="makes no sense"):
        od.load(path)


# Real data


@pytest.mark.slow
def test_a_tenth_of_the_bytes_loses_little_on_movielens(shared_data):
    inter = od.prepare.binarize(od.datasets.load("ml-1m", shared_data("ml-1m")))
    split = od.split.strong(inter, held_out=0.1, seed=0)
    whole = od.EDLAE().fit(split.train)
    small = od.compress(whole)
    before, after = (od.evaluate(m, split.test, ["ndcg@100"]).mean["ndcg@100"] for m in (whole, small))
    assert after >= 0.99 * before
    assert small.weights_.nbytes <= whole.weights_.nbytes / 10


# The command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("compress")
    inter = od.synthetic.interactions(400, 80, 8000, seed=0)
    X = inter.matrix.tocoo()
    lines = [f"{u},{i}" for u, i in zip(X.row, X.col, strict=True)]
    (where / "data.csv").write_text("user,item\n" + "\n".join(lines) + "\n")
    od.EDLAE().fit(od.read(where / "data.csv")).save(where / "model.od")
    od.Popularity().fit(od.read(where / "data.csv")).save(where / "popularity.od")
    return where


def test_the_command_tells_sizes_and_what_was_lost(run, folder):
    code, out, err = run("compress", "model.od", "small.od", "--data", "data.csv", "--metric", "ndcg@20", "--json")
    said = json.loads(out)
    assert code == 0, err
    assert "did not learn from these users" in err
    small = od.load(folder / "small.od")
    assert said["bytes"] == small.weights_.nbytes <= said["bytes_before"] / 10
    assert said["file_bytes"] == (folder / "small.od").stat().st_size < said["file_bytes_before"]
    (test,) = said["measured"]["comparisons"]
    before, after = (model["mean"]["ndcg@20"] for model in said["measured"]["models"])
    assert test["difference"]["ndcg@20"] == pytest.approx(after - before)
    assert test["sem"]["ndcg@20"] > 0
    code, out, _ = run("compress", "model.od", "small.od", "--data", "data.csv", "--storage", "float16", "--keep", "9")
    assert code == 0
    for words in ("weights before", "packed", "float16", "paired over users", "standard error"):
        assert words in out, words


def test_a_model_may_be_replaced_by_its_small_self(run, folder):
    (folder / "own.od").write_bytes((folder / "model.od").read_bytes())
    code, out, _ = run("compress", "own.od", "own.od", "--keep", "5", "--data", "data.csv")
    assert code == 0
    assert "own.od before" in out
    assert "own.od after" in out
    assert od.load(folder / "own.od").compressed_["keep"] == 5
    assert sorted(path.name for path in folder.iterdir() if "tmp" in path.name) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.od", "new.od", "--keep", "0"], "keep must be"),
        (["model.od", "new.od", "--storage", "int4"], "storage must be one of"),
        (["model.od", "new.od", "--max-bytes", "200"], "room for one weight per item"),
        (["model.od", "new.od", "--max-bytes", "20 parsecs"], "--max-bytes takes a size such as 20MB"),
        (["model.od", "new.od", "--metric", "ndcg@5"], "add --data"),
        (["model.od", "new.od", "--data", "nothing.csv"], "nothing.csv"),
        (["model.od", "new.od", "--data", "data.csv", "--metric", "bliss@5"], "unknown metric"),
        (["data.csv", "new.od"], "not an offdiag model"),
        (["nothing.od", "new.od"], "nothing.od"),
        (["popularity.od", "new.od"], "expected a linear model"),
        (["model.od", "."], "file name"),
        (["model.od", "no/folder/new.od"], "does not exist"),
        (["model.od", "data.csv", "--data", "data.csv"], "'data.csv' itself"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_file(fails, folder, words, message):
    assert message in fails("compress", *words)
    assert not (folder / "new.od").exists()


@pytest.mark.parametrize(
    ("text", "n"),
    [("5000", 5000), ("20MB", 20_000_000), ("1.5 gb", 1_500_000_000), ("64KiB", 65_536), (".5k", 500), ("7B", 7)],
)
def test_sizes_are_read_as_people_write_them(text, n):
    assert bytes_of(text) == n


@pytest.mark.parametrize("text", ["", "0", "-5", "nan", "1e6", "MB", "5 ib", "٣MB", "9" * 30])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(od.OffdiagError, match="takes a size"):
        bytes_of(text)


def test_the_choice_of_gaps_is_the_smallest():
    for density, gap in ((0.03, np.uint8), (0.0005, np.uint16)):
        W = random_weights(3000, density=density)
        columns = pruning.Columns(Sparse.of(sparse.csr_array(W)))
        choice = pruning.within_columns(columns, np.ones(3000), 3000)
        form = pruning.form_of(columns, choice, "int8")
        each = {g: coded(W, "int8", g).nbytes for g in (np.uint8, np.uint16, np.uint32)}
        assert min(each, key=lambda g: each[g]) is gap
        assert form.nbytes == each[gap]
