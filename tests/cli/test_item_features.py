"""`offdiag fit --features`: the model of the library, with notes, and mistakes explained in terms of options."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cli.item_features import parse_columns
from tests.fixtures.mistakes import refused


@pytest.fixture
def table(folder):
    items = od.read(folder / "train.csv").item_ids.tolist()
    rows = [f"{item},kind {place % 3},{place}" for place, item in enumerate(items)]
    path = folder / "features.csv"
    path.write_text("\n".join(["sku,tags,size", *rows]) + "\n")
    yield path
    path.unlink()


COLUMNS = ["--feature-columns", "item=sku,categories=tags,numbers=2"]


def test_features_of_a_file_are_those_of_the_library(json_of, folder, table):
    options = ["--features", "features.csv", *COLUMNS, "--feature-weight", 0.3, "--l2", 20]
    found = json_of("fit", "train.csv", "-o", "features.od", *options)
    assert found["settings"]["feature_weight"] == 0.3
    features = od.read_features(table, item="sku", categories="tags", numbers="size")
    model = od.EDLAE(feature_weight=0.3, l2=20).fit(od.read(folder / "train.csv"), item_features=features)
    assert np.array_equal(od.load(folder / "features.od").weights_.toarray(), model.weights_.toarray())
    assert json_of("info", "features.od")["settings"]["feature_weight"] == 0.3


def test_validation_uses_the_features_too(json_of, table):
    options = ["--features", "features.csv", *COLUMNS, "--feature-weight", 0.3, "--l2", 20]
    found = json_of("fit", "train.csv", "-o", "features.od", "--validate", *options)
    assert 0 < found["metrics"]["mean"]["ndcg@100"] < 1


def test_what_was_found_and_left_out_is_printed(run, fails, table):
    with table.open("a") as file:
        file.write("elsewhere,kind 1|other,3\n")
    _, _, shown = run("fit", "train.csv", "-o", "f.od", "--features", "features.csv", "--l2", 20)
    assert "item ids found in the column 'sku'" in shown
    assert "1 row is of an item that the model does not know" in shown
    assert "--feature-columns" in fails("fit", "train.csv", "-o", "f.od", *COLUMNS)
    features = ["fit", "train.csv", "-o", "f.od", "--features", "features.csv"]
    assert "leave --prior-weight or --updatable out" in fails(*features, "--updatable", "--prior-weight", 3)
    assert "linear family" in fails(*features, "--model", "popularity")
    assert "needs features of the items" in fails("fit", "train.csv", "-o", "f.od", "--feature-weight", 0.3)


def test_columns_are_named_by_kind():
    text = "item=sku, categories=brand,categories=3,text=title"
    assert parse_columns(text) == {"item": "sku", "categories": ["brand", 3], "text": ["title"]}
    assert parse_columns("") == {}
    with refused("takes KIND=COLUMN"):
        parse_columns("brand")
    with refused("one column of item ids"):
        parse_columns("item=a,item=b")


def test_tuning_searches_the_weight_of_the_features(run, json_of, fails, table):
    options = ["--features", "features.csv", *COLUMNS, "--trials", 3, "--fixed", "l2=20", "--out", "tuned.od"]
    found = json_of("tune", "train.csv", *options, "--range", "feature_weight=0.2:0.9")
    assert 0.2 <= found["settings"]["feature_weight"] <= 0.9
    model = od.load("tuned.od")
    assert model.settings_["feature_weight"] == found["settings"]["feature_weight"]
    assert model.item_features_ is not None
    assert "linear family" in fails("tune", "train.csv", "--features", "features.csv", "--model", "item-knn")
