"""How commands read tables, and ids that are typed."""

import pytest

import offdiag as od


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


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", [], "empty file"),
        ("user,thing\n1,2\n", [], "item"),
        ("customer,product\n1,2\n", [], "try --user 'customer', --item 'product'"),
        ("a,b\n1,2\n", [], "name the columns to use, e.g. --user …, --item …,"),
        ("user,item\n1,2\n", ["--encoding", "utf-16"], "give --separator, or --format for lines of ids"),
        ("user;item\n1;2\n", ["--separator", ","], "it looks divided by ';': give --separator ';'"),
        ("user,item\n1,2\n", ["--item", "user"], "received --user 'user', --item 'user'; name each once"),
        ("user,item,event\n1,2,buy\n", ["--where", "evnt = 'buy'"], "did you mean 'event'?"),
        ("user,item,event\n1,2,buy\n", ["--where", "event = buy"], "text in a condition is put in single quotes"),
        ("user,item\n1,2\n", ["--model", "next-item"], "--time <column>, with --in-order if its rows are in order"),
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
