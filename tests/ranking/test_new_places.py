"""Places of a list for new items, against lists made one item at a time."""

import copy

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.ranking import new_places
from tests.fixtures.new_products import fitted, grow, interactions

N_NEW = 4  # columns 40 to 43 of the model


@pytest.fixture(scope="module")
def model():
    return grow(fitted())


def slowly(ranked, first, places, k):
    """One list, chosen from all items in order of their scores."""
    found = ranked[:k]
    best_new = [item for item in ranked if item >= first][:places]
    missing = [item for item in best_new if item not in found]
    for item in missing[: max(places - sum(item >= first for item in found), 0)]:
        last = max(place for place, one in enumerate(found) if one < first)
        found = [*found[:last], *found[last + 1 :], item]
    return found


@given(st.integers(1, 12).flatmap(lambda m: st.tuples(st.permutations(range(m)), st.integers(0, m), st.data())))
def test_the_last_known_items_give_way(asked):
    ranked, first, data = asked
    k = data.draw(st.integers(1, len(ranked)))
    places = data.draw(st.integers(1, k))
    new = np.full(places, -1)
    best = [item for item in ranked if item >= first][:places]
    new[: len(best)] = best
    lists = np.array([ranked[:k]]), -np.array([[float(ranked.index(item)) for item in ranked[:k]]])
    values = np.array([[-float(ranked.index(item)) if item >= 0 else -np.inf for item in new.tolist()]])
    items, scores = new_places.give(lists, (new[None], values), first)
    assert items[0].tolist() == slowly(list(ranked), first, places, k)
    assert [-ranked.index(item) for item in items[0].tolist()] == scores[0].tolist()
    assert (items[0] >= first).sum() >= min(places, len(best))


@pytest.mark.parametrize("places", [0, 1, 3, 5, 8])
def test_every_list_has_as_many_new_items_as_asked_for(model, places):
    X = interactions()
    m = len(model.item_ids_) - N_NEW
    plain = model.recommend(X, k=8)
    found = model.recommend(X, k=8, new_places=places, reasons=True)
    ranked = model.recommend(X, k=len(model.item_ids_)).indices
    for row in range(X.shape[0]):
        if not X.matrix[[row]].nnz:
            assert found.indices[row].tolist() == plain.indices[row].tolist()  # popular items
            continue
        whole = [item for item in ranked[row].tolist() if item >= 0]
        assert [item for item in found.indices[row].tolist() if item >= 0] == slowly(whole, m, min(places, 8), 8)
    scores = model.predict([X.matrix[[row]].indices.tolist() for row in range(X.shape[0])])
    at = found.indices >= 0
    assert np.array_equal(found.scores.data[at], np.take_along_axis(scores, np.maximum(found.indices, 0), axis=1)[at])


def test_filters_hold_for_new_items_too(model):
    new = model.item_ids_[-N_NEW:].tolist()
    found = model.recommend([[1, 6]], k=6, new_places=3, block=new[:2])
    assert len(set(new[2:]) & set(found.items[0].tolist())) == 2
    assert not set(new[:2]) & set(found.items[0].tolist())
    some = [*model.item_ids_[:10].tolist(), new[0]]
    found = model.recommend([[11, 16]], k=4, new_places=3, allow=some)
    assert found.items[0, -1] == new[0]
    assert set(found.items[0].tolist()) <= set(some)
    pairs = pl.DataFrame({"user": [0], "item": [new[0]]})
    listed = model.recommend([[1, 6], [1, 6]], k=6, new_places=4, block=pairs).items.tolist()
    assert [new[0] in items for items in listed] == [False, True]


def test_without_new_items_nothing_changes():
    before, X = fitted(), interactions()
    assert np.array_equal(before.recommend(X, k=5, new_places=2).indices, before.recommend(X, k=5).indices)


def test_one_list_at_a_time_gives_the_same(model, tmp_path):
    X = interactions()
    together = model.recommend(X, k=8, new_places=2)
    alone = [
        model.recommend([X.matrix[[row]].indices.tolist()], k=8, new_places=2).indices[0].tolist()
        for row in range(X.shape[0])
    ]
    assert together.indices.tolist() == alone
    written = model.recommend_to(tmp_path / "lists.csv", X, k=8, new_places=2)
    assert written.n_rows == int((together.indices >= 0).sum())


def test_more_varied_lists_have_places_too(model):
    varied = od.Reranked(model, diversity=0.4)
    question = varied.ask(8, new_places=3)
    lists = question.lists(interactions())
    full = np.diff(interactions().matrix.indptr) > 0
    assert ((lists.indices[full] >= 40).sum(axis=1) >= 3).all()


@pytest.mark.parametrize("places", [-1, 11, 1.5, True, "2"])
def test_places_are_a_whole_number_up_to_k(model, places):
    with pytest.raises(od.OffdiagError, match="new_places must be a whole number from 0 to 10"):
        model.recommend([[1]], k=10, new_places=places)


def test_a_quota_and_places_exclude_each_other(model):
    limited = od.Reranked(copy.copy(model), at_most=1, categories={1: "a", 2: "a"})
    with pytest.raises(od.OffdiagError, match="exclude each other"):
        limited.ask(5, new_places=1)
