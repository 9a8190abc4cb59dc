"""The service gives what the library gives, and one clear line for every mistake."""

import asyncio
import json
import re
import socket
import threading
import time
import unicodedata
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag import reasons
from offdiag.data.ids import of_type
from offdiag.server import answers, schemas
from offdiag.server import titles as titling
from offdiag.server.app import create
from offdiag.server.limits import Limits
from offdiag.server.metrics import PATHS, SECONDS, WIDTH, Counters
from offdiag.server.model import ServedModel
from tests.fixtures.serving import Service, has_read, make_models, until

pytestmark = pytest.mark.slow

TITLED = "exact"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def models(folder):
    return make_models(folder)


@pytest.fixture(scope="module")
def service(folder, models):
    names = [f"{name}.od" for name in models]
    options = ["--access-log", "access.log", "--max-k", 200, "--max-history", 400, "--timeout", 1.5]
    with Service(folder, *names, "--max-body", 20_000, *options) as running:
        yield running
    assert "Traceback" not in running.log


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


# Answers


@pytest.mark.parametrize("name", ["exact", "dense", "sparse", "low-rank", "wmf"])
def test_lists_are_those_of_the_library(service, models, name):
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
def test_block_allow_and_seen_items_are_those_of_the_library(service, models, name):
    model, rng = models[name], np.random.default_rng(1)
    ids = model.item_ids_.tolist()
    history, block, allow = ([ids[i] for i in rng.choice(len(ids), n, replace=False)] for n in (10, 40, 30))
    for words in (
        {"block": block},
        {"allow": allow},
        {"allow": allow, "block": block},
        {"allow": []},
        {"exclude_seen": False},
        {"exclude_seen": False, "block": block},
    ):
        for past in (history, []):
            got = service.post("/recommend", history=past, k=50, model=name, **words)
            same(listed(got), expected(model, past, 50, **words))


def test_long_block_lists_are_kept_too(service, models):
    ids = models["exact"].item_ids_.tolist()
    got = service.post("/recommend", history=ids[:3], k=200, block=ids[3:140])
    same(listed(got), expected(models["exact"], ids[:3], 200, block=ids[3:140]))
    assert len(listed(got)) == len(ids) - 140


def test_unknown_ids_are_left_out_and_named(service, models):
    ids = models["exact"].item_ids_.tolist()
    got = service.post("/recommend", history=[ids[0], "nobody's", 7, ids[5], ids[0], 7], block=["x"], k=5)
    assert got.json()["unknown"] == ["nobody's", 7, "x"]
    same(listed(got), expected(models["exact"], [ids[0], ids[5]], 5))
    nothing = service.post("/recommend", history=["nobody's"], k=5)
    same(listed(nothing), expected(models["exact"], [], 5))


def figure(service, name):
    """A value from /metrics."""
    found = re.search(rf"^{re.escape(name)} (\d+)", service.client.get("/metrics").text, re.M)
    return int(found[1])


@pytest.mark.parametrize("path", ["/recommend", "/explain"])
def test_ids_of_the_other_type_mean_the_same_item(service, models, path):
    ids = models["sparse"].item_ids_[:4].tolist()
    words = {"model": "sparse"} | ({"item": ids[3]} if path == "/explain" else {"k": 5, "block": ids[3:]})
    as_text = words | {name: [str(x) for x in ids[3:]] for name in ("block",) if name in words}
    as_text |= {"item": str(ids[3])} if path == "/explain" else {}
    before = figure(service, 'offdiag_fallbacks_total{history="unknown"}')
    plain = service.post(path, history=ids[:3], **words)
    text = service.post(path, history=[str(x) for x in ids[:3]], **as_text)
    assert text.status_code == 200
    assert text.json() == plain.json()
    assert text.json()["unknown"] == []
    assert figure(service, 'offdiag_fallbacks_total{history="unknown"}') == before


def test_ids_of_the_other_type_are_found_everywhere(service, models):
    a, b = models["sparse"].item_ids_[[3, 5]].tolist()
    for item in (a, str(a)):
        assert service.post("/similar", item=item, model="sparse").json()["item"]["id"] == a
    got = service.post("/compare", history=[str(a)], models=["sparse", "low-rank"], block=[str(b)]).json()
    assert got == service.post("/compare", history=[a], models=["sparse", "low-rank"], block=[b]).json()
    assert got["unknown"] == [[], []]


@pytest.mark.parametrize("other", ["007", " 7", "7.0", "+7", "٧", "7\n", "1_0", "0x7", "9" * 19, "-0"])
def test_only_what_is_written_like_a_number_becomes_one(other):
    assert of_type(other, whole=True) == other
    assert of_type("7", whole=True) == 7
    assert of_type("-7", whole=True) == -7
    assert of_type(7, whole=False) == "7"
    assert of_type("7", whole=False) == "7"
    assert of_type(7, whole=True) == 7


def test_a_list_of_popular_items_says_so(service, models):
    before = {kind: figure(service, f'offdiag_fallbacks_total{{history="{kind}"}}') for kind in ("empty", "unknown")}
    unknown = figure(service, "offdiag_unknown_ids_total")
    first = models["exact"].item_ids_[0].item()
    assert service.post("/recommend", history=[first, "?"], k=1).json()["fallback"] is None
    assert service.post("/recommend", history=[], k=1).json()["fallback"] == "popular"
    got = service.post("/recommend", history=["nobody's", "no one's", 7], k=1).json()
    assert (got["fallback"], got["unknown"]) == ("popular", ["nobody's", "no one's", 7])
    got = service.post("/compare", history=[first], models=["exact", "sparse"]).json()
    assert (got["fallback"], got["unknown"]) == ([None, "popular"], [[], [first]])
    assert figure(service, 'offdiag_fallbacks_total{history="empty"}') == before["empty"] + 1
    assert figure(service, 'offdiag_fallbacks_total{history="unknown"}') == before["unknown"] + 2
    assert figure(service, "offdiag_unknown_ids_total") == unknown + 1 + 3 + 1


def test_filters_may_name_items_that_are_newer_than_the_model(service, models):
    ids = models["exact"].item_ids_.tolist()
    got = service.post("/recommend", history=ids[:2], k=200, allow=[*ids[5:9], "new"], block=[ids[6], "newer"])
    assert got.json()["unknown"] == ["newer", "new"]
    assert {item["id"] for item in got.json()["items"]} == {ids[5], ids[7], ids[8]}
    assert service.post("/recommend", history=ids[:2], allow=["new"]).json()["items"] == []


@pytest.mark.parametrize("words", [{"history": ["new"]}, {"allow": ["new"]}, {"block": ["new"]}])
def test_unknown_ids_are_refused_where_that_is_asked_for(service, models, words):
    asked = {"history": models["exact"].item_ids_[:2].tolist()} | words
    answer = service.post("/recommend", **asked, strict=True)
    one_error(answer, 404)
    assert "'new'" in answer.json()["error"]
    assert service.post("/recommend", **asked, strict=False).status_code == 200


def test_strict_holds_for_explanations_and_comparisons(service, models):
    ids = models["exact"].item_ids_.tolist()
    one_error(service.post("/explain", history=["new"], item=ids[0], strict=True), 404)
    one_error(service.post("/compare", history=[ids[0]], models=["exact", "sparse"], strict=True), 404)
    assert service.post("/compare", history=[ids[0]], models=["exact", "dense"], strict=True).status_code == 200
    many = service.post("/recommend", history=[f"{'x' * 300}{n}" for n in range(50)], strict=True)
    one_error(many, 404)
    assert len(many.text) < 5000


@pytest.mark.parametrize("name", ["allow", "block"])
def test_filters_are_bounded(folder, models, name):
    app = create([folder / "exact.od"], limits=Limits(filter=50))

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answers = [await client.post("/recommend", json={"history": [], name: [1] * n}) for n in (50, 51)]
            described = (await client.get("/openapi.json")).json()
        body = described["paths"]["/recommend"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        return answers, json.dumps(body["properties"][name])

    (good, bad), described = asyncio.run(run())
    assert good.status_code == 200
    one_error(bad, 422)
    assert bad.json()["error"] == f"{name}: at most 50 ids, received 51"
    assert '"maxItems": 50' in described


def test_whole_numbers_that_json_readers_round_travel_as_text(tmp_path):
    X = (np.random.default_rng(0).random((80, 9)) < 0.4).astype(np.float32)
    ids = np.array([3, 2**53 - 1, -(2**53 - 1), 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 2**63 - 1, -(2**63)])
    model = od.EDLAE().fit(od.Interactions(X, np.arange(80), ids))
    model.save(tmp_path / "long.od", updatable=True)
    served = ServedModel("long", tmp_path / "long.od")
    assert [type(one) for one in served.json_ids] == [int] * 3 + [str] * 6
    assert [int(one) for one in served.json_ids] == ids.tolist()
    for place, one in enumerate(ids.tolist()):
        assert served.columns([one]) == ([place], [])
        assert served.columns([str(one)]) == ([place], [])
    told = answers.explain(served, schemas.Explain(history=[str(2**53), 3], item=str(2**53 + 1)))
    assert told["item"]["id"] == str(2**53 + 1)
    assert {part["id"] for part in told["contributions"]} == {str(2**53), 3}
    pair = answers.pair(served, schemas.Pair(item=str(2**63 - 1), other=-(2**63)))
    assert (pair["item"]["id"], pair["other"]["id"]) == (str(2**63 - 1), str(-(2**63)))


def test_whole_numbers_may_be_written_with_a_point(service, models):
    ids = models["sparse"].item_ids_[:3].tolist()
    got = service.client.post(
        "/recommend", content=f'{{"history": [{ids[0]}.0, {ids[1]}e0], "k": 4.0, "model": "sparse"}}'
    )
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
        told = model.explain([history], item["id"])
        assert [r["id"] for r in item["reasons"]] == told.items[:2].tolist()
        np.testing.assert_allclose([r["contribution"] for r in item["reasons"]], told.contributions[:2], rtol=1e-6)
    assert "reasons" not in service.post("/recommend", history=history, k=1).json()["items"][0]


def test_requests_at_the_same_time_get_their_own_answers(service, models):
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
def test_similar_items_are_those_of_the_library(service, models, name):
    model = models[name]
    for item in model.item_ids_[[0, 77, 149]].tolist():
        got = service.post("/similar", item=item, k=200, model=name)
        same(listed(got), next(iter(model.similar([item], 200))))
        assert got.json()["item"]["id"] == item


@pytest.mark.parametrize("name", ["exact", "dense", "sparse", "low-rank"])
def test_explanations_are_those_of_the_library(service, models, name):
    model = models[name]
    ids = model.item_ids_.tolist()
    history = ids[5:60:9]
    told = model.explain([history], ids[100])
    got = service.post("/explain", history=[*history, "?"], item=ids[100], model=name).json()
    assert [part["id"] for part in got["contributions"]] == told.items.tolist()
    assert [part["contribution"] for part in got["contributions"]] == told.contributions.tolist()
    assert [part["rank_without"] for part in got["contributions"]] == told.rank_without.tolist()
    assert (got["score"], got["rank"], got["unknown"]) == (told.score, told.rank, ["?"])
    assert sum(part["contribution"] for part in got["contributions"]) == got["score"]


def test_the_rank_of_an_explanation_is_the_place_in_the_list(service, models):
    ids = models["exact"].item_ids_.tolist()
    order = [item for item, _ in listed(service.post("/recommend", history=ids[:4], k=200))]
    for place in (0, 10, 100):
        assert service.post("/explain", history=ids[:4], item=order[place]).json()["rank"] == place + 1
    assert service.post("/explain", history=ids[:4], item=ids[0]).json()["rank"] is None
    assert service.post("/explain", history=[], item=ids[0]).json()["contributions"] == []


def test_a_pair_is_that_of_the_library(service, models):
    model = models["exact"]
    a, b = model.item_ids_[[4, 9]].tolist()
    told = model.explain_pair(a, b)
    got = service.post("/pair", item=a, other=b).json()
    assert (got["item"]["id"], got["other"]["id"]) == (a, b)
    for name in ("weight", "together", "alone", "direct", "rest"):
        assert got[name] == getattr(told, name)
    through = sum(third["amount"] for third in got["through"])
    assert got["direct"] + through + got["others"] + got["rest"] == pytest.approx(got["together"])
    assert [third["id"] for third in got["through"]] == told.items[:10].tolist()


def test_comparisons_tell_the_place_in_the_other_list(service, models):
    ids = models["exact"].item_ids_.tolist()
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


def test_the_card_tells_what_the_file_says(service, models, folder):
    card = service.client.get("/model").json()
    assert card["name"] == "exact"
    assert card["class"] == "EDLAE"
    assert card["models"] == list(models)
    assert card["settings"] == models["exact"].settings_
    assert card["updatable"] is True
    assert card["bytes"] == (folder / "exact.od").stat().st_size
    assert 0 < card["metrics"]["ndcg@100"]["sem"] < card["metrics"]["ndcg@100"]["mean"] < 1
    other = service.client.get("/model", params={"model": "wmf"}).json()
    assert (other["metrics"], other["updatable"]) == (None, False)
    assert other["fingerprint"] != card["fingerprint"]


def test_health_tells_the_models(service, models):
    said = service.client.get("/health").json()
    assert said == {"status": "ok", "models": list(models), "version": od.__version__, "problems": []}


# Search


def plainly(text):
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if not unicodedata.combining(c)).casefold()


def slow_search(titles, order, query):
    wanted = plainly(query).strip()
    hits = [i for i in order if all(word in plainly(titles[i]) for word in wanted.split())]
    return sorted(hits, key=lambda i: not plainly(titles[i]).startswith(wanted))  # stable: popularity otherwise


words = st.text(st.sampled_from("aàbBéE ñ-ß "), max_size=6)


@given(st.lists(words, min_size=1, max_size=20), words, st.randoms(use_true_random=False))
def test_search_finds_what_a_slow_one_finds(titles, query, random):
    order = list(range(len(titles)))
    random.shuffle(order)
    search = titling.Search(titles, order)
    wanted = slow_search(titles, order, query)
    assert search(query, 0, 100) == (wanted, len(wanted))
    assert search(query, 2, 3) == (wanted[2:5], len(wanted))


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
    assert service.client.get("/items", params={"q": "no such title"}).json() == {"items": [], "total": 0}


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.csv", 'item,title\n1,"One, or ""more"""\n2,Deux\n', ("item", "title")),
        ("a.tsv", 'name\tmovie\nOne, or "more"\t1\nDeux\t2\n', ("movie", "name")),
        ("movies.dat", '1::One, or "more"::x\n2::Deux::y\n', ("0", "1")),
        ("b.csv", "\ufeffitem;title\n1;One, or more\n2;Deux\n3;\n", ("item", "title")),
    ],
)
def test_titles_are_read_from_tables(tmp_path, name, text, columns):
    (tmp_path / name).write_text(text, encoding="utf-8")
    read = titling.read(tmp_path / name, *columns)
    assert read["2"] == "Deux"
    assert read["1"].startswith("One, or ")
    assert set(read) == {"1", "2"}


def test_titles_are_read_from_parquet(tmp_path):
    import polars as pl

    pl.DataFrame({"item": [1, 2], "title": ["One", None]}).write_parquet(tmp_path / "t.parquet")
    assert titling.read(tmp_path / "t.parquet") == {"1": "One"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.csv", None, "not a file"),
        ("empty.csv", b"", "empty"),
        ("other.csv", b"a,b\n1,2\n", "columns a, b"),
        ("wrong.parquet", b"no parquet", "wrong.parquet"),
    ],
)
def test_a_wrong_table_of_titles_is_one_clear_line(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(od.OffdiagError, match=said) as error:
        titling.read(tmp_path / name)
    assert "\n" not in str(error.value)


# Mistakes of clients

BAD = [
    ("/recommend", b"", 400),
    ("/recommend", b"{", 400),
    ("/recommend", b"\xff\xfe", 400),
    ("/recommend", b"[" * 5000, 400),
    ("/recommend", b"null", 422),
    ("/recommend", b"[]", 422),
    ("/recommend", b"{}", 422),
    ("/recommend", b'{"history": "a"}', 422),
    ("/recommend", b'{"history": [[1]]}', 422),
    ("/recommend", b'{"history": [true]}', 422),
    ("/recommend", b'{"history": [null]}', 422),
    ("/recommend", b'{"history": [1.5]}', 422),
    ("/recommend", b'{"history": ["\\ud800"]}', 400),
    ("/recommend", b'{"history": [], "k": 0}', 422),
    ("/recommend", b'{"history": [], "k": 201}', 422),
    ("/recommend", b'{"history": [], "k": "5"}', 422),
    ("/recommend", b'{"history": [], "k": 1e999}', 422),
    ("/recommend", b'{"history": [], "reasons": 6}', 422),
    ("/recommend", b'{"history": [], "kk": 5}', 422),
    ("/recommend", b'{"history": [], "model": "nope"}', 404),
    ("/recommend", b'{"history": [' + b",".join([b"1"] * 401) + b"]}", 422),
    ("/recommend", b'{"history": [' + b"9" * 5000 + b"]}", 400),
    ("/similar", b'{"item": "nope"}', 404),
    ("/similar", b'{"item": null}', 422),
    ("/explain", b'{"history": [], "item": 5}', 404),
    ("/pair", b'{"item": "nope", "other": "nope"}', 404),
    ("/compare", b'{"history": [], "models": ["exact"]}', 422),
    ("/compare", b'{"history": [], "models": ["exact", "nope"]}', 404),
]


def one_error(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    said = answer.json()
    assert list(said) == ["error"]
    assert said["error"]
    assert "\n" not in said["error"]
    assert "Traceback" not in said["error"]


@pytest.mark.parametrize(("path", "body", "status"), BAD)
def test_a_bad_request_gets_one_clear_line(service, path, body, status):
    one_error(service.client.post(path, content=body), status)


def test_a_long_list_with_reasons_is_refused(service):
    answer = service.client.post("/recommend", json={"history": [], "k": 101, "reasons": 1})
    assert answer.status_code == 422
    assert "at most 100 with reasons" in answer.json()["error"]


def test_only_the_first_of_many_wrong_ids_is_told(service):
    """Thousands of error messages would keep all other clients waiting."""
    answer = service.client.post("/recommend", json={"history": [[]] * 5000})
    assert answer.status_code == 422
    assert len(answer.text) < 200


def test_the_rank_of_a_long_history_costs_one_row(models, monkeypatch):
    rows = []
    real = reasons.places
    monkeypatch.setattr(reasons, "places", lambda *words: rows.append(words[-2:]) or real(*words))
    model = models["exact"]
    assert model.explain(model.item_ids_[:40].tolist(), model.item_ids_[50]).rank >= 1
    assert rows == [(0, 1)]


def test_models_that_cannot_answer_say_so(service, models):
    a, b = models["wmf"].item_ids_[:2].tolist()
    one_error(service.post("/explain", history=[a], item=b, model="wmf"), 409)
    one_error(service.post("/recommend", history=[a], reasons=1, model="wmf"), 409)
    one_error(service.post("/pair", item=a, other=b, model="wmf"), 409)
    one_error(service.post("/pair", item=a, other=b, model="dense"), 409)
    one_error(service.post("/pair", item=a, other=a), 409)


@pytest.mark.parametrize(
    "path", ["/nope", "/recommend/1", "/static/nope.js", "/static/", "/admin", "/.env", "/metrics/"]
)
def test_unknown_paths_are_not_found(service, path):
    answer = service.client.get(path)
    one_error(answer, answer.status_code)
    assert answer.status_code in (404, 405)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2fpersist.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/..\\app.py",
        "/static/" + "a" * 5000,
    ],
)
def test_no_path_leads_out_of_the_static_files(service, path):
    answer = raw(service, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    status = int(answer.split()[1])
    assert 400 <= status < 500
    assert list(json.loads(answer.partition(b"\r\n\r\n")[2])) == ["error"]


def test_wrong_methods_are_told_the_right_one(service):
    answer = service.client.get("/recommend")
    one_error(answer, 405)
    assert answer.headers["allow"] == "POST"
    one_error(service.client.post("/health"), 405)
    one_error(service.client.delete("/items"), 405)


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"offset": -1}, {"q": "a" * 201}])
def test_bad_queries_get_one_clear_line(service, params):
    one_error(service.client.get("/items", params=params), 422)


def raw(service, *parts):
    """Send bytes over a plain connection; return all that is received."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as plain:
        for part in parts:
            plain.sendall(part)
        answer = b""
        while more := plain.recv(1 << 16):
            answer += more
    return answer


def test_a_body_that_is_announced_too_large_is_refused_unread(service):
    answer = raw(service, b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":"the body is larger than 20000 bytes; send less"}' in answer


def test_a_body_of_unknown_length_is_cut_off(service):
    def endless():
        for _ in range(1000):
            yield b'{"history": [' + b"1," * 500

    with suppress(httpx.TransportError):  # the connection was closed while we were still sending: an answer too
        one_error(service.client.post("/recommend", content=endless()), 413)
    assert service.client.get("/health").status_code == 200


def test_a_slow_body_is_given_up(service):
    begun = time.monotonic()
    answer = raw(service, b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n", b'{"hist')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"too slowly" in answer
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("begin", [b"", b"POST /recom", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: "])
def test_slow_headers_are_given_up(service, begin):
    answer = raw(service, begin)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"error"' in answer


def test_headers_without_end_are_refused(service):
    lines = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 200) for i in range(300))
    answer = raw(service, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"error"' in answer


@pytest.mark.parametrize(
    "rubbish", [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"hello\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100]
)
def test_what_is_no_http_gets_an_error_all_the_same(service, rubbish):
    answer = raw(service, rubbish)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert list(json.loads(answer.partition(b"\r\n\r\n")[2])) == ["error"]


def test_pipelined_requests_are_answered_in_order(service):
    first, second = (b"GET %s HTTP/1.1\r\nHost: localhost\r\n" % path for path in (b"/nope", b"/health"))
    answer = raw(service, first + b"\r\n" + second + b"Connection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"404", b"200"]


def test_a_client_that_goes_away_is_no_failure(service):
    for begin in (b"", b'{"history": ['):
        with socket.create_connection(("127.0.0.1", service.port)) as plain:
            plain.sendall(b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n" + begin)
            until(lambda plain=plain: has_read(plain))
    gone = 'offdiag_requests_total{path="/recommend",status="499"} 2'
    until(lambda: gone in service.client.get("/metrics").text)
    assert 'status="500"' not in service.client.get("/metrics").text


def test_many_idle_connections_do_not_stop_the_others(service):
    idle = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(200)]
    try:
        assert service.client.get("/health").status_code == 200
    finally:
        for connection in idle:
            connection.close()


# What the operator sees


def test_metrics_count_every_request(service):
    def figures():
        text = service.client.get("/metrics").text
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for line in lines:
            assert re.fullmatch(r'\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [-+0-9.e]+', line), line
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}, text

    before, _ = figures()
    for _ in range(3):
        service.post("/recommend", history=[], k=1)
    service.post("/recommend", history=["x"], k=0)
    after, text = figures()
    good, bad = (f'offdiag_requests_total{{path="/recommend",status="{status}"}}' for status in (200, 422))
    assert after[good] - before.get(good, 0) == 3
    assert after[bad] - before.get(bad, 0) == 1
    assert after["offdiag_requests_in_flight"] == 1
    count = after['offdiag_request_seconds_count{path="/recommend"}']
    assert count == sum(n for name, n in after.items() if name.startswith(good[:39]))
    buckets = [n for name, n in after.items() if re.match(r'offdiag_request_seconds_bucket\{.*path="/recommend"', name)]
    assert buckets == sorted(buckets)
    assert len(buckets) == len(SECONDS) + 1
    assert buckets[-1] == count
    assert after['offdiag_model_items{model="exact"}'] == 150
    for name in {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}:
        assert f"# HELP {name} " in text


def test_counters_of_several_processes_add_up():
    table = np.zeros((2, WIDTH))
    first, second = Counters(table, 0), Counters(table, 1)
    for counters, seconds in ((first, 0.004), (second, 0.2), (second, 99.0)):
        counters.begin()
        counters.end("/items", 200, seconds)
    second.begin()
    second.add_batch(3)
    second.add_batch(1000)
    first.add_reload(False)
    text = first.text([]).decode()
    assert 'offdiag_requests_total{path="/items",status="200"} 3' in text
    assert 'offdiag_request_seconds_bucket{le="0.005",path="/items"} 1' in text
    assert 'offdiag_request_seconds_bucket{le="10.0",path="/items"} 2' in text
    assert 'offdiag_request_seconds_bucket{le="+Inf",path="/items"} 3' in text
    assert 'offdiag_reloads_total{outcome="failed"} 1' in text
    assert "offdiag_batch_size_sum 1003.0" in text
    assert "offdiag_requests_in_flight 1" in text
    assert "offdiag_requests_in_flight 0" in Counters(table, 1).text([]).decode(), (
        "a process that died there is forgotten"
    )


def test_an_edge_belongs_to_its_bucket():
    counters = Counters()
    for edge in SECONDS:
        counters.begin()
        counters.end("/", 200, edge)
    lines = [line for line in counters.text([]).decode().splitlines() if "seconds_bucket" in line]
    assert [float(line.rpartition(" ")[2]) for line in lines] == [*range(1, len(SECONDS) + 1), len(SECONDS)]


def test_the_access_log_has_a_line_for_each_request_and_no_ids(service, folder, models):
    secret = models["exact"].item_ids_[17]
    service.post("/recommend", history=[secret, "very-secret"], k=3)
    service.client.get("/items", params={"q": "very-secret"})
    service.client.get("/very-secret")
    service.client.get("/health", headers={"X-Very-Secret": "very-secret"})
    asked = ["/recommend", "/items", "unknown", "/health"]

    def written():  # a line is written after its answer
        whole = [line for line in (folder / "access.log").read_text().splitlines(keepends=True) if line[-1] == "\n"]
        return whole if [json.loads(line)["path"] for line in whole[-4:]] == asked else None

    text = "".join(until(written))
    assert "secret" not in text
    assert secret not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert set(lines[-4]) == {"time", "method", "path", "status", "ms", "items", "process"}
    assert (lines[-4]["path"], lines[-4]["status"], lines[-4]["items"]) == ("/recommend", 200, 2)
    assert (lines[-2]["path"], lines[-2]["status"]) == ("unknown", 404)
    assert {line["path"] for line in lines} <= set(PATHS)


def test_files_of_the_page_are_asked_for_again_after_an_upgrade(service):
    for path in ("/", "/static/app.js"):
        headers = service.client.get(path).headers
        assert headers["cache-control"] == "no-cache"
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_and_description_are_there(service):
    page = service.client.get("/")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    reference = service.client.get("/docs").text
    described = service.client.get("/openapi.json").json()
    for path in described["paths"]:
        assert path in reference
    assert "://" not in re.sub(r"http://www\.w3\.org[^\"]*", "", reference), "nothing is fetched from elsewhere"
    for path in ("/recommend", "/similar", "/explain", "/pair", "/compare"):
        body = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert "example" in body
        for status in ("400", "401", "404", "408", "409", "413", "422", "503", "504"):
            told = described["paths"][path]["post"]["responses"][status]
            assert told["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_nothing_is_left_in_flight(service):
    threads = [threading.Thread(target=service.client.get, args=("/health",)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "offdiag_requests_in_flight 1.0\n" in service.client.get("/metrics").text
