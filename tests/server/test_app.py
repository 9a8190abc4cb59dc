"""The application: its paths, and what happens when something is slow, full or broken."""

import logging
import time

import numpy as np
import pytest

import offdiag as od
from offdiag.server import batching
from offdiag.server.app import create
from offdiag.server.limits import Limits
from tests.fixtures.serving import call, one_error

EXPLAIN = ("POST", "/explain", {"history": [501], "item": 502})
RECOMMEND = ("POST", "/recommend", {"history": [501, 502]})


def test_a_slow_answer_times_out(model, monkeypatch):
    monkeypatch.setattr(od.EASE, "explain", lambda *_, **__: time.sleep(1))
    (answer,) = call(create([model], limits=Limits(seconds=0.1)), EXPLAIN)
    assert answer.status_code == 504
    assert answer.json() == {"error": "it took too long: at most 0.1 s"}
    assert answer.headers["connection"] == "close"


def test_details_of_an_internal_error_appear_only_in_the_log(model, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(od.EASE, "explain", broken)
    app = create([model])
    with caplog.at_level(logging.ERROR):
        first, second = call(app, EXPLAIN, RECOMMEND)
    assert first.status_code == 500
    assert list(first.json()) == ["error"]
    assert "secret" not in first.text
    assert "a secret of the inside" in caplog.text
    assert second.status_code == 200
    assert 'path="/explain",status="500"} 1' in app.counters.text([]).decode()


def test_the_scorer_survives_a_failure_of_the_ranking(model, monkeypatch, caplog):
    def broken(jobs):
        raise MemoryError

    app = create([model])
    monkeypatch.setattr(batching, "rank", broken)
    assert call(app, RECOMMEND)[0].status_code == 500
    monkeypatch.undo()
    assert call(app, RECOMMEND)[0].status_code == 200


def test_too_many_waiting_requests_are_turned_away(model):
    (answer,) = call(create([model], limits=Limits(waiting=0)), RECOMMEND)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert list(answer.json()) == ["error"]


def test_a_catalogue_may_have_a_single_item(tmp_path):
    inter = od.read(np.ones((5, 1)))
    od.Popularity().fit(inter).save(tmp_path / "one.od")
    app = create([tmp_path / "one.od"])
    empty, seen, alike = call(
        app,
        ("POST", "/recommend", {"history": [], "k": 5}),
        ("POST", "/recommend", {"history": [0], "k": 5}),
        ("POST", "/similar", {"item": 0}),
    )
    assert [item["id"] for item in empty.json()["items"]] == [0]
    assert seen.json()["items"] == []
    assert alike.json()["items"] == []


@pytest.mark.slow
def test_health_lists_the_models(service, models):
    health = service.client.get("/health").json()
    assert health == {"status": "ok", "models": list(models), "version": od.__version__, "problems": []}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/nope", "/recommend/1", "/static/nope.js", "/static/", "/admin", "/.env", "/metrics/"]
)
def test_unknown_paths_are_not_found(service, path):
    answer = service.client.get(path)
    one_error(answer, answer.status_code)
    assert answer.status_code in (404, 405)


@pytest.mark.slow
def test_a_wrong_method_is_answered_with_the_right_one(service):
    answer = service.client.get("/recommend")
    one_error(answer, 405)
    assert answer.headers["allow"] == "POST"
    one_error(service.client.post("/health"), 405)
    one_error(service.client.delete("/items"), 405)
