"""How `offdiag update` and `offdiag forget` read logs: any source, with ids of the model's type."""

import sqlite3

import numpy as np
import polars as pl
import pytest

import offdiag as od
from tests.fixtures.event_logs import check_same_model, write_log


@pytest.fixture
def folder(log_folder):
    return log_folder


def test_several_files_parquet_and_other_columns(run, text_of, fit, folder, rows):
    fit("half.csv", "model.od", "--value", "rating")
    frame = pl.DataFrame(rows, schema=["who", "what", "stars", "at", "id"], orient="row")
    frame[700:].write_parquet(folder / "two.parquet")
    frame.write_parquet(folder / "all.parquet")
    given = ["--user", "who", "--item", "what", "--value", "stars"]
    assert run("update", "model.od", "two.parquet", *given)[0] == 2  # known users without their earlier events
    write_log(folder / "one.csv", rows[:700], ("user", "item", "rating"))
    write_log(folder / "two.csv", rows[700:], ("user", "item", "rating"))
    text_of("update", "model.od", "one.csv", "two.csv")
    fit("log.csv", "whole.od", "--value", "rating")
    check_same_model("model.od", "whole.od")
    assert "nothing new" in text_of("update", "model.od", "all.parquet", *given)


def test_lines_of_ids_are_a_log_too(text_of, fit, folder):
    (folder / "a.txt").write_text("7 1 2 3\n8 2 3\n9\n5 1 3\n6\n")  # two users without items
    (folder / "b.txt").write_text("5 1 3\n6 1 2\n7 1 2 3\n8 2 3 4\n9\n")
    lines = ["--format", "adjacency"]
    fit("a.txt", "model.od", *lines)
    assert "nothing new" in text_of("update", "model.od", "a.txt", *lines)
    text_of("update", "model.od", "b.txt", *lines)
    fit("b.txt", "whole.od", *lines)
    check_same_model("model.od", "whole.od")


def test_a_database_is_a_log_like_any_other(text_of, fit, folder, rows, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("adbc_driver_manager")
    columns = ["--value", "rating", "--event", "id"]
    fit("log.csv", "whole.od", *columns)
    with duckdb.connect("shop.db") as shop:
        shop.execute("create table log as select * from read_csv('log.csv')")
        shop.execute("create table leaving as select distinct user from log where user in ('user 3', 'user 8')")
    fit("duckdb:///shop.db", "model.od", "--query", f'select * from log where "at" < {len(rows) // 2}', *columns)
    text_of("update", "model.od", "duckdb:///shop.db", "--table", "log")
    check_same_model("model.od", "whole.od")
    monkeypatch.setenv("OFFDIAG_TEST_DB", "duckdb:///shop.db")
    source = "env:OFFDIAG_TEST_DB"
    query = ["--users-query", "select user from leaving", "--events", source, "--table", "log"]
    text_of("forget", "model.od", "--users", source, *query)
    write_log(folder / "two.csv", [row for row in rows if row[0] in ("user 3", "user 8")])
    text_of("forget", "whole.od", "--users", "two.csv")
    check_same_model("model.od", "whole.od")
    assert "nothing new" in text_of("update", "model.od", source, "--query", "select * from log where user = 'user 1'")


def test_a_database_that_is_read_is_not_overwritten(untouched, folder, rows):
    with sqlite3.connect(folder / "log.db") as base:
        base.execute("create table events (user text, item text)")
        base.executemany("insert into events values (?, ?)", [row[:2] for row in rows])
    base.close()
    for source in ("sqlite:///log.db", f"sqlite:///{folder}/log.db"):
        words = ["fit", source, "--table", "events", "--out", "log.db", "--updatable"]
        assert "choose another name" in untouched(*words)


def test_ids_of_nineteen_digits_are_numbers_in_every_kind_of_file(text_of, fit, folder):
    """Current snowflake ids: a file of only such ids is compatible with one that has shorter ids, and with Parquet."""
    users = 10**18 - 20 + np.arange(40)
    rng = np.random.default_rng(0)
    pairs = [(int(u), 2**62 + int(i)) for u in users for i in rng.choice(12, 4, replace=False)]
    write_log(folder / "all.csv", pairs, ("user", "item"))
    write_log(folder / "late.csv", [pair for pair in pairs if pair[0] >= 10**18], ("user", "item"))
    pl.DataFrame(pairs, schema=["user", "item"], orient="row").write_parquet(folder / "all.parquet")
    fit("all.parquet", "model.od")
    assert od.load("model.od").item_ids_.dtype == np.int64
    for known in ("all.csv", "late.csv", "all.parquet"):
        assert "nothing new" in text_of("update", "model.od", known)
    (folder / "gone.txt").write_text(f"{users[-1]}\n{users[0]}\n")
    text_of("forget", "model.od", "--users", "gone.txt", "--events", "all.csv")
    assert od.load("model.od").n_users_ == 38


def test_ids_of_another_type_are_refused(text_of, fit, untouched, folder):
    write_log(folder / "numbers.csv", [(u, i) for u in range(20) for i in range(5) if (u + i) % 3], ("user", "item"))
    write_log(folder / "text.csv", [("ann", 1), ("ann", 2)], ("user", "item"))
    write_log(folder / "items.csv", [(77, "tea")], ("user", "item"))
    (folder / "words.txt").write_text("ann\n")
    fit("numbers.csv", "model.od")
    whole = "ids that are whole numbers, as in the model, received text"
    assert f"user {whole}" in untouched("update", "model.od", "text.csv")
    assert f"item {whole}" in untouched("update", "model.od", "items.csv")
    assert "received 'ann'" in untouched("forget", "model.od", "--users", "words.txt", "--events", "numbers.csv")
    fit("text.csv", "model.od")  # the other way round: digits in a text file may be text, in Parquet they are numbers
    write_log(folder / "digits.csv", [(1, 2), (1, 3)], ("user", "item"))
    pl.DataFrame({"user": [5], "item": [6]}).write_parquet(folder / "digits.parquet")
    assert "user ids that are text" in untouched("update", "model.od", "digits.parquet")
    text_of("update", "model.od", "digits.csv")
    assert od.load("model.od").n_users_ == 2


def test_bad_logs_are_one_line_and_change_nothing(fit, untouched, folder):
    fit("half.csv", "model.od", "--value", "rating")
    for text, words in (
        ("", "empty file"),
        ("user,item,rating\n", "at least one event"),
        ("user,item\nann,tea\n", "rating"),
        ("user,item,rating\nann,tea,3\nann,,3\n", "(1 in all)"),
        ("user,item,rating\nann,tea,lots\n", "numbers in the value column"),
        ("user,item,rating\nann,tea,-3\n", "0 or more"),
        ("user,item,rating\nann,tea,3\nbob\n", "at least 3 columns"),
        ("user,item,rating\nuser 3,tea,3\n", "of 1 users who are in the model already (for example 'user 3')"),
    ):
        (folder / "bad.csv").write_text(text)
        assert words in untouched("update", "model.od", "bad.csv")
    assert "fitted without one" in untouched("update", "model.od", "log.csv", "--time", "at")
    assert "does not exist" in untouched("update", "model.od", "nowhere.csv")
    assert "--table only with excel, a database or an archive" in untouched(
        "update", "model.od", "log.csv", "--table", "x"
    )


def test_logs_are_cleaned_as_in_the_fit(run, folder):
    head = "user,item,kind\nAnn,1,view\nann,2,buy\nbob,1,buy\nbob,3,view\n,3,buy\ncy,2,buy\ncy,3,spam\n"
    more = "dan,1,buy\ndan,2,spam\n"
    (folder / "few.csv").write_text(head)
    (folder / "all.csv").write_text(head + more)
    settings = ["--model", "ease", "--l2", "1", "--user-power", "0", "--updatable"]
    words = ["--missing", "drop", "--normalise-users", "--action", "kind", "--weights", "view=1,buy=5"]
    words += ["--where", "kind != 'spam'"]
    assert run("fit", "few.csv", "--out", "cleaned.od", *settings, *words)[0] == 0
    code, _, err = run("update", "cleaned.od", "all.csv")
    assert code == 0
    assert "2 rows were left out" in err
    assert "1 row without a user was dropped" in err
    assert run("fit", "all.csv", "--out", "whole.od", *settings, *words)[0] == 0
    check_same_model("cleaned.od", "whole.od")
    (folder / "leaving.txt").write_text("ANN\n")
    assert run("forget", "cleaned.od", "--users", "leaving.txt", "--events", "all.csv")[0] == 0
    assert od.load("cleaned.od").n_users_ == 3
    words = ["--value", "kind", "--negative", "net"]
    assert "--negative net joins rows" in run("fit", "few.csv", "--out", "x.od", *settings, *words)[2]
