"""One decomposition for all shrinkages, against dense singular values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.lab import dropblock
from offdiag.models.spectral import smooth_part
from offdiag.solvers.products import item_scale
from tests.fixtures.shrinkages import SOME, S, data, plain
from tests.laws import oracles
from tests.laws.strategies import interactions


def test_the_decomposition_is_the_svd():
    X = data(n=80, m=30)
    model = od.Spectral(rank=6, shrink="hard", **plain).fit(X)
    _, sigma, Vt = np.linalg.svd(X)
    np.testing.assert_allclose(model.singular_values_, sigma[:6], rtol=1e-9)
    np.testing.assert_allclose(model.weights_.toarray(), Vt[:6].T @ Vt[:6], atol=1e-5)
    assert model.total_ == pytest.approx(np.sum(X**2), rel=1e-12)
    assert model.objective_ == pytest.approx(np.sum(sigma[6:] ** 2), rel=1e-9)


@given(interactions(values="counts"), st.sampled_from(["float32", "float64"]), st.sampled_from(SOME))
def test_any_data_gives_finite_scores_and_no_component_grows(X, dtype, shrink):
    model = od.Spectral(rank=5, shrink=shrink, dtype=dtype).fit(X)
    assert np.isfinite(model.predict(X)).all()
    f = model.weights_.shrink
    assert ((f >= 0) & (f <= 1 + 1e-12)).all()
    assert (np.diff(f) <= 1e-9).all()  # larger components are kept better
    assert model.objective_ >= 0


def test_the_smooth_part_of_a_blend_grows_with_users_and_items():
    sizes = [(3, 5), (800, 5_000), (5_000, 800), (10**6, 10**5)]
    assert [smooth_part(n, m).rank for n, m in sizes] == [1, 100, 100, 512]
    X = data(n=160, m=48)
    part = smooth_part(*X.shape).fit(X)
    weighted = X / np.sqrt((X > 0).sum(axis=1, keepdims=True).clip(1))  # all users count the same
    _, _, Vt = np.linalg.svd(weighted / np.linalg.norm(weighted, axis=0))
    g = (weighted**2).sum(axis=0)
    expected = g[:, None] ** -0.4 * (Vt[:6].T @ Vt[:6]) * g**0.4
    np.testing.assert_allclose(part.weights_.toarray(), expected, atol=2e-3)


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


@pytest.mark.parametrize("outer_power", ["auto", 0.2])
@pytest.mark.parametrize("item_power", [0.0, 0.7])
@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_weights_are_those_of_the_scaled_data(item_power, user_power, outer_power):
    X = data(n=50, m=12)
    powers = {"item_power": item_power, "user_power": user_power, "outer_power": outer_power}
    model = od.Spectral(rank=4, shrink="ridge:l2=2", dtype="float64", **powers).fit(X)
    G = oracles.gram(X, user_power)
    R = np.diag(item_scale(np.diag(G).copy(), item_power))
    e, Q = np.linalg.eigh(R @ G @ R)
    e, Q = e[-4:], Q[:, -4:]
    outer = item_power / 2 if outer_power == "auto" else outer_power
    S = np.diag(np.diag(G) ** -outer)  # R in another unit, which cancels, if it is "auto"
    B = S @ (Q * (e / (e + 2))) @ Q.T @ np.linalg.inv(S)
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


def test_auto_l2_is_resolved_from_the_data_once():
    model = od.Spectral(rank=3, shrink="ridge").fit(data())
    assert model.settings_["shrink"] == f"ridge:l2={model.auto_l2_}"
    assert model.shrink == S.Ridge(l2="auto")
    assert model.with_shrink("weight-decay").settings_["shrink"] == f"weight-decay:l2={model.auto_l2_}"
    assert "l2" not in model.with_shrink("hard").settings_


def test_a_given_shrink_means_no_weights_of_items():
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
    ("make", "message"),
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
        (lambda: od.Spectral(shrink=S.Hard).fit(np.eye(3)), r"od.spectral.Hard\(\), "),
        (lambda: od.Spectral(shrink="hard").fit(1e-30 * np.eye(4)), "squares of the values vanish"),
        (lambda: od.Spectral(shrink="soft").fit(np.eye(3)), "hard, ridge, weight-decay, dropout, dropblock, early"),
        (lambda: od.Spectral(shrink="dropout:rate=1").fit(np.eye(3)), "dropout takes drop, width"),
        (lambda: od.Spectral(shrink="dropout:drop=x").fit(np.eye(3)), "written like dropout:drop=0.5"),
        (lambda: od.Spectral(shrink=0.5).fit(np.eye(3)), "received 0.5"),
        (lambda: od.Spectral().with_shrink("hard"), "not fitted yet"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, message):
    with pytest.raises(od.OffdiagError, match=message):
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


# Whether the bound is attained


def test_dropout_is_exact_and_other_shrinkages_are_no_noise():
    model = od.Spectral(rank=4, shrink="dropout:drop=0.5").fit(data())
    assert (model.tight_, model.gap_) == (True, 0.0)
    assert (model.with_shrink("ridge:l2=1").tight_, model.with_shrink("hard").gap_) == (None, None)


def test_two_blocks_leave_a_gap_and_many_small_ones_do_not():
    X = data(n=80, m=30)
    model = od.Spectral(rank=8, shrink="dropblock:block=3,width=6", **plain).fit(X)
    assert model.tight_ is False
    best = dropblock.optimum(X.T, np.eye(len(X)), 6, 3, 0.5)  # a net that may produce any hidden layer
    sigma = np.linalg.svd(X, compute_uv=False)
    assert model.gap_ == pytest.approx(best.gap / best.value, rel=1e-4)
    assert np.sum(sigma**2) == pytest.approx(model.total_)
    many = model.with_shrink("dropblock:block=2,width=20")
    assert (many.tight_, many.gap_) == (True, 0.0)


def test_the_gap_survives_saving(tmp_path):
    model = od.Spectral(rank=8, shrink="dropblock:block=3,width=6", dtype="float64").fit(data(n=80, m=30))
    model.save(tmp_path / "spectral.od")
    assert od.load(tmp_path / "spectral.od").gap_ == model.gap_ > 0


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_a_quick_decomposition_spans_what_the_converged_one_does(scale):
    X = od.synthetic.interactions(600, 150, 9_000, seed=0).matrix * scale
    slow, quick = (
        od.Spectral(rank=12, shrink="hard", item_power=1.0, decomposition=name).fit(X)
        for name in ("converged", "quick")
    )
    Q, P = slow.weights_.Q.astype(np.float64), quick.weights_.Q.astype(np.float64)
    np.testing.assert_allclose(P.T @ P, np.eye(12), atol=1e-5)
    assert np.sum((Q.T @ P) ** 2) > 0.98 * 12
    np.testing.assert_allclose(quick.singular_values_, slow.singular_values_, rtol=0.01)


def test_another_outer_power_after_the_fit_is_the_fit_with_it():
    X = data(n=120, m=30)
    model = od.Spectral(rank=6, shrink="hard", item_power=1.0, outer_power=0.4, user_power=1.0).fit(X)
    other = model.with_outer_power(0.25)
    fresh = od.Spectral(**other.get_params()).fit(X)
    assert other.settings_ == fresh.settings_
    np.testing.assert_allclose(other.weights_.toarray(), fresh.weights_.toarray(), atol=1e-4)
    assert model.settings_["outer_power"] == 0.4
    with pytest.raises(od.OffdiagError, match="outer_power"):
        model.with_outer_power("wide")
