"""Full-rank models after a change of users: Woodbury, its check against the exact Gram, and when it is a refit."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from tests.fixtures.changed_models import CLOSE, assert_same, refitted, rows_of


@pytest.mark.parametrize("cls", [od.EASE, od.DLAE, od.EDLAE, od.RDLAE])
@pytest.mark.parametrize("storage", ["packed", "dense"])
def test_every_full_rank_model_can_be_changed(cls, storage, always_woodbury, X):
    model = cls(l2=3.0, user_power=0.0, propensity_power=0.3, storage=storage).fit(rows_of(X, slice(0, 50)))
    model.update(rows_of(X, slice(50, 60)))
    assert model.last_change.method == ("woodbury" if storage == "packed" else "refit")
    assert_same(model, refitted(model, X))
    assert type(model.weights_) is type(refitted(model, X).weights_)


def test_a_penalty_per_item_means_a_refit(always_woodbury, X):
    model = od.EDLAE(dropout=0.4, l2=3.0, item_power=0.5).fit(rows_of(X, slice(0, 50)))
    model.update(rows_of(X, slice(50, 60)))
    assert model.last_change.method == "refit"
    assert_same(model, refitted(model, X))


def test_the_last_user_of_an_item_can_be_forgotten_without_a_penalty(always_woodbury):
    """H would be singular there: the item has to be removed first."""
    X = np.array(
        [[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]], float
    )
    model = od.EASE(l2=0.0, user_power=0.0, dtype="float64").fit(X)
    certificate = model.forget(X[5:6])
    assert certificate.method == "woodbury"
    rest = np.delete(X, 5, axis=0)
    assert_same(model, refitted(model, rest))
    assert not model.weights_.toarray()[3].any()
    model.update(X[5:6])
    assert model.last_change.method == "woodbury"
    assert_same(model, refitted(model, np.vstack([rest, X[5:6]])))


def test_a_bad_inverse_is_detected_and_computed_again(always_woodbury, model, X):
    """The residual check, with a corrupted inverse."""
    model.weights_.C[layout.positions(15, np.array([3]), np.array([9]))] += 1e-3
    model.update(rows_of(X, [0]))
    assert model.last_change.method == "refit"
    assert_same(model, refitted(model, sparse.csr_array(sparse.vstack([X, rows_of(X, [0])]))))


def test_the_estimated_error_bounds_the_measured_one(always_woodbury, rng):
    X = sparse.csr_array((rng.random((500, 120)) < 0.1).astype(np.float32))
    model = od.EDLAE(dropout=0.4, l2=3.0, user_power=0.0).fit(X)
    for u in range(20):
        certificate = model.forget(rows_of(X, [u]), prove=True)
        assert certificate.proof <= 2 * certificate.weight_error


@pytest.mark.parametrize(("dtype", "value"), [("float32", 9999.0), ("float64", 1e7), ("float64", 1e8)])
def test_a_user_who_outweighs_all_others_is_forgotten_exactly(dtype, value, always_woodbury, rng):
    """The inverse is nearly 0 where such a user was, so a small correction of it says nothing about its error."""
    X = (rng.random((300, 150)) < 0.15).astype(float)
    model = od.EASE(l2=5.0, user_power=0.0, dtype=dtype).fit(X)
    row = np.zeros((1, 150))
    row[0, :4] = value
    try:
        model.update(row)
    except OffdiagError as error:
        # Either is right: what cannot be exact is rejected, and what is accepted is exact.
        assert "singular" in str(error) or "scale the values down" in str(error)  # noqa: PT017
    else:
        assert model.forget(row, prove=True).proof <= CLOSE[dtype]
    assert_same(model, refitted(model, X))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cls", [od.EDLAE, od.DLAE, od.RDLAE, od.EASE])
def test_with_user_weights_a_step_of_the_scale_means_a_refit(cls, dtype, always_woodbury, rng):
    X = sparse.csr_array((rng.random((400, 60)) < rng.random(60) * 0.2).astype(np.float32))
    settings = {} if cls is od.EASE else {"dropout": 0.4}
    model = cls(l2=30.0, user_power=0.5, dtype=dtype, **settings).fit(X)
    methods, scale = [], model.gram_.scale
    for u in np.argsort(-np.diff(X.indptr), kind="stable")[:40]:  # the most active first: the mean weight grows
        certificate = model.forget(rows_of(X, [u]), prove=True)
        methods.append(certificate.method)
        assert certificate.proof <= CLOSE[dtype]
        assert certificate.method == ("woodbury" if model.gram_.scale == scale else "refit")
        scale = model.gram_.scale
    assert methods.count("refit") in (1, 2, 3, 4)
    left = np.argsort(-np.diff(X.indptr), kind="stable")[40:]
    assert_same(model, refitted(model, rows_of(X, np.sort(left))))
