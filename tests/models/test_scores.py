"""Scores of all items, for users in any form."""

import numpy as np
import pytest

import offdiag as od


@pytest.fixture(scope="module")
def data():
    return od.synthetic.interactions(60, 20, 500, seed=0)


@pytest.fixture(scope="module")
def model(data):
    return od.EASE(l2=5.0).fit(data)


def test_scores_do_not_depend_on_the_form_of_the_users(model, data):
    scores = model.predict(data)
    assert scores.shape == (60, 20)
    assert np.allclose(scores, data.matrix.toarray() @ model.weights_.toarray(), atol=1e-6)
    assert np.array_equal(model.predict(data.matrix), scores)
    assert np.array_equal(model.predict(data.matrix.toarray()), scores)
    assert np.array_equal(model.predict(data.to_polars()), scores)
    assert np.array_equal(model.predict([data.history(user) for user in data.user_ids]), scores)


def test_a_matrix_has_the_columns_of_the_model(model, data):
    for X in (data.matrix[:, :3], data.matrix.toarray()[:, :3]):
        with pytest.raises(od.OffdiagError, match="X has 3 features, but EASE is expecting 20 features as input"):
            model.predict(X)


def test_ids_that_are_unknown_are_warned_about_where_the_call_is(model):
    with pytest.warns(od.UnknownItemsWarning) as caught:
        model.predict([["no such item"]])
    assert caught[0].filename == __file__
    with pytest.warns(od.UnknownItemsWarning) as caught:
        model.score(od.read({"user": [1, 1, 1], "item": [*model.item_ids_[:2].tolist(), "no such item"]}))
    assert caught[0].filename == __file__
