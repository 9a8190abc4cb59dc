"""A penalty that wipes out the weights gives an error that names it; ordinary ones are never rejected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.solvers import precision

X = od.synthetic.interactions(300, 60, 4000, names=False, seed=0)
LOW_RANK = {"rank": 5, "dropout": 0.3}
MAKE = {
    "EASE": lambda **words: od.EASE(**words),
    "DLAE": lambda **words: od.DLAE(**{"dropout": 0.3} | words),
    "EDLAE": lambda **words: od.EDLAE(**{"dropout": 0.3} | words),
    "EDLAE, some weight": lambda **words: od.EDLAE(**{"dropout": 0.3, "kept_weight": 0.2} | words),
    "RDLAE": lambda **words: od.RDLAE(**{"dropout": 0.3} | words),
    "LowRankDLAE": lambda **words: od.LowRankDLAE(**LOW_RANK | words),
    "LowRankEDLAE": lambda **words: od.LowRankEDLAE(**LOW_RANK | words),
    "ZeroDiagonalLAE": lambda **words: od.ZeroDiagonalLAE(**LOW_RANK | words),
    "SparseEDLAE": lambda **words: od.SparseEDLAE(**{"neighbours": 8, "dropout": 0.3} | words),
    "full rank": lambda **words: od.LowRankDLAE(**LOW_RANK | {"rank": 60} | words),
}
WITH_DIAGONAL = ["DLAE", "EDLAE, some weight", "RDLAE", "LowRankEDLAE", "ZeroDiagonalLAE", "full rank"]


OFF = ~np.eye(60, dtype=bool)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("l2", [1e18, 1e30, 1e37, 1e40, 1e200, 1e308])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_are_never_lost_without_an_error(name, l2, dtype):
    model = MAKE[name](l2=l2, dtype=dtype)
    try:
        model.fit(X)
    except od.OffdiagError as error:
        message = str(error)
    else:
        message = None
    if message is not None:
        assert message.startswith("l2 is too large")
        assert dtype in message
        return
    B = model.weights_.toarray().astype(np.float64)
    assert B[OFF].any()
    if name in ("EASE", "EDLAE", "SparseEDLAE"):  # with such a penalty regression on the others no longer matters
        G = od.gram(X, model.settings_["user_power"], dtype="float64").toarray()
        kept = OFF & (B != 0)
        np.testing.assert_allclose(B[kept] * l2, G[kept], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("name", WITH_DIAGONAL)
def test_a_diagonal_that_cancels_is_an_error(name):
    with pytest.raises(od.OffdiagError, match="l2 is too large.*float32.*float64"):
        MAKE[name](l2=1e11, dtype="float32").fit(X)
    exact, coarse = (MAKE[name](l2=1e5, dtype=dtype).fit(X).weights_.toarray() for dtype in ("float64", "float32"))
    judged = OFF if name == "LowRankEDLAE" else np.ones_like(OFF)  # its diagonal is free under full emphasis
    assert np.abs(coarse - exact)[judged].max() < 0.1 * np.abs(exact)[judged].max()


def test_dropout_is_named_where_it_makes_the_penalty():
    with pytest.raises(od.OffdiagError, match="dropout=0.9999999999 is too large.*smaller dropout"):
        od.DLAE(dropout=0.9999999999, l2=1.0).fit(X)
    assert od.EDLAE(dropout=0.9999999999, l2=1.0).fit(X).weights_.toarray().any(), "no diagonal, nothing cancels"


def test_a_shrink_that_leaves_nothing_is_an_error():
    with pytest.raises(od.OffdiagError, match="ridge.*1e\\+200.*float32"):
        od.Spectral(rank=5, shrink=od.spectral.Ridge(l2=1e200)).fit(X)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("l2", [1e-30, 1e-3, 1.0, 1e3, 1e6])
def test_ordinary_penalties_are_accepted(name, l2):
    assert np.isfinite(MAKE[name](l2=l2).fit(X).weights_.toarray()).all()


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    st.floats(0, 0.99),
    st.floats(0, 1e5),
    st.booleans(),
    st.sampled_from(["float32", "float64"]),
)
def test_no_penalty_up_to_a_hundred_thousand_is_refused(counts, dropout, l2, diagonal, dtype):
    g = np.array(counts, dtype=np.float64)
    lam = dropout / (1 - dropout) * g + l2
    precision.check_penalty(g, lam, dtype, dropout=dropout, inverse=True, diagonal=diagonal)
