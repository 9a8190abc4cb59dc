"""Whatever is sent, the service answers as its description says: checked by schemathesis against OpenAPI."""

import json

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis import GenerationMode

import offdiag as od
from offdiag.server.answers import QUESTIONS
from tests.fixtures.serving import Service, one_error

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    inter = od.synthetic.interactions(300, 40, 4_000, seed=6)
    od.EDLAE(dropout=0.5, l2=20.0).fit(inter).save(folder / "text.od", updatable=True)
    numbers = od.Interactions(inter.matrix, inter.user_ids, range(1, 41))
    shop = {
        "item": list(range(1, 39)),  # two items have no row
        "title": [f"Film {i}" if i % 7 else None for i in range(1, 39)],
        "image": [f"https://pictures.example/{i}.png" if i % 5 else None for i in range(1, 39)],
        "price": [f"{i} €" if i % 3 else None for i in range(1, 39)],
    }
    od.SparseEDLAE(neighbours=6).fit(numbers).with_catalogue(shop).save(folder / "numbers.od")
    timed = od.synthetic.interactions(300, 40, 4_000, names=False, times=True, seed=6)
    od.NextItem(l2=10.0).fit(timed).save(folder / "ordered.od")
    with Service(
        folder,
        "numbers.od",
        "text.od",
        "ordered.od",
        "--max-k",
        50,
        "--max-history",
        60,
        "--max-filter",
        60,
        "--max-body",
        60_000,
    ) as running:
        yield running
    assert running.process.returncode is not None
    assert "Traceback" not in running.log


@pytest.fixture(scope="module")
def described(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


OPERATIONS = [
    *[("GET", path) for path in ("/health", "/metrics", "/model", "/items", "/examples")],
    *[("POST", question.path) for question in QUESTIONS],
]


def test_every_path_of_the_description_is_fuzzed(described):
    found = [(result.ok().method.upper(), result.ok().path) for result in described.get_all_operations()]
    assert sorted(found) == sorted(OPERATIONS)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_described(described, method, path, mode):
    """Valid and invalid requests generated from the description: status, type and body match it."""
    if mode is GenerationMode.NEGATIVE and path in ("/health", "/metrics"):
        return  # they take no input that could be wrong
    cases = described[path][method].as_strategy(generation_mode=mode)

    @hypothesis.settings(max_examples=30, suppress_health_check=list(HealthCheck), database=None)
    @given(cases)
    def fuzzed(case):
        case.call_and_validate()

    fuzzed()


# JSON that is nearly valid: known and unknown ids, wrong types, in any place

ids = st.one_of(st.integers(-2, 45), st.sampled_from(["text", "", "\x00", "é" * 50]), st.integers())
wrong = st.one_of(
    st.none(), st.booleans(), st.floats(allow_nan=False), st.text(max_size=5), st.lists(st.none(), max_size=2)
)
moments = st.one_of(st.integers(-5, 10**10), st.floats(), st.sampled_from(["2026-01-05", "2026-01-05T10:00Z", "soon"]))
values = {
    "times": st.lists(moments, max_size=5) | st.lists(st.lists(moments, max_size=5), max_size=5),
    "history_decay": st.floats(-0.1, 1.1),
    "history_half_life": st.floats(-1, 1e6) | st.sampled_from([1e-320, 1e308]),
    "history": st.lists(ids, max_size=70),
    "histories": st.lists(st.lists(ids, max_size=5), max_size=5),
    "block": st.lists(ids, max_size=60),
    "allow": st.one_of(st.none(), st.lists(ids, max_size=60)),
    "k": st.integers(-1, 60),
    "reasons": st.integers(-1, 7),
    "exclude_seen": st.booleans(),
    "model": st.sampled_from([None, "numbers", "text", "ordered", "nope"]),
    "models": st.lists(st.sampled_from(["numbers", "text", "ordered", "nope"]), max_size=3),
    "item": ids,
    "other": ids,
    "nonsense": ids,
}
bodies = st.fixed_dictionaries({}, optional={name: value | wrong for name, value in values.items()})
paths = st.sampled_from([question.path for question in QUESTIONS])


def check(answer):
    assert answer.status_code in (200, 400, 404, 409, 413, 422), answer.text
    if answer.status_code == 200:
        assert "error" not in answer.json()
    else:
        one_error(answer, answer.status_code)


@hypothesis.settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=paths, body=bodies)
def test_nearly_valid_requests_get_an_answer_or_a_clear_line(service, path, body):
    check(service.client.post(path, content=json.dumps(body)))  # with Infinity, which is not JSON


@hypothesis.settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=paths, body=bodies, at=st.integers(0, 200), byte=st.integers(0, 255))
def test_damaged_json_gets_an_answer_or_a_clear_line(service, path, body, at, byte):
    text = bytearray(json.dumps(body).encode())
    text[at % len(text)] = byte
    check(service.client.post(path, content=bytes(text)))
