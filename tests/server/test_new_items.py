"""Items that were added to a model after its fit: in every answer, marked, with what they are like."""

import copy

import pytest

import offdiag as od
from offdiag.server import schemas
from offdiag.server.app import create
from tests.fixtures.new_products import ADDED, TITLES, fitted, grow, interactions
from tests.fixtures.serving import Service, call, one_error, until

pytestmark = pytest.mark.slow
FANS = [1, 6, 11]  # a history of one kind, that of item 41


@pytest.fixture(scope="module")
def before():
    return fitted()


@pytest.fixture(scope="module")
def model(before):
    return grow(copy.copy(before))


@pytest.fixture(scope="module")
def asked(model, tmp_path_factory):
    """The answer to one request, to a service with a model that has new items and one without."""
    folder = tmp_path_factory.mktemp("grown")
    model.save(folder / "grown.od", updatable=True)
    od.SparseEDLAE(neighbours=20).fit(interactions()).save(folder / "other.od")
    app = create([folder / "grown.od", folder / "other.od"])
    return lambda path, **body: call(app, ("POST" if body else "GET", path, body or None))[0]


def new_of(items):
    return [item["id"] for item in items if item.get("new")]


def test_lists_have_places_for_new_items(asked, model):
    for words in ({}, {"block": [41]}, {"allow": [2, 3, 7, 8, 42, 43]}):
        wanted = model.recommend([FANS], k=5, new_places=2, **words)
        items = asked("/recommend", history=FANS, k=5, new_places=2, **words).json()["items"]
        assert [item["id"] for item in items] == wanted.items[0].compressed().tolist()
        assert [item["score"] for item in items] == pytest.approx(wanted.scores[0].compressed().tolist())
        assert len(new_of(items)) == 2
    assert asked("/recommend", history=FANS, k=5, new_places=2, model="other").status_code == 200
    batch = asked("/batch", histories=[FANS, []], k=5, new_places=2).json()["answers"]
    assert [len(new_of(answer["items"])) for answer in batch] == [2, 0]  # an empty history gets what is popular
    all_of_them, more = (asked("/recommend", history=FANS, k=5, new_places=n).json()["items"] for n in (5, 6))
    assert more == all_of_them
    reply = asked("/recommend", history=FANS, k=5, new_places=1, one_per_group=True)
    one_error(reply, 409)
    assert "leave one of them out" in reply.text


def test_lists_hold_new_items_with_a_mark_and_what_they_are_like(asked, model):
    wanted = model.recommend([FANS], k=15).items[0].tolist()
    reply = asked("/recommend", history=FANS, k=15, reasons=2).json()
    schemas.Recommendations.model_validate(reply)
    assert [item["id"] for item in reply["items"]] == wanted
    assert new_of(reply["items"]) == [item for item in wanted if item in ADDED] != []
    assert 41 in new_of(reply["items"])
    for item in reply["items"]:
        assert ("new" in item) == ("like" in item) == (item["id"] in ADDED)
        assert item["reasons"]
    (one,) = [item for item in reply["items"] if item["id"] == 41]
    assert one["title"] == TITLES[41]
    assert [(part["id"], part["weight"]) for part in one["like"]] == model.new_items_.like[41]
    assert [part["title"] for part in one["like"]] == [TITLES[item] for item, _ in model.new_items_.like[41]]
    plain = asked("/recommend", history=FANS, k=15).json()["items"]
    assert new_of(plain) == new_of(reply["items"])
    assert not any("like" in item for item in plain)
    batch = asked("/batch", histories=[FANS, [*FANS, 41]], k=15, reasons=2).json()["answers"]
    assert batch[0] == reply
    assert 41 in [part["id"] for item in batch[1]["items"] for part in item["reasons"] if part.get("new")]


def test_similar_items_searches_and_comparisons_mark_them(asked, model):
    similar = asked("/similar", item=41, k=43).json()
    schemas.Likes.model_validate(similar)
    assert [item["id"] for item in similar["items"]] == model.similar(41, k=43).items[0].tolist()
    assert similar["item"]["new"] is True
    assert sorted(new_of(similar["items"])) == [40, 42, 43]
    found = asked("/items?q=film 41").json()
    schemas.Found.model_validate(found)
    assert [(item["id"], item["new"], item["users"]) for item in found["items"]] == [(41, True, 0.0)]
    assert sorted(new_of(asked("/items?limit=44").json()["items"])) == ADDED
    compared = asked("/compare", history=FANS, k=15, models=["grown", "other"]).json()
    schemas.Comparison.model_validate(compared)
    new, old = compared["lists"]
    assert new_of(new) == [item for item in model.recommend([FANS], k=15).items[0].tolist() if item in ADDED]
    assert all(item["other_rank"] is None for item in new if item.get("new"))
    assert new_of(old) == []


def test_explanations_say_what_a_new_item_is_like(asked, model):
    reply = asked("/explain", history=FANS, item=41).json()
    schemas.Explanation.model_validate(reply)
    reason = model.explain(FANS, 41)
    assert (reply["item"]["new"], reply["rank"]) == (True, reason.rank)
    assert reply["score"] == pytest.approx(reason.score)
    assert [(part["id"], part["weight"]) for part in reply["like"]] == reason.like
    reply = asked("/explain", history=[*FANS, 41], item=16).json()
    assert "like" not in reply
    assert "new" not in reply["item"]
    assert new_of(reply["contributions"]) == [41]
    for pair in ({"item": 1, "other": 41}, {"item": 41, "other": 1}):
        answer = asked("/pair", **pair)
        one_error(answer, 409)
        assert "41 was added after the fit" in answer.json()["error"]
    assert asked("/pair", item=1, other=6).status_code == 200


def test_the_card_counts_new_items(asked):
    card, other = asked("/model").json(), asked("/model?model=other").json()
    assert (card["n_items"], card["new_items"]) == (44, 4)
    assert (other["n_items"], other["new_items"]) == (40, 0)


def test_lists_of_popular_items_end_with_them(asked):
    items = asked("/recommend", history=[], k=44).json()["items"]
    assert new_of(items) == ADDED == [item["id"] for item in items[-4:]]
    assert [item["users"] for item in items[-4:]] == [0.0] * 4


def test_items_that_are_added_while_it_runs_are_taken_up(before, tmp_path):
    path = tmp_path / "model.od"
    before.save(path)
    rows = [f"{item},kind {item % 5}" for item in range(44)]
    (tmp_path / "products.csv").write_text("\n".join(["item,kind", *rows, ""]))
    with Service(tmp_path, path, "--reload-every", "0.05") as running:
        assert running.client.get("/model").json()["new_items"] == 0
        one_error(running.post("/similar", item=41), 404)
        od.load(path).add_items(od.read_features(tmp_path / "products.csv", categories="kind"), boost=2.0).save(path)
        until(lambda: running.client.get("/model").json()["new_items"] == 4)
        assert 41 in new_of(running.post("/recommend", history=FANS, k=15).json()["items"])
        od.load(path).remove_items([41]).save(path)
        until(lambda: running.client.get("/model").json()["new_items"] == 3)
        assert 41 not in new_of(running.post("/recommend", history=FANS, k=15).json()["items"])
        assert "Traceback" not in running.log
