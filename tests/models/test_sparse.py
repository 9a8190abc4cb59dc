"""SparseEDLAE against dense NumPy: neighbours, columns, blocks, restarts, size."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory
from offdiag._kernels import column_solves, parallel
from offdiag.models.block_checkpoints import BlockCheckpoints
from offdiag.solvers import gram_rows, popularity_order, support
from tests.fixtures.sparse_catalogue import example, same_bytes
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, interactions, powers

l2s = st.sampled_from([0.5, 3.0, 40.0])
neighbour_counts = st.sampled_from([1, 2, 4, 7])


def supports_of(X, G, H, k):
    """For each item those that share a user with it, by G_ji²/H_jj; ties broken by more users."""
    counts = (X != 0).sum(axis=0)
    popular_first = np.lexsort((np.arange(len(G)), -counts))
    rank = np.argsort(popular_first)
    out = []
    for i in range(len(G)):
        others = [j for j in range(len(G)) if j != i and (G[j, i] > 0 or (k >= len(G) - 1 and G[j, j] > 0))]
        out.append(sorted(others, key=lambda j: (-(G[j, i] ** 2) / H[j], rank[j]))[:k] if G[i, i] > 0 else [])
    return out


def oracle(X, k, dropout, l2, user_power=0.0):
    """Every column by a general solver in float64; also the supports."""
    G = oracles.gram(X.toarray(), user_power)
    H = np.diag(G) + oracles.penalty(G, dropout, l2)
    supports = supports_of(X.toarray(), G, H, k)
    B = np.zeros_like(G)
    for i, S in enumerate(supports):
        if S:
            A = G[np.ix_(S, S)].copy()
            np.fill_diagonal(A, H[S])
            B[S, i] = np.linalg.solve(A, G[S, i])
    return B, supports, G, H


@given(interactions(values="ratings"), neighbour_counts, dropouts, l2s, powers, dtypes)
def test_every_column_is_the_exact_solution_on_its_support(X, k, dropout, l2, power, dtype):
    model = od.SparseEDLAE(neighbours=k, dropout=dropout, l2=l2, user_power=power, dtype=dtype).fit(X)
    expected, supports, G, _ = oracle(X, k, dropout, l2, power)
    B = model.weights_.toarray()
    close_calls = _has_close_calls(X, G, k, dropout, l2)
    if not close_calls:  # rounding may decide between neighbours of equal merit; then any choice is right
        np.testing.assert_allclose(B, expected, rtol=0, atol=oracles.TOLERANCE[dtype] * max(1, np.abs(expected).max()))
        left = sum(G[i, i] - G[S, i] @ expected[S, i] for i, S in enumerate(supports))
        assert model.objective_ == pytest.approx(left, rel=10 * oracles.TOLERANCE[dtype], abs=1e-3)


def _has_close_calls(X, G, k, dropout, l2):
    H = np.diag(G) + oracles.penalty(G, dropout, l2)
    scores = G**2 / np.maximum(H, 1e-300)[:, None]
    np.fill_diagonal(scores, -1)
    ordered = -np.sort(-scores, axis=0)
    if k >= len(G):
        return False
    edge, beyond = ordered[k - 1], ordered[k]
    return bool(((edge > 0) & (np.abs(edge - beyond) <= 1e-9 * edge)).any())


@given(interactions(values="counts", min_items=2), dropouts, l2s, powers, dtypes)
def test_with_all_other_items_as_neighbours_it_is_edlae(X, dropout, l2, power, dtype):
    words = {"dropout": dropout, "l2": 100 * l2 if dropout == 0 else l2, "user_power": power, "dtype": dtype}
    dense = od.EDLAE(**words).fit(X)
    full = od.SparseEDLAE(neighbours=X.shape[1] - 1, **words).fit(X)
    G = oracles.gram(X.toarray(), power)
    H = G + np.diag(oracles.penalty(G, dropout, words["l2"]))
    live = np.diag(G) > 0
    condition = np.linalg.cond(H[np.ix_(live, live)])
    allowed = 8 * np.finfo(dtype).eps * max(condition, 10) * max(1, np.abs(dense.weights_.toarray()).max())
    np.testing.assert_allclose(full.weights_.toarray(), dense.weights_.toarray(), rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_the_gradient_is_zero_on_every_support(dtype, user_power):
    X = example()
    model = od.SparseEDLAE(neighbours=12, dropout=0.4, l2=3.0, user_power=user_power, dtype=dtype).fit(X)
    _, supports, G, H = oracle(X, 12, 0.4, 3.0, user_power)
    B = model.weights_.toarray().astype(np.float64)
    assert model.weights_.nnz > 500
    for i, S in enumerate(supports):
        assert set(np.flatnonzero(B[:, i])) <= set(S)
        gradient = (G - np.diag(np.diag(G)) + np.diag(H))[S] @ B[:, i] - G[S, i]
        grid = 2.0**-52 * X.shape[0]  # of the users' weights
        assert np.abs(gradient).max(initial=0) <= 20 * np.finfo(dtype).eps * max(G[i, i], 1) + 10 * grid


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_threads_and_the_order_of_users_change_no_byte(dtype, monkeypatch):
    X = example()
    words = {"neighbours": 10, "dropout": 0.4, "l2": 3.0, "user_power": 0.5, "dtype": dtype}
    model = od.SparseEDLAE(**words).fit(X)
    for block_bytes in (1, 3_000, 20_000):
        assert same_bytes(model, od.SparseEDLAE(**words, block_bytes=block_bytes).fit(X))
    shuffled = X[np.random.default_rng(1).permutation(X.shape[0])]
    assert same_bytes(model, od.SparseEDLAE(**words, block_bytes=5_000).fit(shuffled))
    monkeypatch.setattr(support, "ITEMS_AT_ONCE", 3)
    assert same_bytes(model, od.SparseEDLAE(**words).fit(X))
    monkeypatch.setattr(parallel, "n_threads", lambda: 1)
    assert same_bytes(model, od.SparseEDLAE(**words).fit(X))


@given(interactions(values="counts"), neighbour_counts, powers, dtypes)
def test_the_gram_alone_gives_the_same_model(X, k, power, dtype):
    words = {"neighbours": k, "dropout": 0.3, "l2": 20.0, "dtype": dtype}
    one = od.SparseEDLAE(**words, user_power=power).fit(X)
    if _has_close_calls(X, oracles.gram(X.toarray(), power), k, 0.3, 20.0):
        return
    other = od.SparseEDLAE(**words).fit_gram(od.gram(X, power, dtype=dtype))
    np.testing.assert_allclose(other.weights_.toarray(), one.weights_.toarray(), rtol=0, atol=oracles.TOLERANCE[dtype])
    assert np.array_equal(one.popularity_, other.popularity_)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_the_family_order_holds_every_item_once_and_parents_first(m, seed):
    rng = np.random.default_rng(seed)
    parent = np.array([rng.integers(-1, i) if i else -1 for i in range(m)], dtype=np.int32)
    order = np.empty(m, dtype=np.int32)
    column_solves.family_order(parent, np.full(m, -1, np.int32), np.full(m, -1, np.int32), order)
    assert sorted(order) == list(range(m))
    place = np.argsort(order)
    assert all(place[parent[i]] < place[i] for i in range(m) if parent[i] >= 0)


@given(interactions(max_users=30, max_items=20, min_items=3), neighbour_counts, st.integers(1, 2_000))
def test_blocks_hold_every_column_once_and_keep_to_their_memory(X, k, block_bytes):
    weight = np.ones(X.shape[0])
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=X.shape[1]))
    data = popularity_order.by_popularity(X, weight, rank)
    H = popularity_order.diagonal(data) + 1.0
    found = support.choose(data, H, k, np.float32)
    plan = gram_rows.plan(found, 4, block_bytes, block_items=5)
    assert sorted(np.concatenate(plan.blocks)) == list(range(X.shape[1]))
    assert max(map(len, plan.blocks)) <= 5
    shelf = gram_rows.Shelf(data, found.below, plan.n_head, np.float32)
    G = oracles.gram(X.toarray())[np.ix_(np.argsort(rank), np.argsort(rank))]
    for block in plan.blocks:
        shelf.hold(found, block)
        needed = {j for i in block for j in found.rows[found.ptr[i] : found.ptr[i + 1]]}
        size = 4 * shelf.ptr[-1] + 4 * shelf.column_ptr[-1]
        assert size <= block_bytes or len(block) == 1
        for j in needed | set(range(plan.n_head)):
            r = shelf.place[j]
            row = np.zeros(j)
            listed = shelf.columns[shelf.column_ptr[r] : shelf.column_ptr[r + 1]]
            values = shelf.values[shelf.ptr[r] : shelf.ptr[r + 1]]
            row[listed if len(listed) else slice(None if len(values) else 0)] = values
            assert np.array_equal(row, G[j, :j])


def test_conjugate_gradients_and_cholesky_agree_and_hard_columns_go_to_cholesky(monkeypatch):
    X = example()
    for words in ({"dropout": 0.5, "l2": 5.0}, {"dropout": 0.0, "l2": 1e-3}):
        words |= {"neighbours": 30, "user_power": 0.0, "dtype": "float64"}
        both = od.SparseEDLAE(**words).fit(X).weights_.toarray()
        monkeypatch.setattr(support.solve_block, "__defaults__", (0.0, None))
        monkeypatch.setattr(support.solve, "__kwdefaults__", support.solve.__kwdefaults__ | {"steps": 0.0})
        factors = od.SparseEDLAE(**words).fit(X).weights_.toarray()
        monkeypatch.undo()
        np.testing.assert_allclose(both, factors, rtol=0, atol=1e-9)
        np.testing.assert_allclose(both, oracle(X, 30, words["dropout"], words["l2"])[0], rtol=0, atol=1e-8)


def test_duplicate_items_without_any_penalty_are_refused_and_the_earlier_fit_stays():
    X = example()
    model = od.SparseEDLAE(neighbours=20, l2=3.0, dropout=0.2).fit(X)
    before = model.weights_
    model.set_params(l2=0.0, dropout=0.0)
    with pytest.raises(od.OffdiagError, match="singular at this precision"):
        model.fit(X)
    assert model.weights_ is before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_memory_budget_drops_the_weakest_weights_and_solves_again(dtype):
    X = example()
    words = {"neighbours": 30, "dropout": 0.4, "l2": 3.0, "user_power": 0.0, "dtype": dtype}
    free = od.SparseEDLAE(**words).fit(X)
    budget = free.weights_.nbytes // 3
    small = od.SparseEDLAE(**words, max_bytes=budget).fit(X)
    assert budget * 0.98 < small.weights_.nbytes <= budget
    assert free.objective_ < small.objective_
    _, _, G, H = oracle(X, 30, 0.4, 3.0)
    B, before = small.weights_.toarray().astype(np.float64), free.weights_.toarray().astype(np.float64)
    cost = before**2 * H[:, None]
    assert cost[B != 0].min() >= cost[(B == 0) & (before != 0)].max() * (1 - 1e-5)
    for i in range(len(G)):
        S = np.flatnonzero(B[:, i])
        gradient = (G + np.diag(H - np.diag(G)))[S] @ B[:, i] - G[S, i]
        assert np.abs(gradient).max(initial=0) <= 20 * np.finfo(dtype).eps * max(G[i, i], 1)
    assert np.abs(B - np.where(B != 0, before, 0)).max() > 1e-3, "it must be solved again, not only cut"
    everything = od.SparseEDLAE(**words, max_bytes=10 * free.weights_.nbytes).fit(X)
    assert same_bytes(everything, free)
    with pytest.raises(od.OffdiagError, match="max_bytes must be at least 7"):
        od.SparseEDLAE(**words, max_bytes=100).fit(X)


class _Stop(Exception):  # noqa: N818 - not an error of anybody
    pass


def _fit_until(model, X, folder, solved):
    def progress(stage, fraction):
        if stage.startswith(support.SOLVING) and fraction >= solved:
            raise _Stop

    with pytest.raises(_Stop):
        model.fit(X, checkpoint=folder, progress=progress)


@pytest.mark.parametrize("max_bytes", [None, 3_000])
def test_a_fit_goes_on_from_its_last_finished_block_to_the_same_bytes(tmp_path, monkeypatch, max_bytes):
    monkeypatch.setattr(gram_rows.plan, "__defaults__", (7,))
    X = example()
    words = {"neighbours": 10, "dropout": 0.4, "l2": "auto", "max_bytes": max_bytes}
    whole = od.SparseEDLAE(**words).fit(X)
    folder = tmp_path / "run"
    _fit_until(od.SparseEDLAE(**words), X, folder, 0.5)
    finished = sorted(folder.glob("*-block-*.od"))
    assert 3 <= len(finished) < 13
    stamps = [path.stat().st_mtime_ns for path in finished]
    solved = []
    real = support.solve_block
    monkeypatch.setattr(support, "solve_block", lambda *a, **k: (solved.append(1), real(*a, **k))[1])
    again = od.SparseEDLAE(**words).fit(X, checkpoint=folder)
    assert same_bytes(whole, again)
    assert again.objective_ == whole.objective_
    assert [path.stat().st_mtime_ns for path in finished] == stamps, "finished blocks are not done again"
    assert len(solved) == (13 if max_bytes is None else 26) - len(finished)


KILLED = """
import sys, time
import offdiag as od
from offdiag.solvers import gram_rows, support
from tests.fixtures.sparse_catalogue import example
gram_rows.plan.__defaults__ = (4,)
real = support.solve_block
def slow(*a, **k):
    time.sleep(0.03)
    return real(*a, **k)
support.solve_block = slow
od.SparseEDLAE(neighbours=10, l2=3.0).fit(example(), checkpoint=sys.argv[1])
"""


def test_a_killed_fit_leaves_only_whole_blocks(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], cwd=os.getcwd())
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*-block-*.od"))) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    found = len(list(folder.glob("*-block-*.od")))
    assert 3 <= found < 23
    monkeypatch.setattr(gram_rows.plan, "__defaults__", (4,))
    X = example()
    again = od.SparseEDLAE(neighbours=10, l2=3.0).fit(X, checkpoint=folder)
    assert same_bytes(again, od.SparseEDLAE(neighbours=10, l2=3.0).fit(X))


def test_a_checkpoint_of_another_fit_is_refused_with_the_difference(tmp_path):
    X = example()
    folder = tmp_path / "run"
    words = {"neighbours": 10, "dropout": 0.4, "l2": 3.0}
    od.SparseEDLAE(**words).fit(X, checkpoint=folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(od.OffdiagError, match="another fit: neighbours=10 instead of 11; give the same"):
        od.SparseEDLAE(**words | {"neighbours": 11}).fit(X, checkpoint=folder)
    with pytest.raises(od.OffdiagError, match="users=400 instead of 399, interactions="):
        od.SparseEDLAE(**words).fit(X[:399], checkpoint=folder)
    changed = sparse.csr_array(X.toarray()[:, np.r_[1, 0, 2 : X.shape[1]]])
    with pytest.raises(od.OffdiagError, match="another fit: contents="):
        od.SparseEDLAE(**words).fit(changed, checkpoint=folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    same = od.SparseEDLAE(**words, block_bytes=5).fit(X, checkpoint=folder)  # changes only how it is computed
    assert same_bytes(same, od.SparseEDLAE(**words).fit(X))


def test_what_is_no_checkpoint_is_left_alone(tmp_path):
    X = example()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(od.OffdiagError, match="checkpoint takes a folder, received the file"):
        od.SparseEDLAE().fit(X, checkpoint=tmp_path / "file")
    with pytest.raises(od.OffdiagError, match="holds other files and no checkpoint"):
        od.SparseEDLAE().fit(X, checkpoint=tmp_path)
    folder = tmp_path / "run"
    od.SparseEDLAE(neighbours=5, l2=3.0).fit(X, checkpoint=folder)
    block = next(folder.glob("*-block-*.od"))
    whole = block.read_bytes()
    block.write_bytes(whole[:-10])
    again = od.SparseEDLAE(neighbours=5, l2=3.0).fit(X, checkpoint=folder)
    assert same_bytes(again, od.SparseEDLAE(neighbours=5, l2=3.0).fit(X))
    assert block.read_bytes() == whole, "a damaged block is done again"


def test_items_without_neighbours_are_never_recommended_for_what_others_have():
    X = np.zeros((6, 5), dtype=np.float32)
    X[:3, :2] = 1
    X[3, 2] = 1  # the only item in its only history
    X[4, 3] = X[5, 3] = X[5, 1] = 1
    model = od.SparseEDLAE(neighbours=2, dropout=0.2, l2=1.0).fit(X)
    B = model.weights_.toarray()
    assert not B[2].any()
    assert not B[:, 2].any()
    assert not B[:, 4].any()
    assert np.isfinite(model.predict(X)).all()


def test_more_neighbours_than_items_are_all_the_others():
    X = example()
    one, other = (od.SparseEDLAE(neighbours=k, dropout=0.4, l2=3.0).fit(X) for k in (89, 10**9))
    assert same_bytes(one, other)


def test_values_too_large_to_square_are_refused():
    X = example().astype(np.float64) * 1e25
    with pytest.raises(od.OffdiagError, match="overflow"):
        od.SparseEDLAE(l2=1.0).fit(X)
    assert np.isfinite(od.SparseEDLAE(l2=1.0, dtype="float64").fit(X).weights_.data).all()


def test_too_little_memory_is_told_before_anything_is_counted(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(od.NotEnoughMemory, match="90 items with 89 neighbours each needs .* ask for fewer neighbours"):
        od.SparseEDLAE().fit(example())


def test_another_propensity_needs_no_fit():
    X = example()
    words = {"neighbours": 10, "dropout": 0.4, "l2": 3.0}
    fitted = od.SparseEDLAE(**words, propensity_power=0.3).fit(X)
    turned = od.SparseEDLAE(**words).fit(X).with_propensity(0.3)
    np.testing.assert_allclose(turned.weights_.toarray(), fitted.weights_.toarray(), rtol=1e-6)
    assert turned.settings_ == fitted.settings_


def test_a_weight_power_bends_the_weights_and_keeps_their_signs():
    X = example()
    words = {"neighbours": 10, "dropout": 0.4, "l2": 3.0}
    plain, bent = (od.SparseEDLAE(**words, weight_power=power).fit(X).weights_.toarray() for power in (1.0, 1.3))
    assert (plain < 0).any()
    np.testing.assert_allclose(bent, np.sign(plain) * np.abs(plain) ** 1.3, rtol=1e-5)


def test_normalised_items_get_a_penalty_of_their_own():
    X = example()
    words = {"dropout": 0.4, "l2": 3.0, "item_power": 0.6, "dtype": "float64"}
    dense, full = od.EDLAE(**words).fit(X), od.SparseEDLAE(neighbours=89, **words).fit(X)
    np.testing.assert_allclose(full.weights_.toarray(), dense.weights_.toarray(), atol=1e-10)


@settings(max_examples=20)
@given(interactions(values="counts"))
def test_defaults_work_on_any_data(X):
    model = od.SparseEDLAE().fit(X)
    assert np.isfinite(model.predict(X)).all()
    assert model.recommend(X, k=3).indices.shape[0] == X.shape[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"neighbours": 0}, "neighbours must be a whole number of at least 1"),
        ({"neighbours": 2.5}, "neighbours must be a whole number"),
        ({"max_bytes": 0}, "max_bytes must be a whole number of at least 1"),
        ({"block_bytes": "1 GB"}, "block_bytes must be a whole number"),
        ({"item_power": "auto"}, "item_power of SparseEDLAE must be a number"),
    ],
)
def test_settings_out_of_range_are_named(words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.SparseEDLAE(**words).fit(example())


@pytest.mark.parametrize("power", [5.0, -5.0, 3.0])
def test_users_whose_weight_vanishes_are_as_if_they_were_not_there(power):
    """Users with 1,900 items next to one with a single item: the ratio of their weights is 10^±16."""
    rng = np.random.default_rng(0)
    X = np.zeros((60, 2_000), dtype=np.float32)
    for u in range(40):
        X[u, rng.permutation(2_000)[:1_900]] = 1
    X[40:59, :3] = rng.random((19, 3)) < 0.7
    X[59, 0] = 1
    model = od.SparseEDLAE(neighbours=5, dropout=0.4, l2=3.0, user_power=power, dtype="float64").fit(X)
    G = oracles.gram(X, power)
    H = np.diag(G) + oracles.penalty(G, 0.4, 3.0)
    B = model.weights_.toarray()
    for i in range(0, 2_000, 97):
        S = np.flatnonzero(B[:, i])
        A = G[np.ix_(S, S)].copy()
        np.fill_diagonal(A, H[S])
        np.testing.assert_allclose(A @ B[S, i], G[S, i], atol=1e-9 * H.max())


def test_values_so_small_that_products_vanish_do_no_harm():
    X = example().astype(np.float64)
    X.data = np.where(np.arange(len(X.data)) % 3 == 0, 1e-200, 1.0)
    words = {"neighbours": 8, "dropout": 0.4, "l2": 3.0, "dtype": "float64"}
    model = od.SparseEDLAE(**words).fit(X)
    assert np.isfinite(model.weights_.data).all()
    assert same_bytes(model, od.SparseEDLAE(**words, block_bytes=2_000).fit(X))


@pytest.mark.slow
def test_pivots_at_the_level_of_rounding_are_taken_for_lost():
    """Two items that differ in one user of a million: too little separates them in float32, enough in float64."""
    X = np.zeros((1_600_000, 3), dtype=np.float32)
    X[:, 0] = X[:, 1] = 1
    X[0, 1] = 0
    X[::2, 2] = 1
    words = {"neighbours": 2, "dropout": 0.0, "l2": 1e-3, "user_power": 0.0}
    with pytest.raises(od.OffdiagError, match="singular at this precision.*float64"):
        od.SparseEDLAE(**words).fit(X)
    assert np.isfinite(od.SparseEDLAE(**words, dtype="float64").fit(X).weights_.data).all()


def test_progress_tells_the_items_per_second():
    told = []
    od.SparseEDLAE(neighbours=10, l2=3.0).fit(example(), progress=lambda stage, part: told.append((stage, part)))
    solving = [(stage, part) for stage, part in told if stage.startswith(support.SOLVING)]
    assert solving[-1][1] == 1.0
    rate = float(solving[-1][0].partition(" · ")[2].removesuffix(" items/s").replace(",", ""))
    assert 1 < rate < 1e8
    assert [part for _, part in solving] == sorted(part for _, part in solving)


def checkpoint_of(folder, X, **words):
    od.SparseEDLAE(**{"neighbours": 10, "dropout": 0.4, "l2": 3.0} | words).fit(X, checkpoint=folder)


def test_every_part_of_data_and_settings_belongs_to_a_checkpoint(tmp_path):
    X = example()
    checkpoint_of(tmp_path / "run", X)
    doubled = X.copy()
    doubled.data = doubled.data * 2
    with pytest.raises(od.OffdiagError, match="contents="):
        checkpoint_of(tmp_path / "run", doubled)
    named = od.Interactions(X, np.arange(X.shape[0]), np.array([f"item {i}" for i in range(X.shape[1])]))
    with pytest.raises(od.OffdiagError, match="contents="):
        checkpoint_of(tmp_path / "run", named)
    with pytest.raises(od.OffdiagError, match="dtype='float32' instead of 'float64'"):
        checkpoint_of(tmp_path / "run", X, dtype="float64")


def test_a_flipped_byte_in_a_block_is_noticed(tmp_path):
    X = example()
    checkpoint_of(tmp_path / "run", X)
    block = next((tmp_path / "run").glob("*-block-*.od"))
    whole = bytearray(block.read_bytes())
    whole[-5] ^= 1
    block.write_bytes(whole)
    again = od.SparseEDLAE(neighbours=10, dropout=0.4, l2=3.0).fit(X, checkpoint=tmp_path / "run")
    assert same_bytes(again, od.SparseEDLAE(neighbours=10, dropout=0.4, l2=3.0).fit(X))


def test_a_block_of_another_fit_in_the_same_folder_is_not_taken(tmp_path):
    """l2 so close that both have the same supports, cut into the same blocks: only the mark tells them apart."""
    X = example()
    checkpoint_of(tmp_path / "one", X, l2=3.0)
    checkpoint_of(tmp_path / "other", X, l2=3.001)
    for block in (tmp_path / "one").glob("*-block-*.od"):
        (tmp_path / "other" / block.name).write_bytes(block.read_bytes())
    again = od.SparseEDLAE(neighbours=10, dropout=0.4, l2=3.001).fit(X, checkpoint=tmp_path / "other")
    assert same_bytes(again, od.SparseEDLAE(neighbours=10, dropout=0.4, l2=3.001).fit(X))


def test_what_a_kill_leaves_of_a_file_does_not_stop_the_next_fit_and_is_cleared(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".offdiag-0123456789ab.tmp").write_bytes(b"half")
    checkpoint_of(folder, example())
    (folder / "mine.od").write_text("not of the fit")
    BlockCheckpoints.clear(folder)
    assert [path.name for path in folder.iterdir()] == ["mine.od"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(od.OffdiagError, match="cannot keep a checkpoint in"):
        checkpoint_of(tmp_path / "file" / "run", example())


def test_a_compressed_sparse_model_takes_another_propensity():
    model = od.compress(od.SparseEDLAE(neighbours=10, l2=3.0).fit(example()), storage="float32", keep=10)
    whole = od.SparseEDLAE(neighbours=10, l2=3.0, propensity_power=0.3).fit(example())
    np.testing.assert_allclose(model.with_propensity(0.3).weights_.toarray(), whole.weights_.toarray(), rtol=1e-5)
