"""`offdiag auto`: a table in, a model and a verdict out."""

import xml.etree.ElementTree as ET

import pytest

import offdiag as od
from tests.fixtures.tables import write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("auto")
    write_table(od.synthetic.catalogue(300, 50, 4500, communities=4, seed=1).interactions, place / "train.csv")
    return place


def test_auto_saves_the_model_it_names(json_of):
    said = json_of("auto", "train.csv", "--minutes", 0.05, "--out", "best.od", "--plot", "race.svg", "--seed", 1)
    model = od.load("best.od")
    assert type(model).__name__ == said["model"]
    assert model.settings_ == said["settings"]
    assert model.n_users_ == 300
    assert said["test"]["chosen"]["n_users"] == said["gain"]["n_users"] > 100
    assert said["rows"][0]["state"] == "complete"
    assert ET.parse("race.svg").getroot().tag.endswith("svg")


def test_auto_says_what_it_saw_and_chose(text_of):
    said = text_of("auto", "train.csv", "--minutes", 0.02, "--serve", "new")
    for words in ("300 users", "30 users are held out", "chosen", "test users", "od."):
        assert words in said


def test_a_budget_of_nothing_or_a_strange_question_is_refused(fails):
    assert "--minutes above 0" in fails("auto", "train.csv", "--minutes", 0)
    assert "serve" in fails("auto", "train.csv", "--serve", "all")
    assert "order" in fails("auto", "train.csv", "--serve", "next", "--minutes", 0.01)
