"""`offdiag add-items`, and new items in the output of the other commands."""

import pytest

import offdiag as od
from offdiag import persist
from tests.fixtures.tables import write_table


@pytest.fixture
def shop(folder, tmp_path):
    """A model that can be updated, and a table of its products and of three new ones."""
    inter = od.read(folder / "numbers.csv")
    write_table(inter, tmp_path / "log.csv")
    ids = [*inter.item_ids.tolist(), 901, 902, 903]
    rows = [f"{item},Film {item},kind {item % 5},tag {item % 3}|tag {item % 4}" for item in ids]
    (tmp_path / "products.csv").write_text("\n".join(["sku,title,kind,tags", *rows, ""]))
    return tmp_path


@pytest.fixture
def grown(run, shop):
    words = ("--updatable", "--key-file", shop / "key", "--model", "ease", "--catalogue", shop / "products.csv")
    assert run("fit", shop / "log.csv", "--out", shop / "m.od", *words)[0] == 0
    words = ("--item", "sku", "--categories", "kind,tags", "--key-file", shop / "key")
    code, out, err = run("add-items", shop / "m.od", shop / "products.csv", *words)
    assert code == 0, err
    assert "new items  3 of" in out
    assert "Film 901 (901): like Film " in out
    return shop / "m.od"


def test_products_are_added_shown_explained_and_removed(run, json_of, text_of, grown):
    model = od.load(grown)
    assert model.new_items_.items.tolist() == [901, 902, 903]
    assert "new items     3, such as 901, 902, 903" in text_of("info", grown)
    assert json_of("info", grown)["new_items"] == [901, 902, 903]
    item = str(model.item_ids_[0])
    text = " ".join(text_of("explain", grown, "--history", item, "--item", "901").split())
    assert "Film 901 (901) is new, and recommended because it is like Film " in text
    about = json_of("explain", grown, "--history", item, "--item", "901")
    assert about["like"][0]["title"].startswith("Film ")
    (grown.parent / "new.txt").write_text("901\n902\n903\n")
    assert "Film 901" in text_of("recommend", grown, "--history", item, "--allow", grown.parent / "new.txt", "-k", "3")
    lists = [["--new-places", n, "--json"] for n in (0, 2)]
    rows = [json_of("recommend", grown, "--history", item, "-k", "4", *words)[0]["items"] for words in lists]
    assert [sum(one["item"] > 900 for one in some) for some in rows] == [0, 2]
    left = json_of("add-items", grown, "--remove", "902", "--key-file", grown.parent / "key")
    assert [one["item"] for one in left["new_items"]] == [901, 903]
    assert left["new_items"][0]["like"][0]["weight"] > 0


def test_an_update_gives_a_new_product_its_own_weights(run, json_of, grown):
    known = od.load(grown).item_ids_[0].item()
    more = (grown.parent / "log.csv").read_text() + f"77777,{known}\n77777,902\n"
    (grown.parent / "more.csv").write_text(more)
    changed = json_of("update", grown, grown.parent / "more.csv", "--key-file", grown.parent / "key")
    assert changed["changes"][0]["new_items"] == [902]
    assert od.load(grown).new_items_.items.tolist() == [901, 903]
    (grown.parent / "users.txt").write_text("77777\n")
    words = ("--events", grown.parent / "more.csv", "--key-file", grown.parent / "key")
    assert run("forget", grown, "--users", grown.parent / "users.txt", *words)[0] == 0
    assert od.load(grown).new_items_.items.tolist() == [901, 902, 903]


def test_later_products_are_read_like_the_first(run, grown):
    (grown.parent / "later.csv").write_text("sku,kind,tags\n950,kind 1,tag 1\n951,unheard of,\n")
    words = ("--out", grown.parent / "more.od", "--boost", "2", "--key-file", grown.parent / "key")
    code, _, err = run("add-items", grown, grown.parent / "later.csv", *words)
    assert code == 0
    assert "1 of 2 new items share no feature" in " ".join(err.split())
    assert od.load(grown.parent / "more.od").new_items_.items.tolist() == [901, 902, 903, 950]
    assert od.load(grown).new_items_.items.tolist() == [901, 902, 903]
    assert persist.describe(grown.parent / "more.od")["living"] is not None
    words = ("--categories", "kind", "--key-file", grown.parent / "key")
    code, _, err = run("add-items", grown, grown.parent / "later.csv", *words)
    assert (code, "leave out --categories" in " ".join(err.split())) == (2, True)


def test_without_products_or_with_both_it_says_what_to_give(run, grown):
    for words in ((), (grown.parent / "products.csv", "--remove", "901")):
        code, _, err = run("add-items", grown, *words)
        assert (code, "give one of them" in err) == (2, True)
    code, _, err = run("add-items", grown, "--remove", "5,nobody", "--key-file", grown.parent / "key")
    assert (code, "added after the fit" in " ".join(err.split())) == (2, True)
