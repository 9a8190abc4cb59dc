"""`offdiag update` and `offdiag forget`: the model of a new fit, applied exactly once, one line for every mistake."""

import csv
import errno
import json
import os
import stat
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import offdiag as od
from offdiag import persist
from offdiag.files import container, switch
from offdiag.living import certificate, past

SETTINGS = ["--dropout", "0.4", "--l2", "8", "--user-power", "0", "--dtype", "float64"]
N_USERS = 60


@pytest.fixture(scope="module")
def rows():
    """The log: text users, text items, a rating, a time, an event id; several events for many pairs."""
    inter = od.synthetic.catalogue(N_USERS, 30, 900, communities=3, seed=4).interactions
    users = np.repeat(np.arange(N_USERS), np.diff(inter.matrix.indptr))
    rng = np.random.default_rng(0)
    log = [
        (f"user {u}", str(inter.item_ids[i]), int(rng.integers(1, 6)), int(t), f"e{n}")
        for n, (u, i, t) in enumerate(zip(users, inter.matrix.indices, rng.permutation(len(users)), strict=True))
    ]
    log += [(*log[n][:2], 5, len(log) + n, f"again{n}") for n in range(0, len(log), 40)]
    return sorted(log, key=lambda row: row[3])


def write(path, rows, names=("user", "item", "rating", "at", "id")):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *[row[: len(names)] for row in rows]])
    return path


@pytest.fixture
def folder(rows, tmp_path):
    """The first half of the log, all of it, and the rows of three users."""
    write(tmp_path / "half.csv", rows[: len(rows) // 2])
    write(tmp_path / "log.csv", rows)
    write(tmp_path / "three.csv", [row for row in rows if row[0] in ("user 3", "user 8", "user 9")])
    (tmp_path / "ids.txt").write_text("user 3\nuser 8\n\nuser 9\nuser 3\n")
    return tmp_path


@pytest.fixture
def fit(run):
    def call(data, out, *more):
        code, _, err = run("fit", data, "--out", out, "--updatable", *SETTINGS, *more)
        assert (code, err) == (0, "")

    return call


def same(path, other):
    """Whether two files hold the same model: ids, popularity and Gram bit for bit, weights within tolerance."""
    a, b = od.load(path, verify=True), od.load(other, verify=True)
    assert a.item_ids_.tolist() == b.item_ids_.tolist()
    assert a.n_users_ == b.n_users_
    assert np.array_equal(a.popularity_, b.popularity_)
    assert np.array_equal(a.gram_.values, b.gram_.values)
    assert certificate.difference(a.weights_, b.weights_) <= 1e-12
    for counts in (lambda entries: entries.sizes, lambda entries: np.diff(entries.starts)):
        assert np.array_equal(np.sort(counts(a._past.ledger.entries)), np.sort(counts(b._past.ledger.entries)))
    return True


KINDS = {
    "seen or not": [],
    "ratings": ["--value", "rating"],
    "latest rating": ["--value", "rating", "--time", "at", "--duplicates", "once"],
    "liked": ["--value", "rating", "--at-least", "4"],
    "with ids": ["--value", "rating", "--event", "id"],
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_log_that_grows_gives_the_model_of_the_whole_log(run, fit, folder, kind):
    fit("half.csv", "model.od", *kind)
    code, out, err = run("update", "model.od", "log.csv", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["events"]["new"] > 0
    assert said["users"]["changed"] > 0
    fit("log.csv", "whole.od", *kind)
    assert same("model.od", "whole.od")
    before = (folder / "model.od").read_bytes()
    code, out, _ = run("update", "model.od", "log.csv")
    assert code == 0
    assert "nothing new" in out
    assert (folder / "model.od").read_bytes() == before


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("form", ["rows", "ids"])
def test_forgetting_gives_the_model_of_the_others(run, fit, folder, rows, kind, form):
    fit("log.csv", "model.od", *kind)
    given = ["--users", "three.csv"] if form == "rows" else ["--users", "ids.txt", "--events", "log.csv"]
    code, out, err = run("forget", "model.od", *given, "--prove", "--certificate", "proof.json", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said.items() > json.loads((folder / "proof.json").read_text()).items()
    assert said["action"] == "forget"
    assert said["users"] == 3
    assert said["proof"] <= 1e-12
    assert said["before"] != said["after"]
    assert not any(name in out for name in ("user 3", "user 8", "user 9"))
    write(folder / "others.csv", [row for row in rows if row[0] not in ("user 3", "user 8", "user 9")])
    fit("others.csv", "others.od", *kind)
    assert same("model.od", "others.od")
    before = (folder / "model.od").read_bytes()
    code, out, err = run("forget", "model.od", *given)
    assert (code, out) == (2, "")
    assert "3 who are not in it" in err
    assert (folder / "model.od").read_bytes() == before


def test_ids_of_nineteen_digits_are_numbers_in_every_kind_of_file(run, fit, folder):
    """Current snowflake ids: a file of only such ids is compatible with one that has shorter ids, and with Parquet."""
    users = 10**18 - 20 + np.arange(40)
    rng = np.random.default_rng(0)
    pairs = [(int(u), 2**62 + int(i)) for u in users for i in rng.choice(12, 4, replace=False)]
    write(folder / "all.csv", pairs, ("user", "item"))
    write(folder / "late.csv", [pair for pair in pairs if pair[0] >= 10**18], ("user", "item"))
    pl.DataFrame(pairs, schema=["user", "item"], orient="row").write_parquet(folder / "all.parquet")
    fit("all.parquet", "model.od")
    assert od.load("model.od").item_ids_.dtype == np.int64
    for known in ("all.csv", "late.csv", "all.parquet"):
        code, out, err = run("update", "model.od", known)
        assert (code, err) == (0, "")
        assert "nothing new" in out
    (folder / "gone.txt").write_text(f"{users[-1]}\n{users[0]}\n")
    assert run("forget", "model.od", "--users", "gone.txt", "--events", "all.csv")[0] == 0
    assert od.load("model.od").n_users_ == 38


def test_a_certificate_names_nothing_that_only_the_forgotten_had(run, fit, folder, rows):
    fit("log.csv", "model.od")
    write(folder / "lonely.csv", [("lonely", "her diary", *rows[0][2:]), ("lonely", rows[0][1], *rows[0][2:])])
    assert run("update", "model.od", "lonely.csv")[0] == 0
    code, out, _ = run("forget", "model.od", "--users", "lonely.csv", "--certificate", "proof.json", "--json")
    assert code == 0
    kept = json.loads((folder / "proof.json").read_text())
    assert not {"gone_items", "new_items", "interactions", "events", "seconds"} & set(kept)
    assert json.loads(out) == kept | {"interactions": 2, "events": 2, "gone_items": 1, "method": "woodbury"}
    assert "diary" not in out + (folder / "proof.json").read_text()
    assert "her diary" not in od.load("model.od").item_ids_


def test_a_model_given_as_its_own_log_is_told(fit, fails, folder):
    fit("log.csv", "model.od")
    assert "as both; name the other one" in untouched(fails, folder, "update", "model.od", "./model.od")
    assert "as both; name the other one" in untouched(fails, folder, "update", "log.csv", "log.csv")


def test_a_log_without_the_rows_of_the_forgotten_is_told(fit, fails, folder, rows):
    fit("log.csv", "model.od")
    write(folder / "without.csv", [row for row in rows if row[0] not in ("user 3", "user 8", "user 9")])
    told = untouched(fails, folder, "forget", "model.od", "--users", "ids.txt", "--events", "without.csv")
    assert "received no rows of 3 of 3 users" in told


def test_a_certificate_takes_no_other_file(run, fit, fails, folder):
    fit("log.csv", "model.od")
    ids = ["--users", "ids.txt", "--events", "log.csv"]
    for name in ("log.csv", "ids.txt", "model.od"):
        for more in ([], ["--out", "other.od"]):
            assert "choose another name" in untouched(
                fails, folder, "forget", "model.od", *ids, "--certificate", f"./{name}", *more
            )
    assert "choose two names" in untouched(
        fails, folder, "forget", "model.od", *ids, "--certificate", "./new.od", "--out", "new.od"
    )
    assert not (folder / "new.od").exists()


def test_where_the_certificate_cannot_be_written_nobody_is_forgotten(run, fit, fails, folder, monkeypatch):
    fit("log.csv", "model.od")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = untouched(fails, folder, "forget", "model.od", "--users", "three.csv", "--certificate", "gone.json")
    assert "gone.json'" in said
    monkeypatch.undo()
    assert not [name for name in os.listdir(folder) if name.endswith((".json", ".tmp", ".next", ".change"))]


def test_a_database_that_is_read_is_not_written_over(fails, folder, rows):
    import sqlite3

    with sqlite3.connect(folder / "log.db") as base:
        base.execute("create table events (user text, item text)")
        base.executemany("insert into events values (?, ?)", [row[:2] for row in rows])
    for source in ("sqlite:///log.db", f"sqlite:///{folder}/log.db"):
        assert "choose another name" in untouched(
            fails, folder, "fit", source, "--table", "events", "--out", "log.db", "--updatable"
        )
    base.close()


def test_new_and_vanishing_items(run, fit, folder, rows):
    fit("log.csv", "model.od")
    write(folder / "new.csv", [("zoe", "A brand new thing"), ("zoe", rows[0][1])], ("user", "item"))
    code, out, _ = run("update", "model.od", "new.csv")
    assert code == 0
    assert "1 new items" in out
    assert "A brand new thing" in od.load("model.od").item_ids_
    code, out, _ = run("forget", "model.od", "--users", "new.csv")
    assert code == 0
    assert "1 items gone" in out
    fit("log.csv", "fresh.od")
    assert same("model.od", "fresh.od")


def test_every_user_may_change_at_once(run, fit, folder):
    write(folder / "a.csv", [(u, i) for u in range(6) for i in range(4) if i != u % 4], ("user", "item"))
    write(folder / "b.csv", [(u, i) for u in range(6) for i in range(4)], ("user", "item"))
    fit("a.csv", "model.od")
    assert run("update", "model.od", "b.csv")[0] == 0
    fit("b.csv", "whole.od")
    assert same("model.od", "whole.od")


def test_several_files_parquet_and_other_columns(run, fit, folder, rows):
    fit("half.csv", "model.od", "--value", "rating")
    write(folder / "one.csv", rows[:700], ("user", "item", "rating"))
    frame = pl.DataFrame(rows[700:], schema=["who", "what", "stars", "at", "id"], orient="row")
    frame.write_parquet(folder / "two.parquet")
    given = ["--user", "who", "--item", "what", "--value", "stars"]
    assert run("update", "model.od", "two.parquet", *given)[0] == 2  # known users without their earlier events
    write(folder / "two.csv", rows[700:], ("user", "item", "rating"))
    assert run("update", "model.od", "one.csv", "two.csv")[0] == 0
    fit("log.csv", "whole.od", "--value", "rating")
    assert same("model.od", "whole.od")
    frame = pl.DataFrame(rows, schema=["who", "what", "stars", "at", "id"], orient="row")
    frame.write_parquet(folder / "all.parquet")
    assert "nothing new" in run("update", "model.od", "all.parquet", *given)[1]


def test_lines_of_ids_are_a_log_too(run, fit, folder):
    (folder / "a.txt").write_text("7 1 2 3\n8 2 3\n9\n5 1 3\n6\n")  # two users without items
    (folder / "b.txt").write_text("5 1 3\n6 1 2\n7 1 2 3\n8 2 3 4\n9\n")
    fit("a.txt", "model.od", "--format", "adjacency")
    assert "nothing new" in run("update", "model.od", "a.txt", "--format", "adjacency")[1]
    assert run("update", "model.od", "b.txt", "--format", "adjacency")[0] == 0
    fit("b.txt", "whole.od", "--format", "adjacency")
    assert same("model.od", "whole.od")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sparse", "low-rank-edlae", "spectral", "rdlae", "popularity"])
def test_other_models_follow_the_log_too(run, folder, name):
    more = {"popularity": [], "sparse": ["--neighbours", "8"], "rdlae": []}.get(name, ["--rank", "5"])
    command = ["fit", "half.csv", "--out", "model.od", "--updatable", "--model", name, *more]
    assert run(*command)[0] == 0
    assert run("update", "model.od", "log.csv")[0] == 0
    assert "nothing new" in run("update", "model.od", "log.csv")[1]
    code, out, _ = run("forget", "model.od", "--users", "ids.txt", "--events", "log.csv", "--json")
    assert code == 0
    assert json.loads(out)["n_users"] == N_USERS - 3 == od.load("model.od", verify=True).n_users_


def test_info_tells_that_a_file_is_updatable(run, fit, folder):
    fit("log.csv", "model.od")
    assert "by model.od.living" in run("info", "model.od")[1]


def test_out_leaves_the_old_model(run, fit, folder):
    fit("half.csv", "model.od")
    before = (folder / "model.od").read_bytes()
    assert run("update", "model.od", "log.csv", "--out", "new.od")[0] == 0
    assert run("forget", "new.od", "--users", "three.csv", "--out", "newer.od")[0] == 0
    assert (folder / "model.od").read_bytes() == before
    assert [od.load(name).n_users_ for name in ("model.od", "new.od", "newer.od")] == [N_USERS, N_USERS, N_USERS - 3]


def test_the_settings_of_the_first_fit_stay(run, folder):
    assert run("fit", "half.csv", "--out", "model.od", "--updatable")[0] == 0
    settings = od.load("model.od").settings_
    assert run("update", "model.od", "log.csv")[0] == 0
    assert od.load("model.od").settings_ == settings


def test_rights_of_the_file_and_links_stay(run, fit, folder):
    fit("half.csv", "model.od")
    os.chmod(folder / "model.od", 0o640)
    os.symlink("model.od", folder / "link.od")
    assert run("update", "link.od", "log.csv")[0] == 0
    assert os.path.islink(folder / "link.od")
    assert stat.S_IMODE(os.stat(folder / "model.od").st_mode) == 0o640


def test_a_plain_fit_and_an_updatable_one_give_the_same_weights(run, fit, folder):
    fit("log.csv", "model.od", "--value", "rating")
    assert run("fit", "log.csv", "--out", "plain.od", *SETTINGS, "--value", "rating")[0] == 0
    a, b = od.load("model.od"), od.load("plain.od")
    assert certificate.difference(a.weights_, b.weights_) == 0
    assert persist.describe("plain.od")["bytes"] == persist.describe("model.od")["bytes"]
    assert not switch.living_path(folder / "plain.od").exists()


def test_no_user_can_be_read_from_the_file(fit, folder):
    fit("log.csv", "model.od", "--event", "id")
    content = (folder / "model.od").read_bytes() + (folder / "model.od.living").read_bytes()
    assert b"user 3" not in content
    assert b"again0" not in content


def test_a_database_is_a_log_like_any_other(run, fit, folder, rows, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("adbc_driver_manager")
    fit("log.csv", "whole.od", "--value", "rating", "--event", "id")
    with duckdb.connect("shop.db") as shop:
        shop.execute("create table log as select * from read_csv('log.csv')")
        shop.execute("create table leaving as select distinct user from log where user in ('user 3', 'user 8')")
    columns = ["--value", "rating", "--event", "id"]
    fit("duckdb:///shop.db", "model.od", "--query", f'select * from log where "at" < {len(rows) // 2}', *columns)
    assert run("update", "model.od", "duckdb:///shop.db", "--table", "log")[0] == 0
    assert same("model.od", "whole.od")
    monkeypatch.setenv("OFFDIAG_TEST_DB", "duckdb:///shop.db")
    source = "env:OFFDIAG_TEST_DB"
    query = ["--users-query", "select user from leaving", "--events", source, "--table", "log"]
    code, _, err = run("forget", "model.od", "--users", source, *query)
    assert (code, err) == (0, "")
    write(folder / "two.csv", [row for row in rows if row[0] in ("user 3", "user 8")])
    assert run("forget", "whole.od", "--users", "two.csv")[0] == 0
    assert same("model.od", "whole.od")
    assert "nothing new" in run("update", "model.od", source, "--query", "select * from log where user = 'user 1'")[1]


# Mistakes


def untouched(fails, folder, *args):
    """The error line of a command that must not touch any file."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    line = fails(*args)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return line


def test_bad_logs_are_one_line_and_change_nothing(run, fit, fails, folder, rows):
    fit("half.csv", "model.od", "--value", "rating")

    def says(text, *more):
        (folder / "bad.csv").write_text(text)
        return untouched(fails, folder, "update", "model.od", "bad.csv", *more)

    assert "empty file" in says("")
    assert "at least one event" in says("user,item,rating\n")
    assert "rating" in says("user,item\nann,tea\n")
    assert "(1 in all)" in says("user,item,rating\nann,tea,3\nann,,3\n")
    assert "numbers in the value column" in says("user,item,rating\nann,tea,lots\n")
    assert "0 or more" in says("user,item,rating\nann,tea,-3\n")
    assert "at least 3 columns" in says("user,item,rating\nann,tea,3\nbob\n")
    assert "fitted without one" in says("user,item,rating,at\nann,tea,3,1\n", "--time", "at")
    assert "of 1 users who are in the model already (for example 'user 3')" in says("user,item,rating\nuser 3,tea,3\n")
    assert "does not exist" in untouched(fails, folder, "update", "model.od", "nowhere.csv")
    assert "only with a database" in untouched(fails, folder, "update", "model.od", "log.csv", "--table", "x")


def test_ids_of_another_type_are_refused(run, fit, fails, folder):
    write(folder / "numbers.csv", [(u, i) for u in range(20) for i in range(5) if (u + i) % 3], ("user", "item"))
    fit("numbers.csv", "model.od")
    write(folder / "text.csv", [("ann", 1), ("ann", 2)], ("user", "item"))
    assert "user ids that are whole numbers, as in the model, received text" in untouched(
        fails, folder, "update", "model.od", "text.csv"
    )
    write(folder / "items.csv", [(77, "tea")], ("user", "item"))
    assert "item ids that are whole numbers" in untouched(fails, folder, "update", "model.od", "items.csv")
    (folder / "words.txt").write_text("ann\n")
    forget = ["forget", "model.od", "--users", "words.txt", "--events", "numbers.csv"]
    assert "received 'ann'" in untouched(fails, folder, *forget)
    fit("text.csv", "model.od")  # the other way round: digits in a text file may be text, in Parquet they are numbers
    write(folder / "digits.csv", [(1, 2), (1, 3)], ("user", "item"))
    pl.DataFrame({"user": [5], "item": [6]}).write_parquet(folder / "digits.parquet")
    assert "user ids that are text" in untouched(fails, folder, "update", "model.od", "digits.parquet")
    assert run("update", "model.od", "digits.csv")[0] == 0
    assert od.load("model.od").n_users_ == 2


def test_forgetting_the_wrong_rows_changes_nothing(fit, fails, folder, rows):
    fit("log.csv", "model.od", "--value", "rating")
    theirs = [row for row in rows if row[0] in ("user 3", "user 8", "user 9")]
    write(folder / "short.csv", theirs[:-1])
    assert "1 of 3 users" in untouched(fails, folder, "forget", "model.od", "--users", "short.csv")
    write(folder / "other.csv", [*theirs[:-1], (*theirs[-1][:2], 1 + theirs[-1][2] % 5, *theirs[-1][3:])])
    assert "1 of 3 users" in untouched(fails, folder, "forget", "model.od", "--users", "other.csv")
    write(folder / "stranger.csv", [*theirs, ("nobody", theirs[0][1], 3, 1, "e")])
    assert "'nobody'" in untouched(fails, folder, "forget", "model.od", "--users", "stranger.csv")
    assert "received only ids" in untouched(fails, folder, "forget", "model.od", "--users", "ids.txt")
    given = ["--users", "ids.txt", "--events", "short.csv"]
    assert "1 of 3 users" in untouched(fails, folder, "forget", "model.od", *given)
    (folder / "none.txt").write_text("\n")
    assert "at least one user id" in untouched(
        fails, folder, "forget", "model.od", "--users", "none.txt", "--events", "log.csv"
    )
    assert "goes with --events" in untouched(
        fails, folder, "forget", "model.od", "--users", "three.csv", "--users-query", "select 1"
    )


def test_the_last_users_cannot_all_leave(fit, fails, folder):
    write(folder / "few.csv", [("a", "x"), ("a", "y"), ("b", "x")], ("user", "item"))
    fit("few.csv", "model.od")
    assert untouched(fails, folder, "forget", "model.od", "--users", "few.csv")


def test_a_tuned_model_lives_on(run, folder):
    search = ["--trials", "2", "--metric", "ndcg@10", "--held-out", "0.2"]
    assert run("tune", "half.csv", *search, "--out", "tuned.od", "--updatable", "--event", "id")[0] == 0
    assert persist.describe(folder / "tuned.od")["metrics"] is not None
    assert run("update", "tuned.od", "log.csv")[0] == 0
    assert run("forget", "tuned.od", "--users", "three.csv")[0] == 0
    found = od.load("tuned.od")
    settings = {name: found.settings_[name] for name in ("dropout", "l2", "user_power")}
    with open("log.csv", newline="") as file:
        rest = [row for row in csv.reader(file) if row[0] not in ("user 3", "user 8", "user 9")]
    write("rest.csv", rest[1:])
    assert certificate.difference(found.weights_, od.EDLAE(**settings).fit(od.read("rest.csv")).weights_) <= 1e-5


def test_models_and_options_that_do_not_go_together(run, fails, folder):
    assert run("fit", "half.csv", "--out", "model.od", *SETTINGS)[0] == 0
    assert "fit it again with --updatable" in untouched(fails, folder, "update", "model.od", "log.csv")
    assert "fit it again with --updatable" in untouched(fails, folder, "forget", "model.od", "--users", "three.csv")
    for more, words in (
        (["--min-items", "3"], "--min-users and --min-items"),
        (["--min-users", "3"], "--min-users and --min-items"),
        (["--cluster", "local:2"], "do not go together"),
        (["--model", "item-knn"], "cannot be updated"),
        (["--value", "rating", "--duplicates", "maybe"], "duplicates"),
        (["--at-least", "3"], "--value"),
    ):
        assert words in untouched(fails, folder, "fit", "half.csv", "--out", "model.od", "--updatable", *more)
    assert "add --updatable" in untouched(fails, folder, "fit", "half.csv", "--out", "model.od", "--event", "id")
    assert "add --updatable" in untouched(fails, folder, "tune", "half.csv", "--out", "model.od", "--event", "id")
    assert "add --out" in untouched(fails, folder, "tune", "half.csv", "--updatable")
    slim = ["--model", "slim", "--updatable", "--out", "model.od"]
    assert "SLIM cannot be updated" in untouched(fails, folder, "tune", "half.csv", *slim)
    assert "nowhere.od" in fails("update", "nowhere.od", "log.csv")
    assert "does not exist" in fails("update", "model.od", "log.csv", "--out", "no/where.od")


def test_a_password_is_never_shown(run, fit, fails, folder):
    fit("half.csv", "model.od")
    url = "postgresql://ann:hunter2@127.0.0.1:1/db"
    for args in (
        ["update", "model.od", url, "--table", "log"],
        ["update", "model.od", url],
        ["forget", "model.od", "--users", url, "--table", "log"],
        ["fit", url, "--table", "log", "--out", "x.od"],
        ["info", url, "--table", "log"],
        ["evaluate", url, "model.od", "--table", "log"],
        ["update", "model.od", "log.csv", "--nonsense", url],
        ["similar", url, "x"],
    ):
        assert "hunter2" not in fails(*args)


# Two at once


def test_a_second_program_is_refused_while_the_first_changes_the_file(fit, fails, folder):
    fit("half.csv", "model.od")
    with switch.changing("model.od"):
        assert "another program is changing it" in untouched(fails, folder, "update", "model.od", "log.csv")
        assert "another program is changing it" in untouched(
            fails, folder, "forget", "model.od", "--users", "three.csv"
        )
    with switch.changing("model.od"):  # the lock is released with its holder
        pass


def test_what_another_program_wrote_meanwhile_is_not_undone(run, fit, fails, folder, monkeypatch):
    fit("half.csv", "model.od")
    fit("log.csv", "other.od")
    write_all = container.write

    def slow(file, *more):
        os.replace("other.od", "model.od")  # a program that ignores locks
        return write_all(file, *more)

    monkeypatch.setattr(container, "write", slow)
    assert "has replaced it in the meantime" in fails("update", "model.od", "log.csv")
    assert od.load("model.od", verify=True).n_users_ == N_USERS
    assert not [name for name in os.listdir(folder) if name.startswith(".offdiag")]


@pytest.mark.slow
def test_many_updates_at_once_lose_nothing(fit, folder, rows):
    """Processes, not threads: Python's warning filters are not thread-safe."""
    fit("half.csv", "model.od")
    for n in range(3):
        write(folder / f"new{n}.csv", [(f"guest {n}", rows[n][1]), (f"guest {n}", rows[n + 9][1])], ("user", "item"))
    waiting, rounds = list(range(3)), 0
    while waiting:
        commands = {n: [sys.executable, "-m", "offdiag", "update", "model.od", f"new{n}.csv"] for n in waiting}
        running = {n: subprocess.Popen(c, cwd=folder, stderr=subprocess.PIPE, text=True) for n, c in commands.items()}
        for program in running.values():
            _, err = program.communicate(timeout=60)
            assert program.returncode in (0, 2), err
            assert program.returncode == 0 or "run this again" in err
        waiting = [n for n in waiting if running[n].returncode == 2]
        rounds += 1
        assert rounds <= 3  # of those that start together at least one succeeds
    model = od.load("model.od", verify=True)
    ids = np.array([f"guest {n}" for n in range(3)])
    assert (past.ledger_of(model).places(model._past.ledger.hashes.users(ids)) >= 0).all()


def test_left_overs_of_killed_programs_are_swept(run, fit, folder):
    fit("half.csv", "model.od")
    old, busy, young, half = (
        folder / name for name in (".offdiag-0a.tmp", ".offdiag-0b.tmp", ".offdiag-0c.tmp", "model.od.next")
    )
    for path in (old, busy, young, half):
        path.write_bytes(b"half")
    for path in (old, busy):
        os.utime(path, (1, 1))
    import fcntl

    with open(busy, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run("update", "model.od", "log.csv")[0] == 0
        assert busy.exists()
    assert not [path for path in (old, young, half) if path.exists()]
