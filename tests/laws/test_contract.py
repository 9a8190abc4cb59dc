"""The same laws for every model. A new model joins by adding one line to MODELS."""

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import offdiag as od
from tests.laws import oracles
from tests.laws.examples import close, example
from tests.laws.strategies import interactions

MODELS = {
    "EASE": lambda **kw: od.EASE(l2=3.0, user_power=0.0, **kw),
    "EASE weighted": lambda **kw: od.EASE(l2=3.0, user_power=0.5, **kw),
    "DLAE": lambda **kw: od.DLAE(dropout=0.4, l2=2.0, user_power=0.0, **kw),
    "EDLAE": lambda **kw: od.EDLAE(dropout=0.3, l2=2.0, user_power=0.0, **kw),
    "EDLAE weighted": lambda **kw: od.EDLAE(dropout=0.3, l2=2.0, user_power=0.5, **kw),
    "EDLAE b=.4": lambda **kw: od.EDLAE(dropout=0.3, l2=2.0, kept_weight=0.4, user_power=0.0, **kw),
}
LOW_RANK = {
    "LowRankEDLAE": lambda **kw: od.LowRankEDLAE(rank=3, dropout=0.3, l2=2.0, user_power=0.0, **kw),
    "LowRankEDLAE weighted, from data": lambda **kw: od.LowRankEDLAE(
        rank=3, dropout=0.3, l2=2.0, user_power=0.5, products="data", **kw
    ),
    "LowRankEDLAE of full rank": lambda **kw: od.LowRankEDLAE(rank=99, dropout=0.3, l2=2.0, user_power=0.0, **kw),
    "LowRankDLAE": lambda **kw: od.LowRankDLAE(rank=3, dropout=0.3, l2=2.0, user_power=0.0, **kw),
    "LowRankDLAE, hidden units dropped": lambda **kw: od.LowRankDLAE(
        rank=3, dropout=0.3, l2=2.0, hidden_dropout=0.3, user_power=0.0, **kw
    ),
    "LowRankDLAE of full rank, hidden units dropped": lambda **kw: od.LowRankDLAE(
        rank=99, dropout=0.3, l2=2.0, hidden_dropout=0.1, products="data", **kw
    ),
    "ZeroDiagonalLAE": lambda **kw: od.ZeroDiagonalLAE(rank=3, dropout=0.3, l2=2.0, user_power=0.0, **kw),
    "WeightDecayLAE": lambda **kw: od.WeightDecayLAE(rank=3, l2=2.0, user_power=0.0, **kw),
}
SPECTRAL = {
    "Spectral": lambda **kw: od.Spectral(rank=3, user_power=0.0, **kw),
    "Spectral ridge, from data": lambda **kw: od.Spectral(
        rank=3, shrink=od.spectral.Ridge(l2=2.0), item_power=1.0, products="data", **kw
    ),
    "Spectral of full rank": lambda **kw: od.Spectral(rank=99, shrink="hard", item_power=0.0, **kw),
    "Spectral early stop": lambda **kw: od.Spectral(rank=4, shrink="early-stop:time=20,l2=auto", **kw),
}
EVERY = {
    **MODELS,
    **LOW_RANK,
    **SPECTRAL,
    "auto": lambda **kw: od.EDLAE(**kw),
    "Popularity": lambda **kw: od.Popularity(),
    "EDLAE dense": lambda **kw: od.EDLAE(dropout=0.3, l2=2.0, storage="dense", dtype="float64"),
    "EDLAE normalised": lambda **kw: od.EDLAE(dropout=0.3, l2=2.0, item_power=0.6, **kw),
    "RDLAE": lambda **kw: od.RDLAE(l2=2.0, propensity_power=0.3, **kw),
    "low rank auto": lambda **kw: od.LowRankEDLAE(**kw),
    "SparseEDLAE": lambda **kw: od.SparseEDLAE(neighbours=4, l2=2.0, user_power=0.0, **kw),
    "SparseEDLAE smoothed": lambda **kw: od.SparseEDLAE(neighbours=4, l2=2.0, user_power=0.0, rank=3, smooth=0.3, **kw),
    "Blend": lambda **kw: od.Blend(parts="ease,low-rank-dlae,popularity", shares=[1.0, 0.5, 0.1]),
    "Blend auto": lambda **kw: od.Blend(),
    "SLIM": lambda **kw: od.SLIM(tolerance=1e-7, **kw),
    "ItemKNN": lambda **kw: od.ItemKNN(neighbours=5, **kw),
    "WMF": lambda **kw: od.WMF(rank=4, iterations=150, l2=0.05, dtype="float64"),
}
FEW = {"epochs": 3, "batch_users": 20}
TRAINED = {  # trained in batches, so the order of the users matters
    "EmphasizedDAE": lambda **kw: od.EmphasizedDAE(width=5, **FEW),
    "CDAE": lambda **kw: od.CDAE(width=5, **FEW),
    "MultDAE": lambda **kw: od.MultDAE(rank=5, **FEW),
    "MultVAE": lambda **kw: od.MultVAE(rank=3, width=5, **FEW),
}
WITH_NETS = EVERY | (TRAINED if find_spec("torch") else {})
every_model = pytest.mark.parametrize("make", WITH_NETS.values(), ids=WITH_NETS.keys())
in_any_order = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())
linear = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
both_precisions = pytest.mark.parametrize("dtype", ["float32", "float64"])


@linear
@both_precisions
def test_weights_satisfy_the_optimality_conditions(make, dtype):
    """(H B' − G)_ji = 0 off the diagonal: a transposed, clipped or wrongly scaled B fails here."""
    X = example()
    model = make(dtype=dtype).fit(X)
    s = model.settings_
    G = oracles.gram(X.toarray(), s["user_power"])
    B = model.weights_.toarray().astype(np.float64)
    gradient = oracles.gradient(G, B, s.get("dropout", 0.0), s["l2"], s.get("kept_weight", 0.0))
    assert np.abs(gradient).max() <= oracles.TOLERANCE[dtype] * np.abs(G).max()
    assert np.abs(B).max() > 0.01


@linear
@both_precisions
def test_the_data_twice_with_twice_the_l2_gives_the_same_weights(make, dtype):
    X = example()
    model = make(dtype=dtype).fit(X)
    double = make(dtype=dtype).set_params(l2=2 * model.l2).fit(sparse.vstack([X, X]))
    close(double.weights_.toarray(), model.weights_.toarray(), dtype)


@linear
@both_precisions
def test_permuting_items_permutes_the_weights(make, dtype):
    X = example()
    order = np.random.default_rng(1).permutation(X.shape[1])
    close(
        make(dtype=dtype).fit(X[:, order]).weights_.toarray(),
        make(dtype=dtype).fit(X).weights_.toarray()[np.ix_(order, order)],
        dtype,
    )


@in_any_order
def test_the_order_of_users_and_empty_users_do_not_matter(make):
    X = example()
    order = np.random.default_rng(2).permutation(X.shape[0])
    more = sparse.vstack([X[order], sparse.csr_array((3, X.shape[1]), dtype=np.float32)]).tocsr()
    one, other = make().fit(X), make().fit(more)
    close(other.predict(X), one.predict(X), "float32")


@linear
def test_fitting_the_gram_equals_fitting_the_data_and_leaves_the_gram(make):
    X = example()
    model = make().fit(X)
    G = od.gram(X, model.settings_["user_power"])
    before = G.values.copy()
    again = make().fit_gram(G)
    assert np.array_equal(again.weights_.toarray(), model.weights_.toarray())
    assert again.objective_ == model.objective_
    assert np.array_equal(G.values, before)
    assert np.array_equal(again.popularity_, model.popularity_)


@linear
def test_dense_and_packed_weights_are_the_same_numbers(make):
    X = example()
    dense, packed = make(storage="dense").fit(X), make().fit(X)
    assert np.array_equal(dense.weights_.toarray(), packed.weights_.toarray())
    assert np.array_equal(dense.predict(X), packed.predict(X))
    assert packed.weights_.C.size == X.shape[1] * (X.shape[1] + 1) // 2


@given(interactions(min_items=2, values="counts"))
def test_the_family_meets_at_its_corners(X):
    """dropout=0 ≡ EASE and kept_weight=1 ≡ DLAE, to the bit: it is one formula."""
    given = {"l2": 5.0, "user_power": 0.0, "dtype": "float64"}  # l2 is 1e-7 of the largest counts here
    ease = od.EASE(**given).fit(X).weights_.toarray()
    assert np.array_equal(ease, od.EDLAE(dropout=0.0, **given).fit(X).weights_.toarray())
    dlae = od.DLAE(dropout=0.4, **given).fit(X).weights_.toarray()
    assert np.array_equal(dlae, od.EDLAE(dropout=0.4, kept_weight=1.0, **given).fit(X).weights_.toarray())


@pytest.mark.parametrize("model", [od.EDLAE, od.SLIM, od.ItemKNN])
@given(X=interactions(values="counts"))
def test_defaults_work_on_any_data(model, X):
    for fitted in (model().fit(X), model().fit_gram(od.gram(X))):
        assert np.isfinite(fitted.predict(X)).all()
        assert not any(isinstance(value, str) for value in fitted.settings_.values())
        assert fitted.recommend(X, k=3).indices.shape[0] == X.shape[0]
        assert getattr(fitted, "gap_", 0) <= getattr(fitted, "tolerance", 0)


@every_model
def test_saving_and_loading_gives_the_same_model_bit_for_bit(make, tmp_path):
    X, path = example(), tmp_path / "model.od"
    model = make().fit(X)
    model.save(path)
    again = od.load(path)
    again.save(path)  # over the very file it is mapped from
    lists = model.recommend(X, k=4)
    for other in (again, od.load(path)):
        assert type(other) is type(model)
        assert type(other.weights_) is type(model.weights_)
        mine, loaded = model.__getstate__(), dict(vars(other))  # state for update and forget is not saved
        arrays, expected = loaded.pop("weights_").arrays(), mine.pop("weights_").arrays()
        assert {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()} == {
            name: (a.dtype, a.shape, a.tobytes()) for name, a in expected.items()
        }
        np.testing.assert_equal(loaded, mine)
        assert loaded["item_ids_"].dtype == mine["item_ids_"].dtype
        assert other.predict(X).tobytes() == model.predict(X).tobytes()
        found = other.recommend(X, k=4)
        assert np.array_equal(found.indices, lists.indices)
        assert found.scores.tobytes() == lists.scores.tobytes()


@every_model
def test_recommend_never_returns_a_seen_item_and_fills_k(make):
    X = example()
    found = make().fit(X).recommend(X, k=X.shape[1])
    for row, history in zip(found.indices, X.toarray() > 0, strict=True):
        real = row[row >= 0]
        assert not history[real].any()
        assert len(set(real)) == len(real) == len(history) - history.sum()


@every_model
def test_scikit_learn_can_clone_and_configure(make):
    from sklearn.base import clone

    model = make()
    copy = clone(model.fit(example()))
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "weights_")
    for name, value in model.get_params().items():
        assert copy.set_params(**{name: value}) is copy
    with pytest.raises(od.OffdiagError, match="no setting 'nope'"):
        copy.set_params(nope=1)


@every_model
def test_an_unfitted_model_raises_an_error(make):
    for call in (lambda m: m.recommend([[1]]), lambda m: m.predict(example()), lambda m: m.similar(1)):
        with pytest.raises(od.OffdiagError, match="not fitted yet"):
            call(make())


@every_model
@pytest.mark.parametrize("X", [np.zeros((3, 4)), np.zeros((0, 4)), np.zeros((3, 0))])
def test_data_without_interactions_is_refused(make, X):
    with pytest.raises(od.OffdiagError, match="nothing to learn from"):
        make().fit(X)


@every_model
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
def test_a_single_user_or_item_is_enough(make, shape):
    X = np.ones(shape, dtype=np.float32)
    found = make().fit(X).recommend(X, k=3)
    assert (found.indices == -1).all(), "everything has been seen, so nothing is left"
    assert np.isfinite(make().fit(X).predict(X)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\)"),
        ({"dropout": -0.1}, "dropout"),
        ({"dropout": float("nan")}, "dropout"),
        ({"l2": -1.0}, "l2 must be"),
        ({"l2": float("inf")}, "l2 must be"),
        ({"l2": "lots"}, "l2 must be .* or 'auto', received 'lots'"),
        ({"kept_weight": 1.5}, "kept_weight must be"),
        ({"kept_weight": "auto"}, "kept_weight must be"),
        ({"user_power": "x"}, "user_power must be"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"storage": "sparse"}, "storage must be"),
        ({"dropout": True}, "dropout"),
        ({"l2": None}, "l2 must be"),
        ({"dtype": np.float32}, "dtype must be"),
    ],
)
def test_settings_out_of_range_are_named_with_what_was_expected(settings, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.EDLAE(**settings).fit(example())


def test_a_failed_fit_keeps_the_earlier_one():
    X = example()
    model = od.EASE(l2=3.0).fit(X)
    before = model.predict(X)
    model.set_params(l2=0.0, user_power=0.0)
    duplicated = X.toarray()
    duplicated[:, 1] = duplicated[:, 0]
    with pytest.raises(od.OffdiagError, match="singular"):
        model.fit(duplicated)
    assert np.array_equal(model.predict(X), before)


@every_model
def test_an_interrupted_fit_keeps_the_earlier_one(make):
    def stop(stage, done):
        raise TimeoutError  # on Ctrl-C, some models keep the best so far

    X = example()
    model = make().fit(X)
    before, settings = model.predict(X), model.settings_
    try:
        model.fit(X[:30], progress=stop)
    except TimeoutError:
        assert np.array_equal(model.predict(X), before)
        assert model.settings_ is settings
    else:
        assert isinstance(model, od.Popularity), "it reports no progress"


def test_a_gram_of_another_user_power_is_refused():
    with pytest.raises(od.OffdiagError, match="user_power=0.5 but the model asks for 0"):
        od.EASE(l2=1.0, user_power=0.0).fit_gram(od.gram(example(), 0.5))
    with pytest.raises(od.OffdiagError, match="takes a Gram"):
        od.EASE().fit_gram(example())


@pytest.mark.parametrize("ids", [["a", "b"], ["a"] * 14, [[1] * 14], [1.5] * 14])
def test_item_ids_must_be_one_distinct_id_per_column(ids):
    with pytest.raises(od.OffdiagError, match="item id"):
        od.EASE(l2=1.0).fit_gram(od.gram(example()), item_ids=ids)


@every_model
def test_users_are_added_and_removed_or_the_model_refuses(make):
    """Popularity and the linear family change exactly; other models say what to do instead and stay unchanged."""
    X = example(n=90)
    some, rest = X[:30], X[30:]
    model = make().fit(rest)
    before = model.predict(X)
    try:
        model.update(some)
        message = ""
    except od.OffdiagError as error:
        message = str(error)
    if message:
        assert "fit it again" in message or "cannot be updated" in message
        assert np.array_equal(model.predict(X), before)
        return
    assert model.n_users_ == 90
    assert np.array_equal(model.popularity_, X.sum(axis=0))
    certificate = model.forget(some)
    assert certificate.n_users == 60
    exact = not hasattr(model, "objectives_")  # a low-rank minimiser comes only as near as from any other start
    np.testing.assert_allclose(model.predict(X), before, atol=2e-4 if exact else 0.05 * np.abs(before).max())


def test_exactly_these_models_can_be_changed():
    able = {name for name, make in WITH_NETS.items() if make().can_change}
    assert set(WITH_NETS) - able == {
        "Blend",
        "Blend auto",
        "SLIM",
        "ItemKNN",
        "WMF",
        *(TRAINED if find_spec("torch") else ()),
    }
