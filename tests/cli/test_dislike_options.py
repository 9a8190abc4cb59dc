"""--dislike-below, --dislike-weight and --disliked: the dislikes of the library."""

import json

import numpy as np
import pytest

import offdiag as od

WORDS = ("--value", "stars", "--dislike-below", 3)


@pytest.fixture
def rated(folder):
    X = od.synthetic.interactions(200, 30, 2_000, seed=3, names=False)
    stars = np.random.default_rng(0).integers(1, 6, X.nnz)
    X.to_polars().with_columns(stars=stars).drop("value").write_csv(folder / "rated.csv")


def test_dislikes_of_a_table_are_learned_and_left_out_of_lists(run, rated, folder):
    code, _, err = run("fit", "rated.csv", *WORDS, "--dislike-weight", 1, "--l2", 5, "-o", "rated.od")
    assert code == 0, err
    model = od.load(folder / "rated.od")
    assert model.weights_.kind == "signed"
    X = od.read(folder / "rated.csv", value="stars", dislike_below=3)
    code, out, err = run("recommend", "rated.od", "--histories", "rated.csv", *WORDS, "-k", 4, "--json")
    found = [[entry["item"] for entry in one["items"]] for one in json.loads(out)]
    assert found == [[item for item, _ in items] for items in model.recommend(X, k=4)]


def test_disliked_items_can_be_typed(run, fails, rated):
    assert run("fit", "rated.csv", "--l2", 5, "-o", "plain.od")[0] == 0
    plain = json.loads(run("recommend", "plain.od", "--history", "1,2", "-k", 3, "--json")[1])[0]["items"]
    first, second = plain[0]["item"], plain[1]["item"]
    words = ["recommend", "plain.od", "--history", "1,2", "-k", 3]
    found = json.loads(run(*words, "--disliked", first, "--json")[1])[0]["items"]
    assert found[0]["item"] == second
    assert "once for each --history" in fails(*words, "--history", "3", "--disliked", first)


def test_mistakes_are_one_line(fails, rated):
    assert "add --value" in fails("fit", "rated.csv", "--dislike-below", 3, "-o", "x.od")
    assert "expects data with dislikes" in fails("fit", "rated.csv", "--dislike-weight", 1, "-o", "x.od")
    assert "leave one out" in fails("fit", "rated.csv", *WORDS, "--updatable", "-o", "x.od")
    assert "do not go together" in fails("fit", "rated.csv", *WORDS, "--cluster", "local:1", "-o", "x.od")
