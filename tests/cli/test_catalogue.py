"""`offdiag catalogue`, and titles in the output of the other commands."""

import csv
import json
import re

import polars as pl
import pytest

import offdiag as od
from offdiag import persist
from tests.fixtures.tables import write_table


@pytest.fixture
def shop(folder, tmp_path):
    """A table of the products of numbers.od, without the last two items and with one more, and a copy of the model."""
    ids = od.load(folder / "numbers.od").item_ids_.tolist()
    rows = [f"{item},Film {item} of [red],kind {item % 3},{item / 4},/p/{item}" for item in ids[:-2]]
    (tmp_path / "products.csv").write_text("\n".join(["sku,name,genre,price,url", *rows, "999,Unsold,kind 0,1,", ""]))
    (tmp_path / "model.od").write_bytes((folder / "numbers.od").read_bytes())
    return tmp_path


def test_a_catalogue_is_attached_replaced_shown_and_removed(run, json_of, text_of, shop):
    file, products = shop / "model.od", shop / "products.csv"
    before = od.load(file)
    code, out, err = run("catalogue", file, products)
    assert code == 0
    assert "columns found: item='sku', title='name'" in err
    assert "2 of 60 items have no row in the catalogue: 158, 159" in err
    assert "1 row is of an item that the model does not know" in err
    assert "title, category, price, link of 58 of 60 items; 59 rows" in out
    found = od.load(file)
    assert found.catalogue_.row(100) == {
        "title": "Film 100 of [red]", "category": "kind 1", "price": 25.0, "link": "/p/100",
    }  # fmt: skip
    assert (found.weights_.C == before.weights_.C).all()
    facts = json_of("catalogue", file)["catalogue"]
    assert (facts["rows"], facts["covered"], facts["items"]) == (59, 58, 60)
    assert "Film 1" in text_of("catalogue", file)
    run("catalogue", file, products, "--columns", "title=genre,price=1")
    assert od.load(file).catalogue_.row(100)["title"] == "kind 1"
    assert text_of("catalogue", file, "--remove").startswith("catalogue  none")
    assert od.load(file).catalogue_ is None


def test_metrics_and_the_living_state_survive(run, json_of, folder, shop):
    inter = od.read(folder / "numbers.csv")
    write_table(inter, shop / "log.csv")
    words = ["--updatable", "--key-file", shop / "key", "--validate", "--metric", "ndcg@10", "--model", "ease"]
    assert run("fit", shop / "log.csv", "--out", shop / "m.od", *words)[0] == 0
    metrics = persist.describe(shop / "m.od")["metrics"]
    assert run("catalogue", shop / "m.od", shop / "products.csv", "--key-file", shop / "key")[0] == 0
    assert persist.describe(shop / "m.od")["metrics"] == metrics
    more = (shop / "log.csv").read_text() + "77777,100\n77777,999\n"
    (shop / "more.csv").write_text(more)
    changed = json_of("update", shop / "m.od", shop / "more.csv", "--key-file", shop / "key")
    assert changed["users"] == {"new": 1, "changed": 0}
    assert od.load(shop / "m.od").catalogue_.title(999) == "Unsold"
    found = json_of("recommend", shop / "m.od", "--history", "Unsold", "-k", 1, notes=True)
    assert found[0]["items"][0]["title"].startswith("Film ")


def test_a_model_with_a_living_state_needs_its_key(run, folder, shop, monkeypatch):
    model = od.EASE(l2=5.0).fit(od.read(folder / "numbers.csv"))
    model.save(shop / "m.od", updatable=True, key=shop / "key")
    monkeypatch.setenv("OFFDIAG_KEY_FILE", str(shop / "other"))
    before = (shop / "m.od").read_bytes()
    code, _, err = run("catalogue", shop / "m.od", shop / "products.csv")
    assert (code, (shop / "m.od").read_bytes()) == (2, before)
    assert "key" in err


def test_another_file_can_be_written(run, shop):
    before = (shop / "model.od").read_bytes()
    assert run("catalogue", shop / "model.od", shop / "products.csv", "--out", shop / "new.od")[0] == 0
    assert (shop / "model.od").read_bytes() == before
    assert od.load(shop / "new.od").catalogue_.title(100) == "Film 100 of [red]"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--remove", "products.csv"], "leave one of them out"),
        (["--columns", "title=name"], "--columns is about a new catalogue"),
        (["nowhere.csv"], "nowhere.csv"),
        (["products.csv", "--columns", "title=nope"], "title='nope'"),
        (["products.csv", "--columns", "colour=x"], "NAME=COLUMN"),
        (["products.csv", "--columns", "item=price"], "which has '1', '25.0', '25.25'"),
        (["products.csv", "--columns", "item=genre"], "column 'genre'.*name another column with --columns 'item=…'"),
        (["products.csv", "--format", "word"], "format"),
        (["model.od"], "as both"),
    ],
)
def test_a_wrong_call_is_explained_and_changes_nothing(run, shop, monkeypatch, options, words):
    monkeypatch.chdir(shop)
    before = (shop / "model.od").read_bytes()
    code, out, err = run("catalogue", "model.od", *options)
    *notes, error = err.splitlines()
    assert (code, out) == (2, "")
    assert re.search(words, error)
    assert all("note: " in note for note in notes)
    assert (shop / "model.od").read_bytes() == before


def test_fit_keeps_a_catalogue_in_the_model(run, fails, folder, shop):
    words = ["fit", folder / "numbers.csv", "--model", "ease", "--out", shop / "new.od", "--catalogue"]
    code, out, err = run(*words, shop / "products.csv", "--catalogue-columns", "price=url")
    assert code == 0, err
    assert "title, category, price of 58 of 60 items" in out
    assert "58 of 60" in run("info", shop / "new.od")[1]
    assert "Film 1" in run("info", shop / "new.od")[1]
    assert od.load(shop / "new.od").catalogue_.row(100)["price"] == "/p/100"
    (shop / "other.csv").write_text("sku,name\nx,X\n")
    (shop / "new.od").unlink()
    code, _, err = run(*words, shop / "other.csv")
    assert code == 2
    assert "received none of them in the column 'sku'" in err
    assert "--catalogue-columns 'item=…'" in err
    assert not (shop / "new.od").exists()
    assert "add --catalogue" in fails(*words[:-1], "--catalogue-columns", "title=name")
    before = (shop / "products.csv").read_text()
    assert "itself" in fails(*words[:4], "--out", shop / "products.csv", "--catalogue", shop / "products.csv")
    assert (shop / "products.csv").read_text() == before


def test_lists_and_reasons_show_titles(run, json_of, folder, shop):
    file = shop / "model.od"
    run("catalogue", file, shop / "products.csv")
    lists = json_of("recommend", file, "--history", "film 100 OF [red]", "-k", 3, "--with", "price", notes=True)
    model = od.load(file)
    expected = model.recommend([[100]], k=3).items.tolist()[0]
    assert [x["item"] for x in lists[0]["items"]] == expected
    assert [x["title"] for x in lists[0]["items"]] == [model.catalogue_.title(item) for item in expected]
    assert [x["price"] for x in lists[0]["items"]] == [model.catalogue_.row(item).get("price") for item in expected]
    code, out, err = run("recommend", file, "--history", "100,101", "-k", 3, "--reasons", "--with", "category")
    rows = list(csv.DictReader(out.splitlines()))
    assert (code, err) == (0, "")
    assert list(rows[0]) == [
        "user", "rank", "item", "title", "category", "score", "reason", "reason_title", "reason_share",
    ]  # fmt: skip
    assert all(row["reason_title"] == f"Film {row['reason']} of [red]" for row in rows)
    similar = json_of("similar", file, 100, "-k", 2)
    assert similar[0]["title"] == "Film 100 of [red]"
    assert {"item", "title", "score"} == set(similar[0]["similar"][0])
    _, out, _ = run("explain", file, "--history", "100", "--item", "101")
    assert "score of Film 101 of [red] (101)" in out
    assert "Film 100 of [red] (100)" in out
    told = json_of("explain", file, "--history", "100", "--item", "101")
    assert (told["title"], told["contributions"][0]["title"]) == ("Film 101 of [red]", "Film 100 of [red]")


def test_files_have_the_columns_that_are_asked_for(run, folder, shop):
    file = shop / "model.od"
    run("catalogue", file, shop / "products.csv")
    words = ["recommend", file, "--histories", folder / "numbers.csv", "-k", 4, "--with", "price,link"]
    assert run(*words, "--out", shop / "top.parquet")[0] == 0
    table = pl.read_parquet(shop / "top.parquet")
    assert table.columns == ["user", "rank", "item", "title", "price", "link", "score"]
    known = table.filter(pl.col("item") < 158)
    assert (known["title"] == "Film " + known["item"].cast(pl.String) + " of [red]").all()
    assert (known["price"] == known["item"] / 4).all()
    assert table.filter(pl.col("item") >= 158)["title"].null_count() == table.filter(pl.col("item") >= 158).height
    assert run("similar", file, "--all", "--out", shop / "s.jsonl", "--with", "category")[0] == 0
    first = json.loads((shop / "s.jsonl").read_text().partition("\n")[0])
    assert list(first) == ["item", "rank", "similar", "title", "category", "score"]


def test_the_categories_of_the_catalogue_limit_lists(run, json_of, folder, shop):
    file = shop / "model.od"
    run("catalogue", file, shop / "products.csv")
    lists = json_of("recommend", file, "--history", "100", "-k", 4, "--at-most", 1, "--with", "category", notes=True)
    kinds = [x["category"] for x in lists[0]["items"] if x["category"]]
    assert len(kinds) == len(set(kinds))
    code, _, err = run("recommend", folder / "numbers.od", "--history", "100", "--at-most", 1)
    assert code == 2
    assert "categories" in err
