"""How commands read tables, and ids that are typed."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cli import inputs


def test_ratings_are_read_with_a_threshold_and_minimum_counts(json_of):
    options = ["--value", "rating", "--at-least", "4", "--min-users", "3", "--min-items", "2"]
    found = json_of("fit", "train.csv", "--out", "rated.od", "--model", "ease", *options)
    expected = od.prepare.binarize(od.read("train.csv", value="rating"), at_least=4)
    expected = od.prepare.min_counts(expected, users=3, items=2)
    assert [found[name] for name in ("users", "items", "interactions")] == [*expected.matrix.shape, expected.nnz]


def test_columns_by_position_and_the_separator_by_name(json_of, folder):
    lines = (folder / "train.csv").read_text().splitlines()[1:]
    (folder / "bare.tsv").write_text("\n".join("\t".join(reversed(line.split(",")[:2])) for line in lines))
    options = ["--user", "1", "--item", "0", "--separator", "tab", "--no-header"]
    assert json_of("info", "bare.tsv", *options)["users"] == 300


def test_typed_ids_become_numbers_if_the_ids_of_the_model_are(text_of, json_of):
    (found,) = json_of("recommend", "numbers.od", "--history", "101, 102,x,99999999999999999999", notes=True)
    assert found["unknown"] == ["x", "99999999999999999999"]
    assert not {101, 102} & {i["item"] for i in found["items"]}
    text_of("similar", "numbers.od", "101", "-k", 2)


def test_an_id_with_a_comma_is_quoted():
    model = od.EASE(l2=1.0).fit(od.Interactions(
        od.read(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])).matrix, np.arange(3), np.array(["Good, the Bad", "b", "c"])
    ))  # fmt: skip
    assert inputs.parse_history('"Good, the Bad", b', model) == ["Good, the Bad", "b"]
    assert inputs.parse_history("Good, the Bad", model) == ["Good, the Bad"]
    assert inputs.parse_history(" ", model) == []


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", [], "empty file"),
        ("user,thing\n1,2\n", [], "item"),
        ("customer,product\n1,2\n", [], "try --user 'customer', --item 'product'"),
        ("a,b\n1,2\n", [], "name the columns to use, e.g. --user …, --item …,"),
        ("user,item\n1,2\n", ["--encoding", "utf-16"], "give --separator, or --format for lines of ids"),
        ("user;item\n1;2\n", ["--separator", ","], ";"),
        ("user,item,value\n1,2,nan\n", ["--value", "value"], "finite"),
        ("user,item,value\n1,2,inf\n", ["--value", "value"], "finite"),
        ("user,item,value\n1,2,-1\n", ["--value", "value"], "0 or more"),
        ("user,item,value\n1,2,x\n", ["--value", "value"], "numbers"),
        ("user,item\n1,\n", [], "item"),
        ("user,item,value\n1,2,3\n", ["--value", "value", "--at-least", "9"], "remain"),
        ("user,item\n1,2\n", ["--at-least", "4"], "--value"),
        ("user,item\n1,2\n", ["--format", "exel"], "format"),
        ("user,item\n1,2\n", ["--encoding", "klingon"], "encoding"),
        ("user,item\n1,2\n2,2\n", ["--validate"], "held_out"),
        ("user,item\n1,1\n1,2\n2,1\n2,2\n", ["--dropout", "0", "--l2", "0"], "l2"),
    ],
)
def test_a_bad_table_is_one_line_and_leaves_the_old_model(untouched, folder, text, options, words):
    (folder / "bad.csv").write_text(text)
    assert words in untouched("fit", "bad.csv", "--out", "model.od", *options)


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
