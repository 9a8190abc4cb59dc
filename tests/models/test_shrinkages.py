"""Six shrinkages: each against the problem it claims to solve, by another method."""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import offdiag as od
from offdiag.models.shrinkages import SHRINKS, parsed
from offdiag.solvers import shrinkage
from tests.fixtures.shrinkages import SOME, S, data, plain


def test_ridge_of_full_rank_is_the_closed_form_of_denoising():
    X = data()
    model = od.Spectral(rank=9, shrink=S.Ridge(l2=4.0), **plain).fit(X)
    G = X.T @ X
    np.testing.assert_allclose(model.weights_.toarray(), np.linalg.solve(G + 4.0 * np.eye(9), G), atol=1e-12)


def test_ridge_of_full_rank_with_alike_items_is_dlae():
    """A penalty on scaled weights is dropout at the input: l2 there is the odds of dropping here."""
    X = data()
    g = np.sum(X**2, axis=0)
    unit = len(g) / g.sum()  # what the scaling divides the squares by
    model = od.Spectral(rank=9, shrink=S.Ridge(l2=0.5 / unit), **(plain | {"item_power": 1.0})).fit(X)
    dlae = od.DLAE(dropout=0.5 / 1.5, l2=0.0, user_power=0.0, dtype="float64").fit(X)
    np.testing.assert_allclose(model.weights_.toarray(), dlae.weights_.toarray(), atol=1e-10)


def test_weight_decay_is_the_low_rank_model_of_that_name():
    X = data()
    model = od.Spectral(rank=4, shrink=S.WeightDecay(l2=6.0), **plain).fit(X)
    other = od.WeightDecayLAE(rank=4, l2=6.0, user_power=0.0, dtype="float64").fit(X)
    np.testing.assert_allclose(model.weights_.toarray(), other.weights_.toarray(), atol=1e-7)


@pytest.mark.parametrize(("block", "width", "drop"), [(1, 3, 0.3), (1, 6, 0.7), (2, 6, 0.5), (3, 9, 0.8)])
def test_dropout_and_dropblock_minimise_the_mean_over_all_masks(block, width, drop):
    """E‖X − X U diag(z) Vᵀ/θ‖² by enumerating z, minimised over U and V without any knowledge of singular values."""
    X = data(n=12, m=5)
    shrink = S.DropBlock(drop=drop, block=block, width=width) if block > 1 else S.Dropout(drop=drop, width=width)
    model = od.Spectral(rank=min(5, width), shrink=shrink, **plain).fit(X)
    masks = [np.repeat(z, block) for z in itertools.product([0.0, 1.0], repeat=width // block)]
    chances = [np.prod(np.where(z[::block] > 0, 1 - drop, drop)) for z in masks]

    def loss(theta):
        U, V = theta.reshape(2, 5, width)
        value, slope = 0.0, np.zeros((2, 5, width))
        for z, chance in zip(masks, chances, strict=True):
            keep = z / (1 - drop)
            error = (X @ (U * keep)) @ V.T - X
            value += chance * np.sum(error**2)
            slope[0] += 2 * chance * (X.T @ error @ V) * keep
            slope[1] += 2 * chance * (error.T @ X @ U) * keep
        return value, slope.ravel()

    rng = np.random.default_rng(0)
    tries = [
        minimize(loss, 0.5 * rng.standard_normal(10 * width), jac=True, method="L-BFGS-B",
                 options={"maxiter": 5000, "maxfun": 9000, "ftol": 1e-15, "gtol": 1e-10})
        for _ in range(3)
    ]  # fmt: skip
    best = min(tries, key=lambda t: t.fun)
    U, V = best.x.reshape(2, 5, width)
    np.testing.assert_allclose(X @ U @ V.T, X @ model.weights_.toarray(), atol=2e-4)
    sigma = model.singular_values_
    prox, t = shrinkage.k_support_prox(sigma, block, drop / (1 - drop) / (width // block))
    beta = drop / (1 - drop) / (width // block)
    value = np.sum((sigma - prox) ** 2) + beta * shrinkage.k_support_squared(prox, block)
    assert value + max(model.total_ - np.sum(sigma**2), 0) == pytest.approx(best.fun, rel=1e-7)
    np.testing.assert_allclose(model.weights_.shrink * sigma, prox, atol=1e-12)
    assert t.sum() <= block + 1e-9


@pytest.mark.parametrize("shrink", [S.Dropout(drop=0.1, width=3), S.DropBlock(drop=0.1, block=3, width=3)], ids=str)
def test_a_narrow_net_uses_as_many_components_as_it_has_units(shrink):
    X = data()
    wide, narrow = (od.Spectral(rank=rank, shrink=shrink, **plain).fit(X) for rank in (7, 3))
    assert np.count_nonzero(wide.weights_.shrink) == 3
    np.testing.assert_allclose(wide.weights_.toarray(), narrow.weights_.toarray(), atol=1e-6)


def test_early_stop_is_where_a_denoising_net_is_at_that_time():
    """W1 and W2 of a linear net, integrated as matrices from a small aligned start."""
    X = data(n=30, m=4)
    G = X.T @ X
    noise, time, start = 2.0, 6.0, 0.01
    most = np.linalg.eigvalsh(G)[-1]

    def change(_, w):
        W1, W2 = w.reshape(2, 4, 4)
        pull = G - W2 @ W1 @ (G + noise * np.eye(4))
        return np.concatenate([(W2.T @ pull).ravel(), (pull @ W1.T).ravel()])

    begin = np.concatenate([np.sqrt(start) * np.eye(4).ravel()] * 2)
    found = solve_ivp(change, (0, time / most), begin, method="DOP853", rtol=1e-11, atol=1e-13)
    W1, W2 = found.y[:, -1].reshape(2, 4, 4)
    model = od.Spectral(rank=4, shrink=S.EarlyStop(time=time, l2=noise, start=start), **plain).fit(X)
    np.testing.assert_allclose(model.weights_.toarray(), (W2 @ W1).T, atol=1e-8)
    late = model.with_shrink(S.EarlyStop(time=1e9, l2=noise))
    np.testing.assert_allclose(late.weights_.shrink, model.with_shrink(S.Ridge(l2=noise)).weights_.shrink, rtol=1e-9)


def test_the_text_of_a_shrink_is_parsed_back(tmp_path):
    for shrink in SOME:
        assert parsed(str(shrink)) == shrink
        model = od.Spectral(rank=2, shrink=str(shrink)).fit(data())
        model.save(tmp_path / "model.od")
        assert od.load(tmp_path / "model.od").shrink == shrink
    assert parsed("ridge") == S.Ridge(l2="auto")
    assert set(SHRINKS) == {s.name for s in SOME}
