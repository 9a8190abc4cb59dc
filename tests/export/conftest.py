"""Models of several shapes on the same small data, with ids of both types."""

import numpy as np
import pytest

import offdiag as od

MAKE = {
    "EASE": lambda: od.EASE(l2=10.0),
    "dense EDLAE": lambda: od.EDLAE(l2=10.0, storage="dense"),
    "SparseEDLAE": lambda: od.SparseEDLAE(neighbours=12, dropout=0.4, l2=5.0),
    "LowRankDLAE": lambda: od.LowRankDLAE(rank=8, dropout=0.4, l2=5.0),
    "Spectral": lambda: od.Spectral(rank=8),
}
LOW_RANK = ["LowRankDLAE", "Spectral"]


@pytest.fixture(scope="package", params=[True, False], ids=["titles", "numbers"])
def inter(request):
    return od.synthetic.interactions(400, 60, 5_000, names=request.param, seed=3)


@pytest.fixture(scope="package")
def fitted(inter):
    return {name: make().fit(inter) for name, make in MAKE.items()}


@pytest.fixture
def histories(inter):
    """Ids of some users' items, and an empty history."""
    return [inter.item_ids[inter.matrix[[user]].indices].tolist() for user in range(40)] + [[]]


def assert_same_lists(model, histories, items, scores):
    """The lists of recommend, up to items whose scores are equal within rounding."""
    found = model.recommend(histories, k=len(items[0]))
    expected = np.ma.filled(found.scores, -np.inf)
    np.testing.assert_allclose(np.asarray(scores), expected, rtol=1e-4, atol=1e-6)
    for mine, theirs, score in zip(items, found.items.tolist(), expected, strict=True):
        for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            near = np.abs(score - score[place]) <= 1e-5 * max(1, abs(score[place]))
            assert a == b or near.sum() > 1
