"""DropConnect in a linear net: the mean loss against every mask, and when it equals that of dropout."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from offdiag.lab import dropblock, dropconnect, montecarlo
from tests.fixtures.mistakes import rejects


def net(seed, a, b, n, width):
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((b, b)) + np.eye(b)
    return (
        rng.standard_normal((a, n)),
        rng.standard_normal((a, width)),
        rng.standard_normal((b, width)),
        mixing @ rng.standard_normal((b, n)),
    )


def every_mask(Y, U, V, A, keep):
    total = 0.0
    for mask in itertools.product([0, 1], repeat=V.size):
        Z = np.array(mask).reshape(V.shape)
        chance = np.prod(np.where(Z, keep, 1 - keep))
        total += chance * np.sum((Y - U @ (Z * V / keep).T @ A) ** 2)
    return total


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.2, 0.5, 0.9, 1.0]))
def test_the_mean_loss_is_the_mean_over_every_mask(seed, b, width, keep):
    Y, U, V, A = net(seed, 2, b, 3, width)
    truth = every_mask(Y, U, V, A, keep)
    assert dropconnect.expected_loss(Y, U, V, A, 1 - keep) == pytest.approx(truth, rel=1e-11)


def test_the_printed_form_is_wrong_for_inputs_that_vary_together():
    Y, U, V, A = net(1, 3, 3, 8, 3)
    truth = every_mask(Y, U, V, A, 0.5)
    assert dropconnect.expected_loss(Y, U, V, A, 0.5) == pytest.approx(truth, rel=1e-11)
    assert abs(dropconnect.papers_form(Y, U, V, A, 0.5) / truth - 1) > 0.05
    assert not dropconnect.agree(A)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.3, 0.8]))
def test_the_printed_form_is_dropout_and_both_agree_on_orthogonal_inputs(seed, b, keep):
    Y, U, V, A = net(seed, 3, b, 6, 4)
    dropout = dropblock.expected_loss(Y, U, V, A, 1, 1 - keep)
    assert dropconnect.papers_form(Y, U, V, A, 1 - keep) == pytest.approx(dropout, rel=1e-11)
    white = dropconnect.whitened(A)
    assert white @ white.T == pytest.approx(np.eye(b), abs=1e-12)
    white = np.arange(1, b + 1)[:, None] * white  # orthogonal is enough
    assert dropconnect.agree(white)
    same = dropconnect.papers_form(Y, U, V, white, 1 - keep)
    assert dropconnect.expected_loss(Y, U, V, white, 1 - keep) == pytest.approx(same, rel=1e-11)
    if b > 1:
        assert not dropconnect.agree(A)


@pytest.mark.parametrize("seed", range(5))
def test_for_rows_that_are_not_orthogonal_the_forms_differ_in_some_net(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 5))
    assert not dropconnect.agree(A)
    i, j = np.unravel_index(np.argmax(np.abs(np.triu(A @ A.T, 1))), (3, 3))
    V = np.zeros((3, 1))
    V[[i, j]] = 1.0
    Y, U = np.zeros((1, 5)), np.ones((1, 1))
    differs = dropconnect.papers_form(Y, U, V, A, 0.5) - dropconnect.expected_loss(Y, U, V, A, 0.5)
    assert differs == pytest.approx(2 * A[i] @ A[j])


def test_the_tolerance_of_agreement_is_a_cosine():
    A = np.array([[1e-8, 0.0], [1e3, 1e6]])
    assert dropconnect.agree(A, 2e-3)
    assert not dropconnect.agree(A, 5e-4)
    assert dropconnect.agree(np.zeros((3, 4)))
    assert dropconnect.agree([[1.0, 2.0]])


def test_sampled_masks_agree_within_four_standard_errors():
    Y, U, V, A = net(2, 4, 5, 7, 6)
    masks = montecarlo.dropconnect(V.shape, 20_000, np.random.default_rng(0), drop=0.6)
    losses = np.array([np.sum((Y - U @ (Z * V / 0.4).T @ A) ** 2) for Z in masks])
    found = montecarlo.estimate(losses)
    assert abs(found.mean - dropconnect.expected_loss(Y, U, V, A, 0.6)) < 4 * found.standard_error
    assert abs(found.mean - dropconnect.papers_form(Y, U, V, A, 0.6)) > 4 * found.standard_error


def test_descent_goes_down_and_its_trace_is_unbiased():
    Y, U, V, A = net(3, 4, 5, 30, 4)
    A = 2 * A / np.linalg.norm(A) * np.sqrt(A.size)
    run = dropconnect.sgd(Y, A, 4, 0.4, steps=3000, learning_rate=3e-3, batch=10, record=300, start=(U, V), seed=1)
    assert run.deterministic[0] == pytest.approx(dropconnect.expected_loss(Y, U, V, A, 0.4))
    assert run.deterministic[-1] == pytest.approx(dropconnect.expected_loss(Y, run.U, run.V, A, 0.4))
    assert run.deterministic[-1] < np.sum(Y**2) < run.deterministic[0]
    settled = run.steps > 1500
    off = (run.stochastic - run.deterministic)[settled]
    assert abs(off.mean()) < 4 * off.std(ddof=1) / np.sqrt(settled.sum())


I3 = np.eye(3)


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, 1.0), r"must be a number in \[0, 1\), received 1.0"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3), "drop, .* is missing"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, 0.5, keep=0.5), "drop or keep, not both"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, keep=0.0), r"must be a number in \(0, 1\], received 0.0"),
    (lambda: dropconnect.optimum(I3, I3, 0, 0.5), "width"),
    (lambda: dropconnect.optimum(I3, np.eye(2), 1, 0.5), "Y must be"),
    (lambda: dropconnect.optimum(I3, I3, 1, 1.0), "drop"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, float("nan")), "received nan"),
    (lambda: dropconnect.expected_loss(I3, I3, np.eye(2), I3, 0.5), "V must be 3×3"),
    (lambda: dropconnect.papers_form(I3, np.eye(2), I3, I3, 0.5), "U must be 3×any"),
    (lambda: dropconnect.papers_form(I3, I3, I3, np.full((3, 3), np.inf), 0.5), "A holds NaN"),
    (lambda: dropconnect.agree(I3, 2), r"tolerance, a cosine, .* received 2"),
    (lambda: dropconnect.whitened(np.ones((2, 5))), "cannot be whitened"),
    (lambda: dropconnect.whitened(np.ones((5, 2))), "A is 5×2"),
    (lambda: dropconnect.sgd(I3, I3, 2, 1), "received 1"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0.5, speed=1), "the settings are .* received 'speed'"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0.5, seed="a"), "seed .* received 'a'"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0.5, start=(I3,)), "two matrices, .* received 1"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, keep=1e-320), "keep must be at least 1e-100"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, [["a"]], 0.5), "A must be a matrix of numbers"),
    (lambda: dropconnect.papers_form(1e100 * I3, 1e90 * I3, 1e90 * I3, I3, 0.5), "beyond the range of float64"),
    (lambda: dropconnect.agree(I3, "a"), "tolerance, a cosine, .* received 'a'"),
)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e308])
def test_agreement_is_independent_of_the_scale_of_a_row(scale):
    A = np.array([[1.0, 1.0], [1.0, -1.0]])
    rows = np.array([[scale], [1.0]])
    assert dropconnect.agree(A * scale)
    assert dropconnect.agree(A * rows)
    assert not dropconnect.agree(np.ones((2, 2)) * scale)
    assert not dropconnect.agree(np.ones((2, 2)) * rows)


def test_keep_still_works_as_a_keyword_and_warns():
    Y, U, V, A = net(4, 2, 3, 5, 2)
    for function in (dropconnect.expected_loss, dropconnect.papers_form):
        with pytest.warns(FutureWarning, match=r"keep=0.7 is the older name; use drop=0.3") as seen:
            old = function(Y, U, V, A, keep=0.7)
        assert old == pytest.approx(function(Y, U, V, A, drop=0.3), rel=1e-14)
        assert seen[0].filename == __file__  # it points to the caller
    with pytest.warns(FutureWarning, match="use drop=0.3"):
        old = dropconnect.sgd(Y, A, 2, keep=0.7, steps=5, learning_rate=1e-3)
    new = dropconnect.sgd(Y, A, 2, drop=0.3, steps=5, learning_rate=1e-3)
    assert old.deterministic == pytest.approx(new.deterministic)


def by_descent(Y, X, width, drop, starts=5):
    """The least mean loss that L-BFGS finds over U, V themselves."""
    rng = np.random.default_rng(0)
    a, b, odds, sizes = len(Y), len(X), drop / (1 - drop), np.sum(X**2, axis=1)

    def loss(theta):
        U, V = theta[: a * width].reshape(a, width), theta[a * width :].reshape(b, width)
        E, u, v = U @ (V.T @ X) - Y, np.sum(U**2, axis=0), (V**2).T @ sizes
        by_U, by_V = E @ X.T @ V + odds * U * v, X @ (E.T @ U) + odds * sizes[:, None] * V * u
        return np.sum(E**2) + odds * u @ v, 2 * np.concatenate([by_U.ravel(), by_V.ravel()])

    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 25}
    return min(
        minimize(loss, rng.standard_normal((a + b) * width), jac=True, method="L-BFGS-B", options=options).fun
        for _ in range(starts)
    )


SHAPES = [
    (3, 4, 8, 4, 0.5),
    (4, 3, 12, 3, 0.3),
    (5, 6, 4, 5, 0.5),
    (6, 6, 30, 3, 0.7),
    (4, 5, 9, 8, 0.05),
    (1, 1, 1, 1, 0.5),
]


@pytest.mark.parametrize(("a", "b", "n", "width", "drop"), SHAPES)
def test_the_optimum_is_what_direct_descent_finds(a, b, n, width, drop):
    Y, *_, X = net(a + 10 * n, a, b, n, width)
    found = dropconnect.optimum(Y, X, width, drop)
    assert found.tight
    assert found.rank <= width
    assert found.value == pytest.approx(by_descent(Y, X, width, drop), rel=1e-9)
    assert found.value == pytest.approx(dropconnect.expected_loss(Y, found.U, found.V, X, drop), rel=1e-12)
    assert found.product == pytest.approx(found.U @ found.V.T)
    D = np.linalg.norm(X, axis=1)
    nuclear = np.linalg.svd(found.product * D, compute_uv=False).sum()
    convex = np.sum((Y - found.product @ X) ** 2) + drop / (1 - drop) / width * nuclear**2
    assert convex == pytest.approx(found.value, rel=1e-9)
    scores = np.linalg.norm(found.U, axis=0) * np.linalg.norm(found.V * D[:, None], axis=0)
    assert scores == pytest.approx(np.full(width, nuclear / width), rel=1e-6)


def test_fewer_units_than_the_rank_leave_a_gap_above_the_bound():
    Y, *_, X = net(7, 5, 5, 20, 2)
    found = dropconnect.optimum(Y, X, 2, 0.05)
    assert found.rank > 2
    assert not found.tight
    assert found.gap == found.value - found.bound > 1e-4 * found.value
    assert found.value == pytest.approx(by_descent(Y, X, 2, 0.05, starts=8), rel=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.1, 0.6]), st.sampled_from([1e-20, 1.0, 1e20]))
def test_no_net_is_below_the_bound_of_its_width(seed, width, drop, scale):
    rng = np.random.default_rng(seed)
    a, b, n = rng.integers(1, 5, 3)
    Y, U, V, X = net(seed, a, b, n, width)
    found = dropconnect.optimum(scale * Y, X, width, drop)
    total = scale**2 * np.sum(Y**2)
    assert -1e-9 * total <= found.value - found.bound
    assert found.tight or found.rank > width
    assert (
        dropconnect.expected_loss(scale * Y, np.sqrt(scale) * U, np.sqrt(scale) * V, X, drop)
        >= found.bound - 1e-9 * total
    )
    for size in (1e-3, 1e-1):
        U, V = (W + size * np.sqrt(scale) * rng.standard_normal(W.shape) for W in (found.U, found.V))
        near = dropconnect.expected_loss(scale * Y, U, V, X, drop)
        assert near >= found.bound - 1e-9 * total


def test_on_orthogonal_inputs_the_optimum_is_that_of_dropout():
    Y, *_, X = net(8, 4, 4, 9, 3)
    X = np.array([[1.0], [2.0], [3.0], [0.5]]) * dropconnect.whitened(X)
    one, other = dropconnect.optimum(Y, X, 3, 0.4), dropblock.optimum(Y, X, 3, 1, 0.4)
    assert one.value == pytest.approx(other.value, rel=1e-10)
    assert one.product == pytest.approx(other.product, abs=1e-5)


def test_inputs_that_are_always_zero_and_no_noise_are_handled():
    Y, *_, X = net(9, 3, 4, 9, 3)
    holes = np.vstack([X[:2], np.zeros(9), X[2:]])
    one, other = dropconnect.optimum(Y, X, 3, 0.4), dropconnect.optimum(Y, holes, 3, 0.4)
    assert one.value == pytest.approx(other.value, rel=1e-10)
    assert not other.V[2].any()
    plain = dropconnect.optimum(Y, X, 4, 0.0)
    assert plain.value == pytest.approx(np.sum((Y - Y @ np.linalg.pinv(X) @ X) ** 2))
    for left, right in ((0 * Y, X), (Y, 0 * X)):
        nothing = dropconnect.optimum(left, right, 2, 0.5)
        assert nothing.value == pytest.approx(np.sum(left**2))
        assert not nothing.product.any()
