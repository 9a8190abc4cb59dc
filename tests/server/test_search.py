"""Titles are found by parts of their words, or in spite of typing errors."""

import threading
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.server import search as search_module
from offdiag.server.limits import Refusal
from offdiag.server.search import MOST_NEAR, Search
from offdiag.title_search import TitleIndex
from tests.fixtures.serving import until


def plain(text):
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if not unicodedata.combining(c)).casefold()


def slow_search(titles, order, query):
    wanted = plain(query).strip()
    hits = [i for i in order if all(word in plain(titles[i]) for word in wanted.split())]
    return sorted(hits, key=lambda i: not plain(titles[i]).startswith(wanted))  # stable: popularity otherwise


words = st.text(st.sampled_from("aàbBéE ñ-ß "), max_size=6)


@given(st.lists(words, min_size=1, max_size=20), words, st.randoms(use_true_random=False))
def test_search_finds_the_same_items_as_a_slow_one(titles, query, random):
    order = list(range(len(titles)))
    random.shuffle(order)
    search = Search(titles, order)
    wanted = slow_search(titles, order, query)
    exact = bool(wanted)
    if not wanted:
        wanted = [order[place] for place, _ in TitleIndex([titles[i] for i in order]).find(query, MOST_NEAR)]
    assert search(query, 0, 100) == (wanted, len(wanted), exact or not wanted)
    assert search(query, 2, 3) == (wanted[2:5], len(wanted), exact or not wanted)


def test_the_nearest_titles_are_offered_for_a_typing_error():
    titles = ["Alien", "Fullmetal Alchemist: Brotherhood", "Fullmetal Alchemist", "Brazil"]
    search = Search(titles, [3, 1, 2, 0])
    hits = search("fulmetal alchmist", 0, 10)
    assert set(hits.columns) == {1, 2}
    assert (hits.total, hits.exact) == (2, False)
    assert search("alchemist", 0, 10) == ([1, 2], 2, True)
    assert search("fulmetal alchmist", 1, 1) == (hits.columns[1:], 2, False)
    assert search("xqzw", 0, 10) == ([], 0, True)


def test_a_search_does_not_wait_long_for_the_index(monkeypatch):
    monkeypatch.setattr(search_module, "PATIENCE", 0.01)
    go = threading.Event()

    class Slow(TitleIndex):
        def __init__(self, titles):
            go.wait(60)
            super().__init__(titles)

    monkeypatch.setattr(search_module, "TitleIndex", Slow)
    search = Search(["Alien", "Brazil"], [0, 1])
    assert search("ali", 0, 5) == ([0], 1, True)
    with pytest.raises(Refusal, match="still being prepared"):
        search("alein", 0, 5)
    go.set()
    until(lambda: search._index.done())
    assert search("alein", 0, 5) == ([0], 1, False)


@pytest.mark.slow
def test_items_are_found_by_their_words(service, models):
    model = models["exact"]
    order = np.argsort(-model.popularity_, kind="stable")
    popular = service.client.get("/items", params={"limit": 7, "offset": 2}).json()
    assert [item["id"] for item in popular["items"]] == model.item_ids_[order[2:9]].tolist()
    assert popular["total"] == 150
    assert popular["items"][0]["popularity"] == model.popularity_[order[2]]
    word = model.item_ids_[40].split()[1]
    found = service.client.get("/items", params={"q": f"{word.upper()}  the", "limit": 200}).json()
    titles = model.item_ids_.tolist()
    assert [item["id"] for item in found["items"]] == [titles[i] for i in slow_search(titles, order, f"{word} the")]
    assert service.client.get("/items", params={"q": "zzqqxx"}).json().keys() == {"items", "total", "exact"}
