"""The files of the web page and the API reference."""

import json
import re

import pytest

from offdiag.server.answers import QUESTIONS
from tests.fixtures.serving import raw

pytestmark = pytest.mark.slow


OUTSIDE = r"../app.py %2e%2e/app.py ..%2fapp.py %2e%2e%2f%2e%2e%2fpersist.py /etc/passwd %00 ..\app.py"


@pytest.mark.parametrize("path", [*OUTSIDE.split(), "a" * 5000])
def test_no_path_leaves_the_static_files(service, path):
    answer = raw(service, f"GET /static/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    status = int(answer.split()[1])
    assert 400 <= status < 500
    assert list(json.loads(answer.partition(b"\r\n\r\n")[2])) == ["error"]


def test_the_files_of_the_page_are_revalidated_and_isolated(service):
    for path in ("/", "/static/app.js"):
        answer = service.client.get(path)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_the_reference_covers_every_path_and_status(service):
    reference = service.client.get("/docs").text
    paths = service.client.get("/openapi.json").json()["paths"]
    for path in paths:
        assert path in reference
    assert "://" not in re.sub(r"http://www\.w3\.org[^\"]*", "", reference), "nothing is fetched from elsewhere"
    for question in QUESTIONS:
        described = paths[question.path]["post"]
        assert "example" in described["requestBody"]["content"]["application/json"]
        for status in ("400", "401", "404", "408", "409", "413", "422", "503", "504"):
            schema = described["responses"][status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Error"}
