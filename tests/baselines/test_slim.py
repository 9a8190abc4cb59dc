"""SLIM: the certified optimum of its elastic net, against a slow oracle, scikit-learn and its conditions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

import offdiag as od
from offdiag import memory
from offdiag.solvers import elastic_net
from tests.fixtures.mistakes import rejects
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions

signs = st.booleans()
penalties = st.sampled_from([0.05, 0.5, 2.0])
FLAT = 2e-5  # a gap of 1e-12·½‖x‖² leaves weights free by sqrt(2·gap/l2), between two items that always co-occur


def value(G, B, l1, l2):
    """½‖X − XB‖² + l2/2·‖B‖² + l1·Σ|B| per column, from G."""
    G, B = np.asarray(G, np.float64), np.asarray(B, np.float64)
    fit = np.diag(G) - 2 * np.sum(B * G, axis=0) + np.sum(B * (G @ B), axis=0)
    return 0.5 * fit + 0.5 * l2 * (B**2).sum(axis=0) + l1 * np.abs(B).sum(axis=0)


def oracle(G, l1, l2, non_negative):
    """Each column as non-negative least squares in β⁺ and β⁻, by Lawson and Hanson's active sets; needs l2 > 0."""
    G = np.asarray(G, dtype=np.float64)
    m = len(G)
    B = np.zeros((m, m))
    for i in range(m):
        others = np.arange(m) != i
        H, r = G[np.ix_(others, others)], G[others, i]
        if not non_negative:
            H, r = np.block([[H, -H], [-H, H]]), np.concatenate([r, -r])
        L = np.linalg.cholesky(H + l2 * np.eye(len(H)))
        found = nnls(L.T, np.linalg.solve(L, r - l1), maxiter=1000)[0] if len(H) else r
        B[others, i] = found if non_negative else found[: m - 1] - found[m - 1 :]
    return B


def kkt(G, B, l1, l2, non_negative):
    """The largest violation of the optimality conditions, in units of the gradient."""
    z = G - G @ B - l2 * B
    np.fill_diagonal(z, 0)
    zero = np.where(B == 0, np.maximum((z if non_negative else np.abs(z)) - l1, 0), 0)
    return max(zero.max(), np.abs(np.where(B != 0, z - l1 * np.sign(B), 0)).max())


def example(n=80, m=25, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < 0.8 * (rng.random((n, 3)) @ rng.random((3, m)) / 1.5)).astype(np.float32)
    X[3], X[:, 5], X[:, 8] = 0, 0, X[:, 9]  # an empty user, a cold item, two items that always co-occur
    return sparse.csr_array(X)


def fit(X, dtype="float64", **settings):
    given = {"l1": 1.0, "l2": 2.0, "user_power": 0.0, "tolerance": 1e-12 if dtype == "float64" else 1e-9}
    return od.SLIM(**given | settings, dtype=dtype).fit(X)


# The optimum


@given(interactions(values="ratings"), penalties, st.sampled_from([0.0, 0.3, 2.0]), signs, dtypes)
def test_the_optimum_is_that_of_an_active_set_method(X, l2, l1, non_negative, dtype):
    model = fit(X, dtype, l1=l1, l2=l2, non_negative=non_negative)
    G = oracles.gram(X.toarray())
    B = model.weights_.toarray().astype(np.float64)
    best = oracle(G, l1, l2, non_negative)
    rounding = {"float32": 1e-6, "float64": 1e-13}[dtype] * np.trace(G)  # of G, and of the weights
    least = value(G, best, l1, l2).sum()
    assert least - rounding <= value(G, B, l1, l2).sum() <= least + model.total_gap_ + rounding
    assert model.objective_ == pytest.approx(least, rel=0, abs=model.total_gap_ + rounding)
    # the objective grows by at least l2/2·‖B − B*‖²
    assert np.linalg.norm(B - best) <= np.sqrt(2 / l2 * (model.total_gap_ + rounding)) + 1e-9


@given(interactions(values="counts"), penalties, st.sampled_from([0.0, 0.4, 30.0]), signs)
def test_the_optimality_conditions_hold_also_for_huge_counts(X, l2, l1, non_negative):
    model = fit(X, l1=l1, l2=l2, non_negative=non_negative, tolerance=1e-13)
    G = oracles.gram(X.toarray())
    B = model.weights_.toarray()
    assert kkt(G, B, l1, l2, non_negative) <= 1e-5 * np.abs(G).max()
    assert not np.diag(B).any()
    assert not non_negative or (B >= 0).all()
    cold = np.diag(G) == 0
    assert not B[cold].any()
    assert not B[:, cold].any()


@pytest.mark.parametrize("non_negative", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("l1", "l2"), [(1.5, 2.0), (0.2, 8.0), (6.0, 0.5), (2.0, 0.0)])
def test_scikit_learn_finds_the_same_weights(non_negative, dtype, l1, l2):
    """alpha = (l1 + l2)/n and l1_ratio = l1/(l1 + l2), item by item."""
    from sklearn.linear_model import ElasticNet

    X = example()
    X = X[:, [j for j in range(X.shape[1]) if j != 8]]  # without l2, only the sum over twins is determined
    dense = X.toarray().astype(np.float64)
    model = fit(X, dtype, l1=l1, l2=l2, non_negative=non_negative)
    B = model.weights_.toarray()
    n = len(dense)
    assert model.weights_.nnz > 20
    for i in range(dense.shape[1]):
        others = np.arange(dense.shape[1]) != i
        peer = ElasticNet(alpha=(l1 + l2) / n, l1_ratio=l1 / (l1 + l2), fit_intercept=False, positive=non_negative,
                          tol=1e-12, max_iter=100_000)  # fmt: skip
        peer.fit(dense[:, others], dense[:, i])
        np.testing.assert_allclose(B[others, i], peer.coef_, atol=2e-4 if dtype == "float32" else 1e-6)


@given(interactions(min_items=2, values="ratings"), st.sampled_from([0.0, 0.5]), dtypes)
def test_without_l1_and_without_signs_it_is_ease(X, user_power, dtype):
    slim = fit(X, dtype, l1=0.0, l2=3.0, non_negative=False, user_power=user_power)
    ease = od.EASE(l2=3.0, user_power=user_power, dtype="float64").fit(X)
    np.testing.assert_allclose(slim.weights_.toarray(), ease.weights_.toarray(), atol=1e-4)
    assert 2 * slim.objective_ == pytest.approx(ease.objective_, rel=1e-6, abs=1e-9), "ours has a half in front"


# The certificate


@given(interactions(max_items=7, values="ratings"), penalties, st.sampled_from([0.1, 2.0]), signs, st.integers(1, 3))
def test_the_gap_bounds_the_distance_to_the_optimum_wherever_the_fit_stops(X, l2, l1, non_negative, most):
    """At any stopping point the true excess is at most the certified one."""
    model = fit(X, l1=l1, l2=l2, non_negative=non_negative, tolerance=1e-2, max_iterations=most)
    G = oracles.gram(X.toarray())
    reached = value(G, model.weights_.toarray(), l1, l2)
    best = value(G, oracle(G, l1, l2, non_negative), l1, l2)
    assert reached.sum() == pytest.approx(model.objective_, rel=1e-9)
    assert reached.sum() - best.sum() <= model.total_gap_ * (1 + 1e-9) + 1e-9
    half = 0.5 * np.diag(G)
    assert np.all((reached - best)[half > 0] <= model.gap_ * half[half > 0] * (1 + 1e-9) + 1e-9)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fit_ends_at_the_tolerance_asked_for(tolerance, dtype):
    X = example()
    loose, tight = fit(X, dtype, tolerance=tolerance), fit(X, tolerance=1e-13)
    assert loose.gap_ <= tolerance
    assert tight.gap_ <= 1e-13
    assert 0 <= loose.objective_ - tight.objective_ <= loose.total_gap_ + 1e-9
    assert loose.total_gap_ <= tolerance * 0.5 * od.gram(X).diagonal().sum()


def test_max_iterations_ends_the_fit_and_the_gap_shows_the_distance():
    short = fit(example(), l1=0.01, tolerance=1e-12, max_iterations=1)
    assert short.gap_ > 1e-12
    assert short.iterations_ == 2


# Many items at once: the working set outgrows its copy of G


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("non_negative", [True, False])
def test_a_working_set_that_outgrows_its_copy_of_the_gram_is_solved(monkeypatch, dtype, non_negative):
    rng = np.random.default_rng(0)
    G = oracles.gram(rng.random((300, 140)) < 0.2)
    settings = {"l1": 0.1, "l2": 60.0, "non_negative": non_negative, "tolerance": 1e-8, "max_iterations": 300}
    copied = elastic_net.solve(G.astype(dtype), **settings)
    monkeypatch.setattr(elastic_net, "COPIED", 60)
    found = elastic_net.solve(G.astype(dtype), **settings)
    assert max(found.gap, copied.gap) <= 1e-8
    assert np.diff(found.B.indptr).max() > 60
    np.testing.assert_allclose(found.B.toarray(), copied.B.toarray(), atol=1e-3)
    assert found.objective == pytest.approx(copied.objective, rel=1e-8)


# Starting from another fit


@pytest.mark.parametrize("non_negative", [True, False])
def test_a_start_changes_the_time_and_not_the_answer(non_negative):
    X = example(300, 60)
    path = [4.0, 2.0, 1.0, 0.5]
    last = None
    for l1 in path:
        cold = fit(X, l1=l1, non_negative=non_negative)
        last = od.SLIM(**cold.get_params()).fit(X, start=last)
        np.testing.assert_allclose(last.weights_.toarray(), cold.weights_.toarray(), atol=FLAT)
    again = od.SLIM(**last.get_params()).fit(X, start=last)
    assert again.iterations_ == 1, "already optimal: one look is enough"
    assert np.array_equal(again.weights_.toarray(), last.weights_.toarray())
    G = od.gram(X, dtype="float64")
    same = od.SLIM(**last.get_params()).fit_gram(G, start=last)
    assert np.array_equal(same.weights_.toarray(), last.weights_.toarray())


def test_a_start_with_signs_serves_a_fit_without():
    X = example(300, 60)
    free = fit(X, non_negative=False)
    assert (free.weights_.data < 0).any()
    model = od.SLIM(l1=1.0, l2=2.0, user_power=0.0, tolerance=1e-12, dtype="float64").fit(X, start=free)
    np.testing.assert_allclose(model.weights_.toarray(), fit(X).weights_.toarray(), atol=FLAT)


# Laws


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_data_twice_with_twice_the_penalties_gives_the_same_weights(dtype):
    X = example()
    double = fit(sparse.vstack([X, X]), dtype, l1=2.0, l2=4.0)
    np.testing.assert_allclose(double.weights_.toarray(), fit(X, dtype).weights_.toarray(), atol=2e-4)


def test_permuting_items_permutes_the_weights_and_users_do_not_matter():
    X = example()
    order = np.random.default_rng(1).permutation(X.shape[1])
    B = fit(X).weights_.toarray()
    np.testing.assert_allclose(fit(X[:, order]).weights_.toarray(), B[np.ix_(order, order)], atol=FLAT)
    np.testing.assert_allclose(fit(X[::-1]).weights_.toarray(), B, atol=1e-9)


@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_fitting_the_gram_equals_fitting_the_data_and_leaves_the_gram(user_power):
    X = example()
    model = fit(X, user_power=user_power)
    G = od.gram(X, user_power, dtype="float64")
    before = G.values.copy()
    again = od.SLIM(**model.get_params()).fit_gram(G)
    assert np.array_equal(again.weights_.toarray(), model.weights_.toarray())
    assert (again.objective_, again.gap_) == (model.objective_, model.gap_)
    assert np.array_equal(G.values, before)
    expected = oracles.gram(X.toarray(), user_power)
    assert kkt(expected, model.weights_.toarray(), 1.0, 2.0, True) < 1e-4


def test_more_l1_gives_fewer_weights_and_in_the_end_none():
    X = example()
    counts = [fit(X, l1=l1).weights_.nnz for l1 in (0.1, 1.0, 5.0, 1e6)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert fit(X, l1=1e6).recommend(X, k=3).indices.shape == (80, 3)


# What can go wrong


def reject_fit(message, **settings):
    return lambda: od.SLIM(**settings).fit(example()), message


test_mistakes_are_errors = rejects(
    reject_fit(r"l1 must be a number in \[0, inf\) or 'auto', received -1", l1=-1.0),
    reject_fit("SLIM needs l1 or l2 above 0", l1=0, l2=0.0),
    reject_fit("non_negative must be True or False, received 1", non_negative=1),
    reject_fit("tolerance must be", tolerance=1.0),
    reject_fit("tolerance must be", tolerance="auto"),
    reject_fit("max_iterations must be a whole number of at least 1", max_iterations=0),
    reject_fit("dtype must be", dtype="float16"),
    (lambda: od.SLIM(l1=1.0, l2=1.0).fit(np.full((4, 3), 1e30, dtype=np.float32)), "overflow"),
    (lambda: od.SLIM().fit(example(), start=od.EASE(l2=1.0).fit(example())), "a fitted SLIM, received EASE"),
    (lambda: od.SLIM().fit(example(), start=od.SLIM()), "fitted SLIM, received SLIM"),
    (lambda: od.SLIM().fit(example(), start=od.SLIM().fit(example()[:, :7])), "same items"),
)


def test_a_fit_that_does_not_fit_in_memory_is_an_error(monkeypatch):
    G = od.gram(example()[:, :10])
    monkeypatch.setattr(memory, "available", lambda: 300)
    with pytest.raises(od.NotEnoughMemory, match="SLIM of 25 items"):
        fit(example())
    with pytest.raises(od.NotEnoughMemory, match="SLIM of 10 items needs 400 bytes"):
        od.SLIM().fit_gram(G)


def test_progress_ends_at_one_and_threads_agree():
    X, reported = example(300, 60), []
    model = od.SLIM().fit(X, progress=lambda *report: reported.append(report))
    assert reported[-1] == ("solving columns", 1.0)
    assert np.array_equal(model.weights_.toarray(), od.SLIM().fit(X).weights_.toarray())
