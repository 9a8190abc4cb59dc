"""Diagonals, groups of similar items, their cosines and accuracy by rank, against dense twins that only loop."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag import diagnostics
from offdiag.weights import Constant, Dense, LowRank, Packed
from tests.laws.oracles import TOLERANCE

DTYPES = ["float32", "float64"]


def factors(m, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return LowRank(*(np.ascontiguousarray(rng.normal(size=(m, k)), dtype=dtype) for _ in range(2)))


def kinds(m, dtype, seed=0):
    """The same catalogue size in all shapes of weights."""
    rng = np.random.default_rng(seed)
    X = (rng.random((4 * m + 3, m)) < 0.4).astype(np.float32)
    X[0] = 1
    fit = od.EDLAE(dropout=0.3, l2=2.0, kept_weight=0.5, user_power=0.0, dtype=dtype).fit(X)
    assert isinstance(fit.weights_, Packed)
    return [fit.weights_, fit.weights_.todense(), factors(m, min(3, m), dtype, seed)]


def groups_twin(B, n):
    """Column by column, a stable sort of all other items."""
    m = len(B)
    rows = [sorted((j for j in range(m) if j != i), key=lambda j: (-B[j, i], j))[:n] for i in range(m)]
    return np.array(rows, dtype=np.int64).reshape(m, min(n, m - 1))


def cosines_twin(E, groups):
    E = np.asarray(E, dtype=np.float64)
    out = []
    for group in groups:
        pairs = []
        for a in range(len(group)):
            for b in range(a):
                one, other = E[group[a]], E[group[b]]
                if one.any() and other.any():
                    pairs.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        out.append(np.median(pairs) if pairs else np.nan)
    return np.array(out)


# The diagonal


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_diagonal_is_that_of_the_dense_matrix(m, dtype):
    for weights in kinds(m, dtype):
        found = weights.diagonal()
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.diag(weights.toarray()), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_the_diagonal_is_a_copy_that_may_be_changed():
    for weights in kinds(4, "float64"):
        before = weights.toarray()
        weights.diagonal()[:] = 99
        np.testing.assert_array_equal(weights.toarray(), before)


def test_popularity_predicts_no_item_from_itself():
    assert Constant(np.arange(3.0)).diagonal().tolist() == [0, 0, 0]


# Groups of similar items


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(1, 10), (2, 10), (9, 1), (9, 4), (9, 8), (9, 10), (30, 10)])
@pytest.mark.parametrize("width", [1, 4, 9, 1000])
def test_groups_are_the_largest_values_of_a_column_whatever_the_tiles(m, n, width, dtype, monkeypatch):
    for weights in kinds(m, dtype):
        monkeypatch.setattr(diagnostics, "BLOCK_BYTES", width * m * weights.dtype.itemsize)
        found = diagnostics.similar_groups(weights, n)
        assert found.shape == (m, min(n, m - 1))
        B = weights.toarray()
        # By value, because BLAS may round a product of another shape differently and so decide a near tie.
        values, expected = (np.take_along_axis(B, groups.T, 0) for groups in (found, groups_twin(B, n)))
        np.testing.assert_allclose(values, expected, atol=10 * TOLERANCE[dtype])
        assert all(i not in group for i, group in enumerate(found.tolist()))
        assert all(len(set(group)) == len(group) for group in found.tolist())


def test_groups_are_taken_from_columns_not_from_rows():
    B = np.zeros((3, 3))
    B[2, 0] = 5.0  # item 2 predicts item 0, and not the other way round
    B[1, 2] = 1.0
    assert diagnostics.similar_groups(Dense(B), 1).tolist() == [[2], [0], [1]]


def test_equal_values_go_to_the_earlier_item():
    B = np.ones((5, 5))
    np.fill_diagonal(B, 9.0)
    assert diagnostics.similar_groups(Dense(B), 2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]


@given(m=st.integers(1, 8), n=st.integers(1, 9), width=st.integers(1, 9), seed=st.integers(0, 99))
def test_groups_with_ties_equal_the_twin(m, n, width, seed):
    B = np.random.default_rng(seed).integers(-1, 2, size=(m, m)).astype(np.float64)  # full of ties
    before, diagnostics.BLOCK_BYTES = diagnostics.BLOCK_BYTES, width * m * 8
    try:
        found = diagnostics.similar_groups(Dense(B), n)
    finally:
        diagnostics.BLOCK_BYTES = before
    np.testing.assert_array_equal(found, groups_twin(B, n))


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3"])
def test_the_number_of_similar_items_is_at_least_one(n):
    with pytest.raises(od.OffdiagError, match="at least 1"):
        diagnostics.similar_groups(Dense(np.eye(3)), n)


def test_weights_without_items_have_no_similar_ones():
    with pytest.raises(od.OffdiagError, match="constant"):
        diagnostics.similar_groups(Constant(np.arange(3.0)), 1)


# Median cosines


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "k", "n"), [(12, 1, 4), (12, 5, 2), (12, 5, 5), (12, 3, 1), (3, 2, 3)])
@pytest.mark.parametrize("step", [1, 5, 100])
def test_median_cosines_equal_the_twin(m, k, n, step, dtype, monkeypatch):
    rng = np.random.default_rng(m + k + n)
    E = rng.normal(size=(m, k)).astype(dtype)
    E[1] = 0
    groups = np.array([rng.permutation(m)[:n] for _ in range(11)])
    monkeypatch.setattr(diagnostics, "BLOCK_BYTES", step * n * max(k, n) * E.dtype.itemsize)
    found = diagnostics.median_cosines(E, groups)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, cosines_twin(E, groups), atol=TOLERANCE[dtype])


def test_cosines_ignore_lengths_and_leave_out_zero_embeddings():
    E = np.array([[1.0, 0.0], [500.0, 500.0], [0.0, 0.0], [0.0, 1e-5]])
    cosines = diagnostics.median_cosines(E, [[0, 1, 2], [0, 3, 2], [2, 2, 0]])
    np.testing.assert_allclose(cosines, [np.sqrt(0.5), 0.0, np.nan])


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two():
    E = np.array([[1, 0], [1, 0], [0, 1], [1, 1]])  # whole numbers are fine; cosines 1, 0, 0, √½, √½, √½
    assert diagnostics.median_cosines(E, [[0, 1, 2, 3]])[0] == pytest.approx(np.sqrt(0.5))
    assert diagnostics.median_cosines(E[:3], [[0, 1, 2]])[0] == pytest.approx(0.0)
    four = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])  # cosines 0, 1, 0, 0, 1, 0
    assert diagnostics.median_cosines(four, [[0, 1, 2, 3]])[0] == pytest.approx(0.0)
    eight = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])  # cosines 1, 1, 0, 1, 0, 0
    assert diagnostics.median_cosines(eight, [[0, 1, 2, 3]])[0] == pytest.approx(0.5)


@pytest.mark.parametrize("groups", [[[0, 4]], [[-1, 0]], [0, 1]])
def test_groups_outside_the_catalogue_are_refused(groups):
    with pytest.raises(od.OffdiagError, match="row numbers"):
        diagnostics.median_cosines(np.eye(4), groups)


# The choice of factors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "k"), [(1, 1), (6, 1), (9, 4), (5, 5)])
def test_balanced_factors_are_the_same_model_with_equal_second_moments(m, k, dtype):
    weights = factors(m, k, dtype, seed=m + k)
    U, V = diagnostics.balanced(weights)
    assert U.dtype == V.dtype == dtype
    size = np.abs(weights.toarray()).max()
    np.testing.assert_allclose(U @ V.T, weights.toarray(), atol=10 * size * TOLERANCE[dtype])
    np.testing.assert_allclose(U.T @ U, V.T @ V, atol=100 * size * TOLERANCE[dtype])


def test_balanced_cosines_do_not_depend_on_how_the_factors_were_written():
    weights = factors(12, 3, "float64")
    R = np.random.default_rng(5).normal(size=(3, 3))
    other = LowRank(weights.U @ R, weights.V @ np.linalg.inv(R).T)
    groups = diagnostics.similar_groups(weights, 4)
    for one, two in zip(diagnostics.balanced(weights), diagnostics.balanced(other), strict=True):
        np.testing.assert_allclose(
            diagnostics.median_cosines(one, groups), diagnostics.median_cosines(two, groups), atol=1e-9
        )
    plain = [diagnostics.median_cosines(w.U, groups) for w in (weights, other)]
    assert np.abs(plain[0] - plain[1]).max() > 0.05  # without balancing, they do


# Accuracy by rank


@dataclass(kw_only=True, eq=False)
class Truncated:
    """A stand-in with a rank: a full-rank model whose weights are truncated by the SVD."""

    rank: int = 1
    l2: float = 5.0

    def fit(self, X):
        full = od.EASE(l2=self.l2, user_power=0.0, dtype="float64").fit(X)
        U, s, Vt = np.linalg.svd(full.weights_.toarray())
        self.weights_ = LowRank(np.ascontiguousarray((U * s)[:, : self.rank]), np.ascontiguousarray(Vt[: self.rank].T))
        self.item_ids_, self.popularity_, self.objective_ = full.item_ids_, full.popularity_, 100.0 - self.rank
        self.settings_ = {"rank": self.rank, "l2": self.l2}
        return self

    def recommend(self, histories, k, exclude_seen):
        full = od.EASE()
        full.weights_, full.item_ids_, full.popularity_ = self.weights_, self.item_ids_, self.popularity_
        return full.recommend(histories, k=k, exclude_seen=exclude_seen)


@pytest.fixture(scope="module")
def split():
    return od.split.strong(od.synthetic.interactions(300, 25, 2400, seed=3, names=False), held_out=0.2, seed=0)


def test_accuracy_by_rank_is_that_of_each_fit_alone(split):
    reported = []
    models = {"one": Truncated(), "two": Truncated(rank=9, l2=500.0)}
    curve = diagnostics.accuracy_by_rank(
        split.train, split.test, [5, 2, 5], models, "recall@5", keep=[5], progress=lambda *a: reported.append(a)
    )
    assert curve.models == ["one", "two"]
    assert curve.ranks == [2, 5]
    assert [(p.model, p.rank) for p in curve.points] == [("one", 2), ("two", 2), ("one", 5), ("two", 5)]
    for point in curve.points:
        alone = Truncated(rank=point.rank, l2=models[point.model].l2).fit(split.train)
        result = od.evaluate(alone, split.test, ["recall@5"])
        assert (point.mean, point.sem) == (result.mean["recall@5"], result.sem["recall@5"])
        assert point.n_bytes == 2 * 25 * point.rank * 8
        assert point.objective == 100 - point.rank
        assert point.seconds > 0
        assert point.settings == {"rank": point.rank, "l2": models[point.model].l2}
        np.testing.assert_array_equal(point.result.per_user["recall@5"], result.per_user["recall@5"])
    assert set(curve.fitted) == {("one", 5), ("two", 5)}
    assert curve.fitted["two", 5].weights_.U.shape == (25, 5)
    assert [p.rank for p in curve.of("two")] == [2, 5]
    assert curve.at("one", 5) is curve.points[2]
    assert models["two"].rank == 9  # the template is not touched
    fractions = [fraction for _, fraction in reported]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)


def test_a_curve_prints_a_table_and_gives_plain_numbers(split):
    curve = diagnostics.accuracy_by_rank(split.train, split.test, [3], {"cut": Truncated()})
    assert "ndcg@100" in str(curve)
    assert f"{curve.points[0].mean:.4f}" in str(curve)
    assert set(curve.points[0].to_dict()) == {
        "model", "rank", "mean", "sem", "n_bytes", "seconds", "objective", "settings"
    }  # fmt: skip


def test_settings_can_be_chosen_for_each_rank(split):
    def choose(name, rank, model):
        assert (name, model.rank) == ("cut", rank)
        return Truncated(rank=rank, l2=10.0 * rank)

    curve = diagnostics.accuracy_by_rank(split.train, split.test, [2, 4], {"cut": Truncated()}, choose=choose)
    assert [point.settings["l2"] for point in curve.points] == [20.0, 40.0]


def test_an_interrupted_fit_ends_the_study(split):
    @dataclass(kw_only=True, eq=False)
    class Interrupted(Truncated):
        stopped_ = "interrupted"

        def fit(self, X):
            warnings.warn("kept", od.InterruptedFitWarning, stacklevel=2)
            return super().fit(X)

    with pytest.raises(KeyboardInterrupt):
        diagnostics.accuracy_by_rank(split.train, split.test, [2], {"cut": Interrupted()})


def test_without_ranks_or_models_there_is_no_curve(split):
    for ranks, models in (([], {"cut": Truncated()}), ([3], {})):
        with pytest.raises(od.OffdiagError, match="at least one rank"):
            diagnostics.accuracy_by_rank(split.train, split.test, ranks, models)
