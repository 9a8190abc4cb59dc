"""Lists of popular items: the share of users is given only where the data surely counts users."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.server.app import create
from offdiag.server.model import EXAMPLE_LENGTH, EXAMPLES
from tests.fixtures.serving import call

POPULAR = [("POST", "/recommend", {"history": [], "k": 5}), ("GET", "/items?limit=5", None)]


def ones():
    return od.synthetic.interactions(300, 40, 3_000, seed=8)


def with_quantities():
    """Sums below the number of users that do not count users."""
    inter = ones()
    matrix = inter.matrix.copy()
    matrix.data[::50] = 2.0
    return od.Interactions(matrix, inter.user_ids, inter.item_ids)


@pytest.mark.parametrize(
    ("data", "model", "known"),
    [
        (ones, od.EASE(l2=10.0), True),
        (ones, od.LowRankEDLAE(rank=5), True),
        (with_quantities, od.EASE(l2=10.0), False),
        (ones, od.ItemKNN(), False),  # keeps nothing of its data
    ],
)
def test_the_share_of_users_is_given_only_where_it_is_certain(tmp_path, data, model, known):
    inter = data()
    model.fit(inter).save(tmp_path / "model.od")
    counts = dict(zip(inter.item_ids.tolist(), (inter.matrix != 0).sum(axis=0).tolist(), strict=True))
    for answer in call(create([tmp_path / "model.od"]), *POPULAR):
        items = answer.json()["items"]
        assert len(items) == 5
        for item in items:
            assert ("users" in item) is known
            assert not known or item["users"] == pytest.approx(counts[item["id"]] / inter.n_users)


def test_lists_for_a_history_have_no_share_of_users(tmp_path):
    inter = ones()
    od.EASE(l2=10.0).fit(inter).save(tmp_path / "model.od")
    (answer,) = call(create([tmp_path / "model.od"]), ("POST", "/recommend", {"history": [inter.item_ids[0].item()]}))
    assert not any("users" in item for item in answer.json()["items"])


def test_examples_are_histories_of_items_that_go_together(tmp_path):
    inter = od.synthetic.catalogue(2_000, 400, 40_000, communities=6, seed=3).interactions
    model = od.EASE(l2=50.0).fit(inter)
    model.save(tmp_path / "model.od")
    (answer,) = call(create([tmp_path / "model.od"]), ("GET", "/examples", None))
    histories = [[item["id"] for item in items] for items in answer.json()["examples"]]
    assert len(histories) == EXAMPLES
    firsts = [history[0] for history in histories]
    assert len(set(firsts)) == EXAMPLES
    assert firsts[0] == model.recommend([[]], k=1).items[0, 0]
    for first, *others in histories:
        assert others == model.similar(first, k=EXAMPLE_LENGTH - 1).items[0].tolist()


@pytest.mark.parametrize("n_items", [1, 2, 5])
def test_a_tiny_catalogue_has_examples_too(tmp_path, n_items):
    od.EASE(l2=1.0).fit(sparse.csr_array(np.ones((3, n_items)))).save(tmp_path / "model.od")
    (answer,) = call(create([tmp_path / "model.od"]), ("GET", "/examples", None))
    assert [len(items) for items in answer.json()["examples"]] == [min(n_items, EXAMPLE_LENGTH)]
