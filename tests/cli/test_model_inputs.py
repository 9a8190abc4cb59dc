"""Commands read data for a model with the columns of its fit."""

import pytest

import offdiag as od


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A table with names of its own, a model of it, and tables with some or none of these names."""
    place = tmp_path_factory.mktemp("shop")
    log = od.synthetic.interactions(80, 20, 700, seed=0).to_polars()
    log = log.rename({"user": "customer", "item": "sku", "value": "qty"})
    log.write_csv(place / "log.csv")
    log.drop("qty").write_csv(place / "plain.csv")
    log.rename({"customer": "user", "sku": "item"}).write_csv(place / "usual.csv")
    log.rename({"customer": "who", "sku": "what"}).write_csv(place / "other.csv")
    od.EASE(l2=20.0).fit(place / "log.csv", user="customer", item="sku", value="qty").save(place / "shop.od")
    return place


def test_commands_use_the_columns_of_the_fit_and_say_so(run, shop):
    model = str(shop / "shop.od")
    named = "columns as in the fit: --user 'customer', --item 'sku', --value 'qty'"
    for words in (
        ("recommend", model, "--histories", str(shop / "log.csv"), "-k", "2"),
        ("evaluate", str(shop / "log.csv"), model),
    ):
        code, out, err = run(*words)
        assert code == 0
        assert named in err
        explicit = run(*words, "--user", "customer", "--item", "sku", "--value", "qty")
        assert explicit[:2] == (0, out)
        assert "as in the fit" not in explicit[2]


def test_tables_without_those_columns_are_read_as_before(run, fails, shop):
    words = ("recommend", str(shop / "shop.od"), "-k", "2", "--histories")
    lists = run(*words, str(shop / "log.csv"))[1]
    code, out, err = run(*words, str(shop / "usual.csv"))
    assert (code, out) == (0, lists)
    assert "columns as in the fit: --value 'qty'" in err
    code, _, err = run(*words, str(shop / "plain.csv"))
    assert code == 0
    assert "no column 'qty' here, which held the values of the fit: every row counts as 1" in err
    assert "expected --user 'customer', --item 'sku'" in fails(*words, str(shop / "other.csv"))
    code, out, err = run(*words, str(shop / "other.csv"), "--user", "who", "--item", "what")
    assert (code, out) == (0, lists)


def test_a_fit_of_the_command_line_remembers_its_columns(run, text_of, shop):
    columns = ("--user", "customer", "--item", "sku")
    model = str(shop / "fitted.od")
    text_of("fit", str(shop / "log.csv"), "-o", model, *columns)
    assert od.load(model).columns_.present() == {"user": "customer", "item": "sku"}
    assert "user 'customer', item 'sku'" in text_of("info", model)


def test_update_and_forget_show_the_columns_of_the_fit(text_of, shop):
    model, log = str(shop / "living.od"), str(shop / "log.csv")
    key = ("--key-file", str(shop / "key"))
    text_of("fit", log, "-o", model, "--user", "customer", "--item", "sku", "--updatable", *key)
    assert od.load(model).columns_.present() == {"user": "customer", "item": "sku"}
    (shop / "more.csv").write_text((shop / "log.csv").read_text().splitlines()[0] + "\n9001,new,1\n")
    said = "user 'customer', item 'sku', as in the fit"
    assert said in text_of("update", model, str(shop / "more.csv"), *key)
    assert said in text_of("forget", model, "--users", str(shop / "more.csv"), *key)
    assert od.load(model).columns_.present() == {"user": "customer", "item": "sku"}
