"""A loaded model: its ids in JSON and its card; a forged description is refused."""

import os

import numpy as np
import pytest

import offdiag as od
from offdiag import persist
from offdiag.data.ids import of_type
from offdiag.files import container
from offdiag.server import answers, schemas
from offdiag.server.app import create
from offdiag.server.model import ServedModel
from offdiag.server.store import Store
from tests.fixtures.serving import call

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("other", ["007", " 7", "7.0", "+7", "٧", "7\n", "1_0", "0x7", "9" * 19, "-0"])
def test_only_canonical_integers_are_converted(other):
    assert of_type(other, whole=True) == other
    assert of_type("7", whole=True) == 7
    assert of_type("-7", whole=True) == -7
    assert of_type(7, whole=False) == "7"
    assert of_type("7", whole=False) == "7"
    assert of_type(7, whole=True) == 7


def test_integers_that_json_parsers_would_round_are_sent_as_text(tmp_path):
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
    reason = answers.explain(served, schemas.Explain(history=[str(2**53), 3], item=str(2**53 + 1)))
    assert reason["item"]["id"] == str(2**53 + 1)
    assert {part["id"] for part in reason["contributions"]} == {str(2**53), 3}
    pair = answers.pair(served, schemas.Pair(item=str(2**63 - 1), other=-(2**63)))
    assert (pair["item"]["id"], pair["other"]["id"]) == (str(2**63 - 1), str(-(2**63)))


def test_the_card_describes_the_model_file(service, models, folder):
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


def forge(path, **changes):
    model = od.load(path)
    about, tensors = persist._contents(model, None)
    forged = path.with_name("forged")
    with open(forged, "wb") as file:
        container.write(file, about | changes, tensors, None)
    os.replace(forged, path)


@pytest.mark.parametrize(
    "changes",
    [{"settings": [1]}, {"settings": None}, {"created": 5}, {"n_users": "many"}, {"n_users": [1]}, {"n_users": None}],
)
def test_a_forged_description_is_refused_on_loading(model, changes):
    store = Store([model])
    forge(model, **changes)
    assert store.reload() == 0
    assert store.problems
    with pytest.raises(od.OffdiagError):
        Store([model])


INVALID_METRICS = [
    {"mean": {"a": [1]}, "sem": [1]},
    {"mean": {"a": "x"}},
    {"mean": {"a": 0.5}, "sem": {"a": "x"}},
    {"mean": {"a": 0.5}, "popularity": {"mean": {"a": [1]}}},
    {"mean": {"a": 0.5}, "popularity": {"mean": "x"}},
    {"mean": {"a": 0.5}, "popularity": 1},
    {"mean": []},
    {"a": None},
    [1],
    "x",
]


@pytest.mark.parametrize("metrics", INVALID_METRICS)
def test_invalid_metrics_are_left_out_of_the_card(model, metrics):
    forge(model, metrics=metrics)
    (answer,) = call(create([model]), ("GET", "/model", None))
    assert answer.status_code == 200
    assert answer.json()["metrics"] in (None, {"a": {"mean": 0.5, "sem": None, "popularity": None}})


def test_metrics_are_shown_next_to_those_of_popularity(model):
    od.load(model).save(model, metrics={"mean": {"a": 0.5}, "sem": {"a": 0.1}, "popularity": {"mean": {"a": 0.2}}})
    (answer,) = call(create([model]), ("GET", "/model", None))
    assert answer.json()["metrics"] == {"a": {"mean": 0.5, "sem": 0.1, "popularity": 0.2}}
