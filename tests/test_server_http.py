"""HTTP as the RFCs describe it: 130 raw cases, smuggling, pipelining, limits on connections."""

import pytest

import offdiag as od
from tests.http_cases import CASES, ask, without_line
from tests.serving import Service


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("http")
    inter = od.synthetic.interactions(200, 40, 3_000, seed=2)
    od.EASE(l2=50.0, storage="dense").fit(inter).save(place / "model.od")
    return place


@pytest.fixture(scope="module")
def service(folder):
    with Service(folder, "model.od", "--timeout", 5) as running:
        yield running
    assert "Traceback" not in running.log


@pytest.mark.parametrize("case", CASES, ids=str)
def test_raw_requests_are_read_as_the_rfc_says(service, case):
    answers, closed = ask(service.port, case)
    assert tuple(answer.status for answer in answers) == case.statuses, answers
    assert closed
    assert without_line(case, answers) == []
    assert all(answer.status == 100 or "date" in answer.headers for answer in answers)
    if case.headless:
        assert all(answer.body == b"" for answer in answers)
