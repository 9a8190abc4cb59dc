"""The penalties that spread embeddings apart, against their definitions written out pair by pair."""

import numpy as np
import pytest

from offdiag.lab import spreading
from tests.fixtures.mistakes import rejects


def embeddings(seed=0, m=9, k=4):
    return np.random.default_rng(seed).standard_normal((m, k)) + 1.0


def cosine_pairs(F):
    E = F / np.linalg.norm(F, axis=1, keepdims=True)
    return np.array([E[i] @ E[j] for i in range(len(F)) for j in range(len(F)) if i != j])


def test_parseval_is_the_distance_of_the_columns_from_orthonormal():
    F = embeddings()
    assert spreading.parseval(F) == pytest.approx(np.sum((F.T @ F - np.eye(4)) ** 2) / 4, rel=1e-12)
    assert spreading.parseval(np.linalg.qr(F)[0]) == pytest.approx(0, abs=1e-12)


def test_spread_out_uses_the_first_two_moments_of_all_cosines():
    F = embeddings()
    pairs = cosine_pairs(F)
    assert np.mean(pairs**2) > 1 / 4  # so that the second term counts
    expected = np.mean(pairs) ** 2 + np.mean(pairs**2) - 1 / 4
    assert spreading.spread_out(F) == pytest.approx(expected, rel=1e-12)
    assert spreading.spread_out(np.eye(4)) == pytest.approx(0, abs=1e-15)
    assert spreading.spread_out(1e6 * F) == pytest.approx(expected, rel=1e-12)  # lengths do not matter


def test_glas_compares_cosines_with_shared_users():
    X = (np.random.default_rng(1).random((30, 9)) < 0.4).astype(float)
    target = spreading.co_occurrence(X.T @ X)
    for i in range(9):
        for j in range(9):
            both = (X[:, i] * X[:, j]).sum()
            assert target[i, j] == pytest.approx((both / X[:, i].sum() + both / X[:, j].sum()) / 2 if i != j else 1)
    F = embeddings()
    wanted = np.array([target[i, j] for i in range(9) for j in range(9) if i != j])
    assert spreading.glas(F, target) == pytest.approx(np.mean((cosine_pairs(F) - wanted) ** 2), rel=1e-12)


def test_items_without_users_or_directions_are_harmless():
    target = spreading.co_occurrence(np.diag([2.0, 0.0, 1.0]))
    assert np.array_equal(target, np.eye(3))
    F = np.vstack([np.eye(2), np.zeros((1, 2))])
    assert spreading.glas(F, target) == 0
    assert np.isfinite(spreading.spread_out(F))


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: spreading.co_occurrence([[1.0, 2.0], [0.0, 1.0]]), "G must be square and symmetric"),
)
