"""Sparse models fitted together are, byte by byte, those fitted alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.models import shared_fits
from offdiag.models.shared_fits import SharedFits
from tests.fixtures.sparse_catalogue import example, many_tastes, same_bytes
from tests.laws.strategies import dtypes, interactions


def settings(seed, most, n):
    """Settings that differ in everything that may be shared or not."""
    rng = np.random.default_rng(seed)
    return [
        {
            "neighbours": int(rng.integers(1, most)), "dropout": float(rng.choice([0.0, 0.3, 0.8])),
            "l2": float(rng.choice([0.5, 3.0, 40.0])), "user_power": float(rng.choice([0.0, 0.5])),
            "weight_power": float(rng.choice([1.0, 1.3])), "item_power": float(rng.choice([0.0, 0.5])),
        }
        for _ in range(n)
    ]  # fmt: skip


def assert_the_same(X, models):
    alone = [type(model)(**model.get_params()).fit(X) for model in models]
    for one, together in zip(alone, SharedFits(X).fit(models), strict=True):
        assert same_bytes(one, together)
        assert one.objective_ == together.objective_
        assert one.settings_ == together.settings_
        np.testing.assert_array_equal(one.item_ids_, together.item_ids_)
        np.testing.assert_array_equal(one.popularity_, together.popularity_)


@given(interactions(max_users=30, max_items=20, min_items=2, values="ratings"), st.integers(0, 2**32 - 1), dtypes)
def test_models_fitted_together_are_those_fitted_alone(X, seed, dtype):
    assert_the_same(X, [od.SparseEDLAE(**words, dtype=dtype) for words in settings(seed, 30, 5)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ties_cold_items_and_long_supports_are_shared_to_the_bit(dtype):
    for X in (example(), many_tastes(1, 600, 300), sparse.csr_array(np.ones((4, 1), dtype=np.float32))):
        most = X.shape[1] + 5
        assert_the_same(X, [od.SparseEDLAE(**words, dtype=dtype) for words in settings(2, most, 7)])


def test_columns_that_need_a_cholesky_factor_are_shared_to_the_bit():
    """Almost no penalty: conjugate gradients do not converge, and the factor overwrites its matrix."""
    X = many_tastes(3, 2_000, 60, groups=3)
    words = [{"dropout": 0.0, "l2": l2, "neighbours": k} for l2, k in ((1e-3, 50), (1e-3, 50), (5.0, 59), (1e-2, 20))]
    assert_the_same(X, [od.SparseEDLAE(**one, user_power=0.0, dtype="float64") for one in words])


def test_automatic_settings_are_those_of_a_fit():
    assert_the_same(example(), [od.SparseEDLAE(), od.SparseEDLAE(user_power=0.2, neighbours=7)])


def test_an_error_of_one_model_is_given_in_its_place():
    X = sparse.csr_array(np.repeat(np.ones((5, 1), dtype=np.float32), 3, axis=1))  # three equal items
    models = [od.SparseEDLAE(dropout=0.0, l2=0.0), od.SparseEDLAE(dropout=1.5), od.SparseEDLAE(dropout=0.5, l2=1.0)]
    singular, wrong, fine = SharedFits(X).fit(models)
    assert "singular" in str(singular)
    assert "dropout" in str(wrong)
    assert same_bytes(fine, od.SparseEDLAE(dropout=0.5, l2=1.0).fit(X))


def test_only_plain_columns_are_shared_and_only_if_the_gram_fits(monkeypatch):
    X = example()
    shared = SharedFits(X)
    assert shared.takes(od.SparseEDLAE())
    others = [od.SparseEDLAE(rank=4), od.SparseEDLAE(max_bytes=10_000), od.EDLAE()]
    assert not any(shared.takes(model) for model in others)
    monkeypatch.setattr(shared_fits.memory, "available", lambda: 20_000)
    assert not SharedFits(X).takes(od.SparseEDLAE())


def test_memory_limits_the_models_and_grams_that_are_held(monkeypatch):
    X = example()
    models = [od.SparseEDLAE(neighbours=20, user_power=power, dropout=0.5, l2=1.0) for power in (0.0, 0.25, 0.5, 0.0)]
    monkeypatch.setattr(shared_fits.memory, "available", lambda: 4 * 100_000)
    shared = SharedFits(X)
    assert shared.at_once(models) == 2
    counted = []
    original = shared_fits.WholeGram.count
    monkeypatch.setattr(shared_fits.WholeGram, "count", lambda *args: counted.append(args[1]) or original(*args))
    for model in models:
        (fitted,) = shared.fit([model])
        assert fitted.user_power == model.user_power
    assert counted == [0.0, 0.25, 0.5, 0.0], "room for one Gram only"
    monkeypatch.undo()
    shared = SharedFits(X)
    list(shared.fit(models))
    assert len(shared._grams) == 3
