"""A body or query that does not match its description gets one clear line."""

import pytest

from tests.fixtures.serving import one_error

pytestmark = pytest.mark.slow


BAD = {
    ("/recommend", 400): [
        *(b"", b"{", b"\xff\xfe", b"[" * 5000),
        *(b'{"history": [%b]}' % ids for ids in (b'"\\ud800"', b"9" * 5000)),
    ],
    ("/recommend", 422): [
        *(b"null", b"[]", b"{}", b'{"history": "a"}'),
        *(b'{"history": [%b]}' % ids for ids in (b"[1]", b"true", b"null", b"1.5", b",".join([b"1"] * 401))),
        *(b'{"history": [], "k": %b}' % k for k in (b"0", b"201", b'"5"', b"1e999")),
        *(b'{"history": [], "reasons": 6}', b'{"history": [], "kk": 5}'),
    ],
    ("/recommend", 404): [b'{"history": [], "model": "nope"}'],
    ("/batch", 422): [
        *(b'{"histories": %b}' % histories for histories in (b"null", b"[1]", b'["a"]', b"[[], null]", b"[[true]]")),
        *(b'{"history": []}', b'{"histories": [], "k": 0}'),
    ],
    ("/similar", 404): [b'{"item": "nope"}'],
    ("/similar", 422): [b'{"item": null}'],
    ("/explain", 404): [b'{"history": [], "item": 5}'],
    ("/pair", 404): [b'{"item": "nope", "other": "nope"}'],
    ("/compare", 422): [b'{"history": [], "models": ["exact"]}'],
    ("/compare", 404): [b'{"history": [], "models": ["exact", "nope"]}'],
}


@pytest.mark.parametrize(("path", "status", "body"), [(*key, body) for key, bodies in BAD.items() for body in bodies])
def test_an_invalid_body_gets_one_clear_line(service, path, status, body):
    one_error(service.client.post(path, content=body), status)


def test_only_the_first_of_many_invalid_ids_is_reported(service):
    """Thousands of error messages would keep all other clients waiting."""
    answer = service.client.post("/recommend", json={"history": [[]] * 5000})
    assert answer.status_code == 422
    assert len(answer.text) < 200


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"offset": -1}, {"q": "a" * 201}])
def test_an_invalid_query_gets_one_clear_line(service, params):
    one_error(service.client.get("/items", params=params), 422)
