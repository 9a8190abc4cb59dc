"""One decomposition, six shrinkages: each against the problem it claims to solve, by another method."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import offdiag as od
from offdiag.models.shrinkages import SHRINKS, parsed
from offdiag.solvers import shrinkage
from offdiag.solvers import spectral as solver
from offdiag.solvers.products import item_scale
from tests.laws import oracles
from tests.laws.strategies import interactions

S = od.spectral
SOME = [
    S.Hard(),
    S.Ridge(l2=3.0),
    S.WeightDecay(l2=3.0),
    S.Dropout(drop=0.4),
    S.DropBlock(drop=0.6, block=2),
    S.EarlyStop(time=5.0, l2=1.0),
]
plain = {"item_power": 0.0, "user_power": 0.0, "dtype": "float64"}


def data(seed=0, n=40, m=9):
    rng = np.random.default_rng(seed)
    return (rng.random((n, m)) < rng.uniform(0.1, 0.7, m)).astype(np.float64)


def test_the_decomposition_is_the_svd():
    X = data(n=80, m=30)
    model = od.Spectral(rank=6, shrink="hard", **plain).fit(X)
    _, sigma, Vt = np.linalg.svd(X)
    np.testing.assert_allclose(model.singular_values_, sigma[:6], rtol=1e-9)
    np.testing.assert_allclose(model.weights_.toarray(), Vt[:6].T @ Vt[:6], atol=1e-5)
    assert model.total_ == pytest.approx(np.sum(X**2), rel=1e-12)
    assert model.objective_ == pytest.approx(np.sum(sigma[6:] ** 2), rel=1e-9)


class GivenGram:
    """G @ V from a dense G, as the solver calls it."""

    def __init__(self, G):
        self.G, self.m, self.dtype, self.g = G, len(G), G.dtype, np.diag(G).astype(np.float64)

    def __call__(self, V):
        return self.G @ V


def test_many_components_of_a_wide_spectrum_stay_orthonormal_in_single_precision():
    """Many rounds and restarts, eigenvalues over five decades: the basis must not fall apart."""
    rng = np.random.default_rng(0)
    m, rank = 1500, 150
    R, _ = np.linalg.qr(rng.standard_normal((m, m)))
    values = 6e3 / (1 + np.arange(m)) ** 1.1
    found = solver.decompose(GivenGram(((R * values) @ R.T).astype(np.float32)), rank)
    Q = found.Q.astype(np.float64)
    assert np.abs(Q.T @ Q - np.eye(rank)).max() < 1e-5
    assert np.abs(found.eigenvalues / values[:rank] - 1).max() < 2e-2
    assert found.eigenvalues.sum() == pytest.approx(values[:rank].sum(), rel=1e-3)


@given(interactions(values="counts"), st.sampled_from(["float32", "float64"]), st.sampled_from(SOME))
def test_any_data_gives_finite_scores_and_no_component_grows(X, dtype, shrink):
    model = od.Spectral(rank=5, shrink=shrink, dtype=dtype).fit(X)
    assert np.isfinite(model.predict(X)).all()
    f = model.weights_.shrink
    assert ((f >= 0) & (f <= 1 + 1e-12)).all()
    assert (np.diff(f) <= 1e-9).all()  # larger components are kept better
    assert model.objective_ >= 0


# Each shrinkage against its own problem


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
def test_a_net_narrower_than_the_decomposition_uses_as_many_components_as_it_has_units(shrink):
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


def test_a_denoising_component_follows_its_differential_equation_at_any_eigenvalue():
    for lam, noise, start, time in itertools.product([0.0, 1e-9, 0.3, 50.0], [0.0, 2.0], [1e-4, 0.9], [0.1, 3.0]):
        there = shrinkage.denoised(time, start, np.array([lam]), noise)[0]
        ode = solve_ivp(
            lambda _, w, lam=lam, noise=noise: 2 * w * (lam - w * (lam + noise)), (0, time), [start],
            method="Radau", rtol=1e-11, atol=1e-14,
        )  # fmt: skip
        assert there == pytest.approx(ode.y[0, -1], rel=1e-7)


# What is shared, and what is not


@pytest.mark.parametrize("shrink", SOME, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_another_shrinkage_after_the_fit_is_the_fit_with_that_shrinkage(shrink, dtype):
    X = data(n=60, m=20)
    first = od.Spectral(rank=5, dtype=dtype).fit(X)
    before = first.predict(X)
    other = first.with_shrink(shrink)
    fresh = od.Spectral(rank=5, shrink=shrink, item_power=0.5, dtype=dtype).fit(X)
    np.testing.assert_array_equal(other.predict(X), fresh.predict(X))
    assert other.weights_.Q is first.weights_.Q
    assert other.settings_ == fresh.settings_
    assert other.objective_ == fresh.objective_
    assert other.get_params() == fresh.get_params()
    assert other.auto_l2_ == fresh.auto_l2_
    np.testing.assert_array_equal(first.predict(X), before)  # the first one is unchanged


def test_item_weights_keep_the_sum_of_squares_and_spare_unused_items():
    g = np.array([9.0, 1.0, 0.0, 4.0])
    for power in (0.0, 0.5, 1.0, 2.0):
        scale = item_scale(g, power)
        assert np.sum(g * scale**2) == pytest.approx(g.sum())
        np.testing.assert_allclose(scale[[0, 1]] / scale[3], (g[[0, 1]] / 4.0) ** (-power / 2))
        assert scale[2] == 1


@pytest.mark.parametrize("item_power", [0.0, 0.7])
@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_weights_are_those_of_the_scaled_data(item_power, user_power):
    X = data(n=50, m=12)
    powers = {"item_power": item_power, "user_power": user_power}
    model = od.Spectral(rank=4, shrink="ridge:l2=2", dtype="float64", **powers).fit(X)
    G = oracles.gram(X, user_power)
    R = np.diag(item_scale(np.diag(G).copy(), item_power))
    e, Q = np.linalg.eigh(R @ G @ R)
    e, Q = e[-4:], Q[:, -4:]
    B = R @ (Q * (e / (e + 2))) @ Q.T @ np.linalg.inv(R)
    np.testing.assert_allclose(model.weights_.toarray(), B, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), X @ B, atol=1e-5)
    np.testing.assert_allclose(model.encoder_ @ model.decoder_.T, B, atol=1e-6)
    np.testing.assert_allclose(model.explain(list(range(5)), 7).score, B[:5, 7].sum(), atol=1e-6)


def test_matrix_free_and_gram_agree():
    X = data(n=200, m=40)
    one, other = (od.Spectral(rank=8, products=how, dtype="float64").fit(X) for how in ("gram", "data"))
    np.testing.assert_allclose(one.weights_.toarray(), other.weights_.toarray(), atol=1e-6)
    again = od.Spectral(rank=8, dtype="float64").fit_gram(od.gram(X, 0.5, dtype="float64"))
    assert again.auto_l2_ > 0
    np.testing.assert_allclose(one.weights_.toarray(), again.weights_.toarray(), atol=1e-6)


def test_the_text_of_a_shrink_brings_it_back(tmp_path):
    for shrink in SOME:
        assert parsed(str(shrink)) == shrink
        model = od.Spectral(rank=2, shrink=str(shrink)).fit(data())
        model.save(tmp_path / "model.od")
        assert od.load(tmp_path / "model.od").shrink == shrink
    assert parsed("ridge") == S.Ridge(l2="auto")
    assert set(SHRINKS) == {s.name for s in SOME}


def test_auto_l2_is_resolved_from_the_data_once():
    model = od.Spectral(rank=3, shrink="ridge").fit(data())
    assert model.settings_["shrink"] == f"ridge:l2={model.auto_l2_}"
    assert model.shrink == S.Ridge(l2="auto")
    assert model.with_shrink("weight-decay").settings_["shrink"] == f"weight-decay:l2={model.auto_l2_}"
    assert "l2" not in model.with_shrink("hard").settings_


def test_a_given_shrink_means_the_plain_theory_and_nothing_given_the_better_ranking():
    X = data()
    V = np.linalg.svd(X)[2][:4]
    pure = od.Spectral(rank=4, shrink=S.Hard(), user_power=0.0, dtype="float64").fit(X)
    np.testing.assert_allclose(pure.weights_.toarray(), V.T @ V, atol=1e-6)
    assert pure.settings_["item_power"] == 0.0
    auto = od.Spectral(rank=4).fit(X)
    assert auto.settings_["item_power"] == 0.5
    assert auto.settings_["shrink"] == "dropout:drop=0.5"
    assert (auto.shrink, auto.item_power) == ("auto", "auto")
    same = od.Spectral(rank=4, shrink="dropout:drop=0.5", item_power=0.5).fit(X)
    np.testing.assert_array_equal(auto.predict(X), same.predict(X))


@pytest.mark.parametrize("weight", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_item_that_outweighs_all_others_hides_none_of_their_components(weight, dtype):
    rng = np.random.default_rng(0)
    X = np.c_[np.where(rng.random((300, 1)) < 0.5, weight, 0), rng.random((300, 119)) < 0.1].astype(float)
    sigma = np.linalg.svd(X, compute_uv=False)[:20]
    model = od.Spectral(rank=20, shrink="hard", user_power=0.0, dtype=dtype).fit(X)
    # float32 resolves squares down to 1e-7 of the largest, here 1e10 of the others at worst
    np.testing.assert_allclose(model.singular_values_, sigma, rtol=1e-8 if dtype == "float64" else 0.06)
    other = od.WeightDecayLAE(rank=20, l2=1.0, user_power=0.0, dtype=dtype).fit(X)
    G, B = X.T @ X, other.weights_.toarray().astype(np.float64)
    left = np.sum(X**2) - 2 * np.sum(G * B) + np.sum(B * (G @ B))
    # what 20 components leave, and 1/σ² of each by the decay; a lost one would add its square, about 60
    assert left == pytest.approx(
        np.sum(X**2) - np.sum(sigma**2) + np.sum(sigma**-2.0), abs=1.0 if dtype == "float64" else 30.0
    )


@pytest.mark.parametrize("scale", [1e-15, 1e-8, 1.0, 1e6])
def test_the_scale_of_the_data_does_not_matter(scale):
    X = data()
    sigma = np.linalg.svd(X, compute_uv=False)[:6]
    model = od.Spectral(rank=6, shrink="hard", user_power=0.0).fit(X * scale)
    np.testing.assert_allclose(model.singular_values_ / scale, sigma, rtol=1e-4)


def test_data_of_a_lower_rank_than_asked_for_gives_zeros_beyond_it():
    rng = np.random.default_rng(0)
    X = ((rng.random((50, 3)) < 0.5).astype(float)) @ (rng.random((3, 30)) < 0.5)
    model = od.Spectral(rank=10, shrink="hard", user_power=0.0, dtype="float64").fit(X)
    sigma = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(model.singular_values_, np.r_[sigma[:3], np.zeros(7)], atol=1e-5 * sigma[0])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: S.Dropout(drop=1.0), r"drop of Dropout must be a number in \[0, 1\), received 1.0"),
        (lambda: S.Dropout(drop=float("nan")), "received nan"),
        (lambda: S.Ridge(l2=-1), "l2 of Ridge must be a number"),
        (lambda: S.Ridge(l2="much"), "or 'auto', received 'much'"),
        (lambda: S.DropBlock(block=2.5), "whole number"),
        (lambda: S.DropBlock(block=True), "whole number"),
        (lambda: S.DropBlock(block=4, width=6), "multiple of its block, received width=6 and block=4; use width=4"),
        (lambda: S.EarlyStop(start=0.0), "start of EarlyStop"),
        (lambda: S.Ridge()(np.ones(3)), "chosen by od.Spectral"),
        (lambda: S.Hard()([1.0, np.nan]), "finite singular values"),
        (lambda: od.Spectral(shrink=S.Hard), r"od.spectral.Hard\(\), "),
        (lambda: od.Spectral(shrink="hard").fit(1e-30 * np.eye(4)), "squares of the values vanish"),
        (lambda: od.Spectral(shrink="soft"), "hard, ridge, weight-decay, dropout, dropblock, early-stop"),
        (lambda: od.Spectral(shrink="dropout:rate=1"), "dropout takes drop, width"),
        (lambda: od.Spectral(shrink="dropout:drop=x"), "written like dropout:drop=0.5"),
        (lambda: od.Spectral(shrink=0.5), "received 0.5"),
        (lambda: od.Spectral(item_power="x").fit(np.eye(3)), "item_power must be a number"),
        (lambda: od.Spectral(rank=0).fit(np.eye(3)), "rank must be a whole number"),
        (lambda: od.Spectral().fit(np.zeros((2, 3))), "nothing to learn from"),
        (lambda: od.Spectral().with_shrink("hard"), "not fitted yet"),
    ],
)  # fmt: skip
def test_mistakes_are_told(make, said):
    with pytest.raises(od.OffdiagError, match=said):
        make()


def test_the_command_line_fits_it(tmp_path, monkeypatch):
    from offdiag.cli import main

    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{u},{i}" for u, i in np.argwhere(data()))
    (tmp_path / "t.csv").write_text(f"user,item\n{rows}\n")
    words = [
        "fit",
        "t.csv",
        "-o",
        "m.od",
        "--model",
        "spectral",
        "--rank",
        "3",
        "--shrink",
        "dropblock:drop=0.3,block=3",
    ]
    assert main([*words, "--item-power", "0.25"]) == 0
    model = od.load("m.od")
    assert model.shrink == S.DropBlock(drop=0.3, block=3)
    assert model.item_power == 0.25
    assert main([*words, "--model", "spectral", "--shrink", "no"]) == 2
