"""Answers as bytes: always JSON, and errors on one line."""

import json

import pydantic
import pytest

from offdiag.server.replies import error, json_bytes, one_line
from offdiag.server.schemas import Recommend


def test_every_value_becomes_json_that_browsers_can_parse():
    assert json_bytes({"score": float("nan"), "title": "Évasion"}) == '{"score":null,"title":"Évasion"}'.encode()
    assert json.loads(json_bytes(["\ud800"])) == ["\ud800"], "half of a pair of characters is escaped"


def test_an_error_is_one_line_with_the_headers_of_its_refusal():
    reply = error(503, "too many\n  requests", retry_after="1")
    assert (reply.status_code, reply.body) == (503, b'{"error":"too many requests"}')
    assert reply.headers["retry-after"] == "1"


def test_the_first_problems_of_a_body_are_named_and_the_others_counted():
    with pytest.raises(pydantic.ValidationError) as caught:
        Recommend.model_validate({"a": 1, "b": 2, "c": 3, "d": 4})
    line = one_line(caught.value.errors())
    assert line.startswith("history: Field required; a: Extra inputs")
    assert line.endswith("(and 2 more)")
