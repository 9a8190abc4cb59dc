"""DropConnect in a linear net: the mean loss against every mask, and when it equals that of dropout."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert dropconnect.expected_loss(Y, U, V, A, keep) == pytest.approx(truth, rel=1e-11)


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
    assert dropconnect.papers_form(Y, U, V, A, keep) == pytest.approx(dropout, rel=1e-11)
    white = dropconnect.whitened(A)
    assert white @ white.T == pytest.approx(np.eye(b), abs=1e-12)
    white = np.arange(1, b + 1)[:, None] * white  # orthogonal is enough
    assert dropconnect.agree(white)
    same = dropconnect.papers_form(Y, U, V, white, keep)
    assert dropconnect.expected_loss(Y, U, V, white, keep) == pytest.approx(same, rel=1e-11)
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
    masks = montecarlo.dropconnect(0.4, V.shape, 20_000, np.random.default_rng(0))
    losses = np.array([np.sum((Y - U @ (Z * V / 0.4).T @ A) ** 2) for Z in masks])
    found = montecarlo.estimate(losses)
    assert abs(found.mean - dropconnect.expected_loss(Y, U, V, A, 0.4)) < 4 * found.standard_error
    assert abs(found.mean - dropconnect.papers_form(Y, U, V, A, 0.4)) > 4 * found.standard_error


def test_descent_goes_down_and_its_trace_is_unbiased():
    Y, U, V, A = net(3, 4, 5, 30, 4)
    A = 2 * A / np.linalg.norm(A) * np.sqrt(A.size)
    run = dropconnect.sgd(Y, A, 4, 0.6, steps=3000, learning_rate=3e-3, batch=10, record=300, start=(U, V), seed=1)
    assert run.deterministic[0] == pytest.approx(dropconnect.expected_loss(Y, U, V, A, 0.6))
    assert run.deterministic[-1] == pytest.approx(dropconnect.expected_loss(Y, run.U, run.V, A, 0.6))
    assert run.deterministic[-1] < np.sum(Y**2) < run.deterministic[0]
    settled = run.steps > 1500
    off = (run.stochastic - run.deterministic)[settled]
    assert abs(off.mean()) < 4 * off.std(ddof=1) / np.sqrt(settled.sum())


I3 = np.eye(3)


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, 0.0), r"must be a number in \(0, 1\], received 0.0"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, float("nan")), "received nan"),
    (lambda: dropconnect.expected_loss(I3, I3, np.eye(2), I3, 0.5), "V must be 3×3"),
    (lambda: dropconnect.papers_form(I3, np.eye(2), I3, I3, 0.5), "U must be 3×any"),
    (lambda: dropconnect.papers_form(I3, I3, I3, np.full((3, 3), np.inf), 0.5), "A holds NaN"),
    (lambda: dropconnect.agree(I3, 2), r"tolerance, a cosine, .* received 2"),
    (lambda: dropconnect.whitened(np.ones((2, 5))), "cannot be whitened"),
    (lambda: dropconnect.whitened(np.ones((5, 2))), "A is 5×2"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0), "received 0"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0.5, speed=1), "the settings are .* received 'speed'"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0.5, seed="a"), "seed .* received 'a'"),
    (lambda: dropconnect.sgd(I3, I3, 2, 0.5, start=(I3,)), "two matrices, .* received 1"),
    (lambda: dropconnect.expected_loss(I3, I3, I3, I3, 1e-320), "keep must be at least 1e-100"),
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
