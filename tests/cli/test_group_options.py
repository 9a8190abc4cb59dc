"""--groups and --one-per-group: the groups of the library, from a table."""

import json

import numpy as np
import pytest

import offdiag as od


@pytest.fixture
def shop(folder):
    X = od.synthetic.interactions(200, 30, 2_000, seed=3, names=False)
    X.to_polars().write_csv(folder / "orders.csv")
    rows = "".join(f"{item},{item // 3},cup {item}\n" for item in range(30))
    (folder / "products.csv").write_text("sku,style,name\n" + rows)
    return np.arange(30) // 3


def test_groups_of_a_table_are_learned_and_listed(run, shop, folder):
    words = ["--groups", "products.csv", "--group-column", "style"]
    code, out, err = run("fit", "orders.csv", "--l2", 5, *words, "--out", "shop.od", "--json")
    assert code == 0, err
    assert json.loads(out)["groups"] == {"groups": 10, "items": 30, "largest": 3}
    model = od.load(folder / "shop.od")
    assert not model.weights_.toarray()[shop[:, None] == shop].any()
    code, out, err = run("recommend", "shop.od", "--history", "1,7", "-k", 6, "--one-per-group", "--json")
    items = [entry["item"] for entry in json.loads(out)[0]["items"]]
    assert items == model.recommend([[1, 7]], k=6, one_per_group=True).items[0].tolist()
    assert len({item // 3 for item in items}) == 6
    assert "10 groups of 30 items, at most 3 in one" in run("fit", "orders.csv", *words, "-o", "again.od")[1]


def test_tune_fits_with_the_groups(run, shop, folder):
    words = ["--groups", "products.csv", "--group-column", "style", "--trials", 1]
    code, _, err = run("tune", "orders.csv", "--model", "ease", *words, "--out", "tuned.od")
    assert code == 0, err
    assert od.load(folder / "tuned.od").groups_ is not None


def test_mistakes_are_one_line(fails, shop):
    assert "add --groups FILE" in fails("fit", "orders.csv", "--group-column", "style", "-o", "x.od")
    assert "use --group-column" in fails("fit", "orders.csv", "--groups", "products.csv", "-o", "x.od")
    wrong = ["--groups", "products.csv", "--group-column", "style"]
    assert "DLAE does not learn from groups" in fails("fit", "orders.csv", "--model", "dlae", *wrong, "-o", "x.od")
    assert "do not go together" in fails("fit", "orders.csv", *wrong, "--cluster", "local:1", "-o", "x.od")
