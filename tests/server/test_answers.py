"""The service gives the answers of the library."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import offdiag as od
from offdiag import reasons
from tests.fixtures.serving import metric, one_error

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ids(models):
    """Of the default model."""
    return models["exact"].item_ids_.tolist()


def listed(answer):
    assert answer.status_code == 200, answer.text
    return [(item["id"], item["score"]) for item in answer.json()["items"]]


def expected(model, history, k, **words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.UnknownItemsWarning)
        return next(iter(model.recommend([history], k, **words)))


def same(got, wanted):
    """The same list. BLAS may round a low-rank score differently in a batch: then neighbours may change places."""
    assert len(got) == len(wanted)
    np.testing.assert_allclose([s for _, s in got], [s for _, s in wanted], rtol=1e-4, atol=1e-6)
    gaps = np.abs(np.diff([s for _, s in wanted], prepend=np.inf, append=-np.inf))
    for at, ((a, _), (b, _)) in enumerate(zip(got, wanted, strict=True)):
        assert a == b or min(gaps[at], gaps[at + 1]) < 1e-6


@pytest.mark.parametrize("name", ["exact", "dense", "sparse", "low-rank", "wmf"])
def test_lists_equal_those_of_the_library(service, models, name):
    model, rng = models[name], np.random.default_rng(0)
    ids = model.item_ids_.tolist()
    for length in (1, 2, 30, 100, 148, 149):
        history = [ids[i] for i in rng.choice(len(ids), length, replace=False)]
        for k in (1, 20, 200):
            got = service.post("/recommend", history=history, k=k, model=name)
            same(listed(got), expected(model, history, k))
            assert got.json()["model"] == name
            assert got.json()["unknown"] == []


@pytest.mark.parametrize("name", ["exact", "sparse"])
def test_filtered_lists_equal_those_of_the_library(service, models, name):
    model, rng = models[name], np.random.default_rng(1)
    ids = model.item_ids_.tolist()
    history, block, allow = ([ids[i] for i in rng.choice(len(ids), n, replace=False)] for n in (10, 40, 30))
    for words in (
        {"block": block},
        {"block": ids[3:140]},
        {"allow": allow},
        {"allow": allow, "block": block},
        {"allow": []},
        {"exclude_seen": False},
        {"exclude_seen": False, "block": block},
    ):
        for past in (history, []):
            got = service.post("/recommend", history=past, k=50, model=name, **words)
            same(listed(got), expected(model, past, 50, **words))


def test_unknown_ids_are_ignored_and_listed(service, models, ids):
    got = service.post("/recommend", history=[ids[0], "nobody's", 7, ids[5], ids[0], 7], block=["x"], k=5)
    assert got.json()["unknown"] == ["nobody's", 7, "x"]
    same(listed(got), expected(models["exact"], [ids[0], ids[5]], 5))
    nothing = service.post("/recommend", history=["nobody's"], k=5)
    same(listed(nothing), expected(models["exact"], [], 5))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/recommend", lambda a, b, c: {"history": [a, b], "block": [c], "k": 5, "model": "sparse"}),
        ("/explain", lambda a, b, c: {"history": [a, b], "item": c, "model": "sparse"}),
        ("/similar", lambda a, b, c: {"item": a, "model": "sparse"}),
        ("/compare", lambda a, b, c: {"history": [a], "block": [b], "models": ["sparse", "low-rank"]}),
    ],
)
def test_ids_of_the_other_type_mean_the_same_item(service, models, path, body):
    ids = models["sparse"].item_ids_[:3].tolist()
    before = metric(service, 'offdiag_fallbacks_total{history="unknown"}')
    number, text = (service.post(path, **body(*some)) for some in (ids, map(str, ids)))
    assert text.status_code == 200
    assert text.json() == number.json()
    assert not any(text.json().get("unknown", []))
    assert metric(service, 'offdiag_fallbacks_total{history="unknown"}') == before


def test_lists_of_popular_items_are_marked_and_counted(service, ids):
    before = {kind: metric(service, f'offdiag_fallbacks_total{{history="{kind}"}}') for kind in ("empty", "unknown")}
    unknown = metric(service, "offdiag_unknown_ids_total")

    def marks(path, **body):
        answer = service.post(path, k=1, **body).json()
        return answer["fallback"], answer["fallback_reason"], answer["unknown"]

    assert marks("/recommend", history=[ids[0], "?"]) == (None, None, ["?"])
    assert marks("/recommend", history=[]) == ("popular", "empty", [])
    strangers = ["nobody's", "no one's", 7]
    assert marks("/recommend", history=strangers) == ("popular", "unknown", strangers)
    both = marks("/compare", history=ids[:1], models=["exact", "sparse"])
    assert both == ([None, "popular"], [None, "unknown"], [[], ids[:1]])
    assert metric(service, 'offdiag_fallbacks_total{history="empty"}') == before["empty"] + 1
    assert metric(service, 'offdiag_fallbacks_total{history="unknown"}') == before["unknown"] + 2
    assert metric(service, "offdiag_unknown_ids_total") == unknown + 1 + 3 + 1


@pytest.mark.parametrize("name", ["exact", "sparse", "low-rank"])
def test_a_batch_gives_the_answers_of_single_requests(service, models, name):
    model, rng = models[name], np.random.default_rng(2)
    ids = model.item_ids_.tolist()
    lengths = [0, 1, 3, 100, *rng.integers(1, 8, 40)]  # more than are ranked in one part
    histories = [[ids[i] for i in rng.choice(len(ids), n, replace=False)] for n in lengths]
    histories += [["nobody's"], [ids[3], "nobody's", ids[3]]]
    before = [metric(service, f'offdiag_fallbacks_total{{history="{kind}"}}') for kind in ("empty", "unknown")]
    for words in ({}, {"block": ids[:9]}, {"block": ids[:9], "exclude_seen": False}, {"allow": ids[20:40]}):
        answer = service.post("/batch", histories=histories, k=5, model=name, **words)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["answers"]) == len(histories)
        for history, got in zip(histories, answer.json()["answers"], strict=True):
            one = service.post("/recommend", history=history, k=5, model=name, **words)
            same([(item["id"], item["score"]) for item in got.pop("items")], listed(one))
            assert got == {key: value for key, value in one.json().items() if key != "items"}
    after = [metric(service, f'offdiag_fallbacks_total{{history="{kind}"}}') for kind in ("empty", "unknown")]
    assert [b - a for a, b in zip(before, after, strict=True)] == [8, 8]


def test_a_batch_may_ask_for_reasons_and_be_strict(service, ids):
    body = {"histories": [ids[:3], [], ids[3:5]], "k": 4, "reasons": 2}
    for history, got in zip(body["histories"], service.post("/batch", **body).json()["answers"], strict=True):
        assert got == service.post("/recommend", history=history, k=4, reasons=2).json()
    assert service.post("/batch", histories=[]).json() == {"answers": []}
    one_error(service.post("/batch", histories=[ids[:1], ["nobody's"]], strict=True), 404)
    refused = service.post("/batch", histories=[[]] * 11, k=100, reasons=1)
    one_error(refused, 422)
    assert "at most 1000 items in one batch with reasons, received 1100" in refused.text


def test_filters_may_name_unknown_items(service, ids):
    got = service.post("/recommend", history=ids[:2], k=200, allow=[*ids[5:9], "new"], block=[ids[6], "newer"])
    assert got.json()["unknown"] == ["newer", "new"]
    assert {item["id"] for item in got.json()["items"]} == {ids[5], ids[7], ids[8]}
    assert service.post("/recommend", history=ids[:2], allow=["new"]).json()["items"] == []


@pytest.mark.parametrize("words", [{"history": ["new"]}, {"allow": ["new"]}, {"block": ["new"]}])
def test_strict_requests_with_unknown_ids_are_refused(service, ids, words):
    asked = {"history": ids[:2]} | words
    answer = service.post("/recommend", **asked, strict=True)
    one_error(answer, 404)
    assert "'new'" in answer.json()["error"]
    assert service.post("/recommend", **asked, strict=False).status_code == 200


def test_strict_applies_to_explanations_and_comparisons(service, ids):
    one_error(service.post("/explain", history=["new"], item=ids[0], strict=True), 404)
    one_error(service.post("/compare", history=[ids[0]], models=["exact", "sparse"], strict=True), 404)
    assert service.post("/compare", history=[ids[0]], models=["exact", "dense"], strict=True).status_code == 200
    many = service.post("/recommend", history=[f"{'x' * 300}{n}" for n in range(50)], strict=True)
    one_error(many, 404)
    assert len(many.text) < 5000


def test_integers_may_be_written_with_a_decimal_point(service, models):
    ids = models["sparse"].item_ids_[:3].tolist()
    body = f'{{"history": [{ids[0]}.0, {ids[1]}e0], "k": 4.0, "model": "sparse"}}'
    got = service.client.post("/recommend", content=body)
    same(listed(got), expected(models["sparse"], ids[:2], 4))
    for rounded in ("9007199254740993.0", "-1e300", "1e400"):  # the original is unknown
        answer = service.client.post("/recommend", content=f'{{"history": [{rounded}]}}')
        one_error(answer, 422)
        assert "whole number or text" in answer.text


def test_reasons_are_the_strongest_contributions(service, models):
    model = models["exact"]
    history = model.item_ids_[[3, 30, 60, 90]].tolist()
    got = service.post("/recommend", history=history, k=5, reasons=2).json()
    for item in got["items"]:
        reason = model.explain([history], item["id"])
        assert [r["id"] for r in item["reasons"]] == reason.items[:2].tolist()
        np.testing.assert_allclose([r["contribution"] for r in item["reasons"]], reason.contributions[:2], rtol=1e-6)
    assert "reasons" not in service.post("/recommend", history=history, k=1).json()["items"][0]


def test_concurrent_requests_get_their_own_answers(service, models):
    """Waiting requests are ranked in one call: lengths, k, models and blocks must not mix."""
    rng = np.random.default_rng(2)
    asked = []
    for _ in range(150):
        name = str(rng.choice(["exact", "dense", "sparse"]))
        ids = models[name].item_ids_.tolist()
        history = [ids[i] for i in rng.choice(len(ids), rng.integers(1, 40), replace=False)]
        words = {"block": [ids[i] for i in rng.choice(len(ids), 5)]} if rng.random() < 0.3 else {}
        words |= {"exclude_seen": False} if rng.random() < 0.3 else {}
        asked.append((name, history, int(rng.integers(1, 60)), words))

    def ask(question):
        name, history, k, words = question
        return listed(service.post("/recommend", history=history, k=k, model=name, **words))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, asked))
    for (name, history, k, words), got in zip(asked, answers, strict=True):
        same(got, expected(models[name], history, k, **words))


@pytest.mark.parametrize("name", ["exact", "dense", "sparse", "low-rank"])
def test_similar_items_equal_those_of_the_library(service, models, name):
    model = models[name]
    for item in model.item_ids_[[0, 77, 149]].tolist():
        got = service.post("/similar", item=item, k=200, model=name)
        same(listed(got), next(iter(model.similar([item], 200))))
        assert got.json()["item"]["id"] == item


@pytest.mark.parametrize("name", ["exact", "dense", "sparse", "low-rank"])
def test_explanations_equal_those_of_the_library(service, models, name):
    model = models[name]
    ids = model.item_ids_.tolist()
    history = ids[5:60:9]
    reason = model.explain([history], ids[100])
    got = service.post("/explain", history=[*history, "?"], item=ids[100], model=name).json()
    assert [part["id"] for part in got["contributions"]] == reason.items.tolist()
    assert [part["contribution"] for part in got["contributions"]] == reason.contributions.tolist()
    assert [part["rank_without"] for part in got["contributions"]] == reason.rank_without.tolist()
    assert (got["score"], got["rank"], got["unknown"]) == (reason.score, reason.rank, ["?"])
    assert sum(part["contribution"] for part in got["contributions"]) == got["score"]


def test_the_rank_in_an_explanation_is_that_in_the_list(service, ids):
    order = [item for item, _ in listed(service.post("/recommend", history=ids[:4], k=200))]
    for place in (0, 10, 100):
        assert service.post("/explain", history=ids[:4], item=order[place]).json()["rank"] == place + 1
    assert service.post("/explain", history=ids[:4], item=ids[0]).json()["rank"] is None
    assert service.post("/explain", history=[], item=ids[0]).json()["contributions"] == []


def test_a_pair_reason_equals_that_of_the_library(service, models):
    model = models["exact"]
    a, b = model.item_ids_[[4, 9]].tolist()
    reason = model.explain_pair(a, b)
    got = service.post("/pair", item=a, other=b).json()
    assert (got["item"]["id"], got["other"]["id"]) == (a, b)
    for name in ("weight", "together", "alone", "direct", "rest"):
        assert got[name] == getattr(reason, name)
    through = sum(third["amount"] for third in got["through"])
    assert got["direct"] + through + got["others"] + got["rest"] == pytest.approx(got["together"])
    assert [third["id"] for third in got["through"]] == reason.items[:10].tolist()


def test_comparisons_give_the_rank_in_the_other_list(service, models, ids):
    history, block = ids[10:14], ids[20:25]
    got = service.post("/compare", history=history, k=12, block=block, models=["exact", "dense"]).json()
    full = [[i for i, _ in expected(models[name], history, 150, block=block)] for name in ("exact", "dense")]
    for own, other, entries in ((0, 1, got["lists"][0]), (1, 0, got["lists"][1])):
        assert [entry["id"] for entry in entries] == full[own][:12]
        assert [entry["rank"] for entry in entries] == list(range(1, 13))
        assert [entry["other_rank"] for entry in entries] == [full[other].index(e["id"]) + 1 for e in entries]
    assert got["shared"] == len(set(full[0][:12]) & set(full[1][:12]))
    strangers = service.post("/compare", history=ids[:2], k=3, models=["exact", "sparse"]).json()
    assert {entry["other_rank"] for entries in strangers["lists"] for entry in entries} == {None}
    assert strangers["shared"] == 0


def test_a_long_list_with_reasons_is_refused(service):
    answer = service.post("/recommend", history=[], k=101, reasons=1)
    one_error(answer, 422)
    assert "at most 100 with reasons" in answer.json()["error"]


def test_the_rank_of_a_long_history_costs_one_row(models, monkeypatch):
    rows = []
    real = reasons.places
    monkeypatch.setattr(reasons, "places", lambda *words: rows.append(words[-2:]) or real(*words))
    model = models["exact"]
    assert model.explain(model.item_ids_[:40].tolist(), model.item_ids_[50]).rank >= 1
    assert rows == [(0, 1)]


def test_a_question_that_a_model_cannot_answer_is_a_conflict(service, models):
    a, b = models["wmf"].item_ids_[:2].tolist()
    one_error(service.post("/explain", history=[a], item=b, model="wmf"), 409)
    one_error(service.post("/recommend", history=[a], reasons=1, model="wmf"), 409)
    one_error(service.post("/pair", item=a, other=b, model="wmf"), 409)
    one_error(service.post("/pair", item=a, other=b, model="dense"), 409)
    one_error(service.post("/pair", item=a, other=a), 409)
