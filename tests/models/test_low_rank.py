"""The low-rank models: full rank, data or Gram, interruption, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from tests.fixtures.low_rank_problems import (  # noqa: F401
    DATA,
    both_precisions,
    one_blas_thread,
    tastes,
    value_of,
    with_trouble,
)
from tests.laws import oracles
from tests.laws import oracles_low_rank as slow
from tests.laws.strategies import dtypes, interactions

values = st.sampled_from(["binary", "ratings", "counts"])


GIVEN = {"dropout": 0.4, "l2": 2.0, "user_power": 0.0}
MODELS = {
    "LowRankDLAE": lambda **kw: od.LowRankDLAE(**GIVEN | kw),
    "LowRankEDLAE": lambda **kw: od.LowRankEDLAE(**GIVEN | kw),
    "LowRankEDLAE b=.3": lambda **kw: od.LowRankEDLAE(**GIVEN | {"kept_weight": 0.3} | kw),
    "ZeroDiagonalLAE": lambda **kw: od.ZeroDiagonalLAE(**GIVEN | kw),
    "WeightDecayLAE": lambda **kw: od.WeightDecayLAE(**{"l2": 2.0, "user_power": 0.0} | kw),
}
every_model = pytest.mark.parametrize("name", MODELS)
iterated = pytest.mark.parametrize("name", [name for name in MODELS if "EDLAE" in name or "Zero" in name])


def full_rank(name, X, dtype):
    """The weights without a rank limit."""
    if name == "WeightDecayLAE":
        strength, Q = np.linalg.eigh(oracles.gram(X))
        return (Q * np.maximum(1 - 2.0 / np.maximum(strength, 1e-9), 0)) @ Q.T
    if name == "LowRankDLAE":
        return od.DLAE(**GIVEN, dtype=dtype).fit(X).weights_.toarray()
    b = 0.3 if name.endswith("b=.3") else 0.0
    return od.EDLAE(**GIVEN, kept_weight=b, dtype=dtype).fit(X).weights_.toarray()


@every_model
@both_precisions
@pytest.mark.parametrize("extra", [0, 1, 300])
def test_a_rank_of_all_items_or_more_is_the_full_rank_model(name, dtype, extra):
    X = with_trouble()
    model = MODELS[name](rank=X.shape[1] + extra, dtype=dtype).fit(X)
    wanted = full_rank(name, X, dtype)
    tolerance = oracles.TOLERANCE[dtype] * max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(model.weights_.toarray(), wanted, rtol=0, atol=tolerance)
    assert model.stopped_ == ("closed form" if name == "WeightDecayLAE" else "full rank")
    assert model.settings_["rank"] == np.count_nonzero(X.any(axis=0)), "more than the items in use changes nothing"


@settings(max_examples=30)
@given(st.data(), values, dtypes)
def test_every_model_fits_any_data_at_any_rank(draws, kind, dtype):
    X = draws.draw(interactions(values=kind))
    rank = draws.draw(st.integers(1, X.shape[1] + 2))
    for make in MODELS.values():
        model = make(rank=rank, dtype=dtype, l2=5.0).fit(X)
        assert np.isfinite(model.weights_.toarray()).all()
        assert np.isfinite(model.objective_)
        assert model.objectives_[-1] == pytest.approx(model.objective_, rel=1e-4, abs=1e-4)
        assert model.encoder_.shape == model.decoder_.shape
        assert not model.encoder_.flags.writeable
        assert not model.decoder_.flags.writeable
        np.testing.assert_allclose(model.weights_.toarray(), model.encoder_ @ model.decoder_.T, rtol=1e-5, atol=1e-6)


@every_model
@both_precisions
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_models_from_data_gram_and_products_agree(name, dtype, power):
    X = tastes(8, 150, 20)
    X[5] = X[:, 7] = 0
    gram = MODELS[name](rank=4, dtype=dtype, user_power=power, products="gram").fit(X)
    data = MODELS[name](rank=4, dtype=dtype, user_power=power, products="data").fit(X)
    summed = MODELS[name](rank=4, dtype=dtype, user_power=power).fit_gram(od.gram(X, power, dtype=dtype))
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    for model in (gram, data, summed):
        assert model.objective_ == pytest.approx(gram.objective_, rel=tolerance)
        assert model.objective_ == pytest.approx(value_of(model, oracles.gram(X, power)), rel=tolerance)
        assert np.linalg.matrix_rank(model.weights_.toarray(), tol=1e-4) == 4


@every_model
def test_one_rank_less_than_all_items_still_works(name):
    X = DATA["tastes"]
    model = MODELS[name](rank=X.shape[1] - 1, dtype="float64").fit(X)
    full = MODELS[name](rank=X.shape[1], dtype="float64").fit(X)
    assert full.objective_ * (1 - 1e-9) <= model.objective_ <= 1.1 * full.objective_


def test_the_zero_diagonal_model_reports_its_stationarity():
    X = DATA["tastes"]
    model = MODELS["ZeroDiagonalLAE"](rank=4, dtype="float64").fit(X)
    residual = slow.kkt_residual(oracles.gram(X), model.encoder_, model.decoder_, 0.4, 2.0)
    assert model.kkt_residual_ == pytest.approx(residual, rel=1e-2, abs=1e-9)
    assert np.abs(np.diag(model.weights_.toarray())).max() < 1e-12


# Interruption


def interrupt_after(n, what="minimising"):
    """A progress callback that raises KeyboardInterrupt at the n-th report of the stage."""
    heard = []

    def progress(stage, fraction):
        if stage.startswith(what):
            heard.append(fraction)
            if len(heard) == n:
                raise KeyboardInterrupt

    return progress, heard


@iterated
def test_an_interrupted_fit_warns_and_keeps_the_best_iterate(name):
    X = tastes(8, 150, 20)
    progress, heard = interrupt_after(3)
    model = MODELS[name](rank=4, dtype="float64")
    with pytest.warns(od.errors.InterruptedFitWarning, match="interrupted") as caught:
        assert model.fit(X, progress=progress) is model
    assert len(caught) == 1
    assert len(heard) == 3
    assert model.stopped_ == "interrupted"
    assert model.objective_ <= min(model.objectives_) * (1 + 1e-12)
    whole = MODELS[name](rank=4, dtype="float64").fit(X)
    assert whole.stopped_ in ("converged", "iterations")
    assert whole.objective_ <= model.objective_
    assert len(model.objectives_) < len(whole.objectives_)
    assert np.allclose(whole.objectives_[: len(model.objectives_)], model.objectives_, rtol=1e-12, atol=0)
    assert model.objective_ == pytest.approx(value_of(model, oracles.gram(X)), rel=1e-9)
    assert model.recommend(X, k=3).indices.shape == (150, 3)


@pytest.mark.parametrize("start", [2, 3])
def test_an_interruption_in_a_later_start_keeps_the_best_start_so_far(start):
    X = tastes(8, 150, 20)
    one = MODELS["LowRankEDLAE"](rank=4, dtype="float64").fit(X)
    progress, heard = interrupt_after(1, f"start {start} of 3")
    with pytest.warns(od.errors.InterruptedFitWarning):
        model = MODELS["LowRankEDLAE"](rank=4, dtype="float64", starts=3).fit(X, progress=progress)
    assert len(heard) == 1
    assert model.stopped_ == "interrupted"
    assert model.objective_ <= one.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("name", ["LowRankDLAE", "WeightDecayLAE"])
def test_an_interrupted_closed_form_keeps_the_best_subspace_so_far(name):
    X = tastes(8, 150, 20)
    progress, heard = interrupt_after(2, "finding the subspace")
    with pytest.warns(od.errors.InterruptedFitWarning, match="interrupted"):
        model = MODELS[name](rank=4, dtype="float64").fit(X, progress=progress)
    assert len(heard) == 2
    assert model.stopped_ == "interrupted"
    whole = MODELS[name](rank=4, dtype="float64").fit(X)
    assert whole.objective_ <= model.objective_ <= 1.2 * whole.objective_
    assert model.objective_ == pytest.approx(value_of(model, oracles.gram(X)), rel=1e-9)


@iterated
def test_an_interruption_before_the_first_iterate_is_raised(name):
    model = MODELS[name](rank=4)

    def progress(stage, fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(tastes(8, 150, 20), progress=progress)
    assert not hasattr(model, "weights_")


# Bad input


@every_model
@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN"), (np.inf, "infinite"), (-2.0, "negative")])
def test_bad_data_is_named(name, value, message):
    with pytest.raises(od.OffdiagError, match=message):
        MODELS[name](rank=1, products="data").fit(np.array([[1.0, value, 1.0]]))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "WeightDecayLAE"])
def test_dropout_and_l2_both_zero_are_refused(name):
    with pytest.raises(od.OffdiagError, match="dropout and l2 are both 0.*give l2 or dropout > 0"):
        MODELS[name](rank=3, dropout=0.0, l2=0.0).fit(DATA["tastes"])


@both_precisions
def test_weight_decay_without_decay_is_the_truncated_decomposition(dtype):
    G = oracles.gram(DATA["tastes"])
    model = MODELS["WeightDecayLAE"](rank=3, l2=0.0, dtype=dtype).fit(DATA["tastes"])
    Q = np.linalg.eigh(G)[1][:, -3:]
    np.testing.assert_allclose(model.weights_.toarray(), Q @ Q.T, atol=2e-3 if dtype == "float32" else 1e-5)
    assert model.objective_ == pytest.approx(
        np.linalg.eigvalsh(G)[:-3].sum(), rel=1e-5 if dtype == "float32" else 1e-10
    )


@every_model
@pytest.mark.parametrize("kind", ["gram", "data"])
def test_values_whose_squares_overflow_are_a_clear_error(name, kind):
    X = DATA["tastes"] * np.float32(1e25)
    with pytest.raises(od.OffdiagError, match="overflow"):
        MODELS[name](rank=3, products=kind).fit(X)


def test_a_catalogue_too_large_for_a_gram_is_fitted_from_its_data():
    """70,000 items are beyond what LAPACK's packed format can index."""
    m = 70_000
    popular = sparse.csr_array(tastes(0, 400, 40))
    rng = np.random.default_rng(0)
    tail = sparse.csr_array((np.ones(800), (rng.integers(0, 400, 800), rng.integers(0, m - 40, 800))), (400, m - 40))
    X = sparse.csr_array(sparse.hstack([popular, tail]))
    model = od.LowRankEDLAE(rank=2, iterations=2, **GIVEN).fit(X)
    assert model.settings_["products"] == "data"
    assert model.encoder_.shape == (m, 2)
    alone = od.LowRankEDLAE(rank=2, iterations=2, **GIVEN).fit(popular)
    # what the popular items explain of each other remains; the tail adds its own weight and explains little
    assert (X.data**2).sum() - model.objective_ >= 0.9 * ((popular.data**2).sum() - alone.objective_)


def test_a_problem_without_a_minimum_is_reported_with_a_remedy():
    X = (np.random.default_rng(5).random((40, 6)) < 0.4).astype(float)
    words = {"rank": 2, "dropout": 0.3, "l2": 1.0, "user_power": 0.0, "dtype": "float64", "iterations": 1_000}
    with pytest.warns(od.NoMinimiserWarning, match=r"no minimum at rank 2.* item 3 for itself.*kept_weight above 0"):
        model = od.LowRankEDLAE(**words).fit(X)
    assert model.stopped_.startswith("no minimiser")
    assert od.LowRankEDLAE(**words, kept_weight=0.05).fit(X).stopped_ == "converged"


@both_precisions
@pytest.mark.parametrize("rank", [3, 11, 40])
def test_hidden_dropout_shrinks_by_the_closed_form_of_the_lab(rank, dtype):
    X = with_trouble()
    model = od.LowRankDLAE(rank=rank, hidden_dropout=0.2, dtype=dtype, **GIVEN).fit(X)
    width = min(rank, np.count_nonzero(X.any(axis=0)))  # more units than items in use are not counted
    best = od.lab.dropout.joint_optimum(oracles.gram(X), width, GIVEN["dropout"], 0.2, l2=GIVEN["l2"])
    assert model.objective_ == pytest.approx(best.value, rel=1e-5)
    assert np.allclose(model.weights_.toarray(), best.product, atol=2e-3)
    assert np.count_nonzero(model.decoder_.any(axis=0)) == best.rank
    plain = od.LowRankDLAE(rank=rank, dtype=dtype, **GIVEN).fit(X)
    assert model.objective_ > plain.objective_
