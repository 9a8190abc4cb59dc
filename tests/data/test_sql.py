"""Real databases: PostgreSQL, DuckDB, SQLite and what SQLAlchemy reads; passwords; servers that go away."""

import sqlite3
import subprocess
import sys
import threading
import time
import uuid

import numpy as np
import pytest

import offdiag as od
from offdiag import cli
from offdiag.data import sql
from offdiag.errors import OffdiagError
from tests.fixtures.postgres import Server, programs

pytestmark = pytest.mark.slow

pytest.importorskip("adbc_driver_manager", reason="the extra `sql` is not installed")
ROWS = [(7, "tea", 2.5), (7, "jam", 1.0), (9, "tea", 4.0), (9, "tea", 0.5), (12, "egg", 3.0)]


@pytest.fixture(scope="module")
def server():
    if programs() is None:
        pytest.skip("PostgreSQL (initdb, pg_ctl) is not installed on this machine")
    with Server() as running:
        values = ", ".join(
            f"({u}, '{i}', {v}, timestamptz '2024-05-0{n + 1} 12:00:00Z')" for n, (u, i, v) in enumerate(ROWS)
        )
        running.execute(
            'create table events ("user" int, item text, value numeric(8, 2), at timestamptz, id uuid)',
            "alter table events alter id set default gen_random_uuid()",
            f'insert into events ("user", item, value, at) values {values}',
            "create schema shop",
            'create view shop."odd "" name" as select * from events',
            "create table many as select g % 5000 as user, g % 97 as item from generate_series(1, 400000) g",
        )
        yield running


@pytest.fixture
def duck(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "shop.db")) as connection:
        connection.execute("create table events (user int, item text, value decimal(8, 2), id uuid default uuid())")
        connection.executemany("insert into events (user, item, value) values (?, ?, ?)", ROWS)
    return f"duckdb:///{tmp_path / 'shop.db'}"


@pytest.fixture
def lite(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop with space.sqlite")
    connection.execute("create table events (user integer, item text, value real)")
    connection.executemany("insert into events values (?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    return f"sqlite:///{tmp_path / 'shop with space.sqlite'}"


def same(inter):
    """Whether these are ROWS."""
    assert inter.user_ids.tolist() == [7, 9, 12]
    assert inter.item_ids.tolist() == ["egg", "jam", "tea"]
    return np.array_equal(inter.matrix.toarray(), [[0, 1, 2.5], [0, 0, 4.5], [3, 0, 0]])


# Reading


def test_postgresql_is_read_by_query_and_by_table(server):
    assert same(od.read(server.url, value="value", table="events"))
    assert same(od.read(server.url, value="value", query='select item, "user", value from events;\n'))
    assert same(od.read(server.url, value="value", table='shop.odd " name'))
    inter = od.read(server.url, value="value", time="at", table="events")
    assert inter.times.min() == 1714564800
    assert od.read(server.url, user="id", item=1, query='select id, "user" from events').user_ids.dtype.kind == "U"


def test_uuids_and_numerics_of_postgresql_are_plain_ids_and_numbers(server):
    name = "7b0fe90a-77f4-4b7a-b53a-5a7c1c3f1a55"
    query = f"select uuid '{name}' as user, numeric '17' as item, numeric '2.25' as value"
    inter = od.read(server.url, value="value", query=query)
    assert inter.user_ids.tolist() == [name]
    assert str(uuid.UUID(name)) == name
    assert inter.item_ids.tolist() == [17]
    assert inter.matrix.toarray().tolist() == [[2.25]]


def test_a_large_result_is_read_in_batches(server):
    inter = od.read(server.url, table="many", duplicates="sum")
    assert inter.matrix.sum() == 400_000
    assert inter.n_users == 5000
    seen = []
    query = "select m.user, repeat('x', 200) as item from many m"
    wanted = {"user": "user", "item": "item"}
    some = sql.read_columns(server.url, wanted, query=query, keep=lambda part: seen.append(len(part)) or part[:1])
    assert len(some["user"]) == sum(1 for rows in seen if rows)
    assert sum(seen) == 400_000
    assert len(seen) > 2


def test_duckdb_and_sqlite_files_are_read(duck, lite):
    for url in (duck, lite):
        assert same(od.read(url, value="value", table="events"))
        assert same(od.read(url, value=2, user=0, item=1, query="select user, item, value from events"))
    assert od.read(duck, user="id", table="events").n_users == 5


def test_other_databases_are_read_through_sqlalchemy(lite, monkeypatch):
    pytest.importorskip("sqlalchemy")
    url = lite.replace("sqlite://", "sqlite+pysqlite://")
    assert same(od.read(url, value="value", table="events"))
    assert same(od.read(url, value="value", query="select * from events where item <> ':x'"))
    with pytest.raises(OffdiagError, match="at least one interaction"):
        od.read(url, query="select user, item from events where item = 'nothing'")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(OffdiagError, match="pip install sqlalchemy"):
        od.read(url, table="events")


def test_a_driver_that_is_missing_is_named(lite, monkeypatch):
    with pytest.raises(OffdiagError, match=r"driver of 'mysql\+pymysql'.*No module named 'pymysql'\); install it"):
        od.read("mysql+pymysql://somebody:secret@localhost/shop", table="events")
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite.dbapi", None)
    with pytest.raises(OffdiagError, match=r"pip install 'offdiag\[sql\]'"):
        od.read(lite, table="events")


def test_a_connection_string_is_read_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("SHOP_DB", server.url)
    assert same(od.read("env:SHOP_DB", value="value", table="events"))
    monkeypatch.setenv("SHOP_DB", "hunter2")
    with pytest.raises(OffdiagError, match="'SHOP_DB', which is no connection string") as caught:
        od.read("env:SHOP_DB", table="events")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(OffdiagError, match="'NOT_THERE', which is not set"):
        od.read("env:NOT_THERE", table="events")


def test_nothing_is_ever_written(server, duck, lite):
    for url in (server.url, duck, lite):
        with pytest.raises(OffdiagError):
            od.read(url, query="delete from events")
        assert od.read(url, table="events").nnz == 4
    with pytest.raises(OffdiagError, match="read-only transaction"):
        od.read(server.url, query="with gone as (delete from events returning *) select * from gone")
    missing = duck.replace("shop.db", "nowhere.db")
    with pytest.raises(OffdiagError, match=r"nowhere.db' is not a file"):
        od.read(missing, table="events")


# Mistakes


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "received neither"),
        ({"query": "select 1", "table": "events"}, "received both"),
        ({"query": " "}, "empty"),
        ({"query": "selec nonsense"}, "syntax"),
        ({"table": "nowhere"}, "nowhere"),
        ({"query": "select item from events"}, "user='user' among the columns"),
        ({"query": 'select "user", item from events where false'}, "at least one interaction"),
        ({"query": "select null as user, item from events"}, "user id in every row"),
        ({"query": 'select "user", item, item as qty from events', "value": "qty"}, "numbers in the value column"),
        ({"table": "events", "format": "csv"}, "no format with a database"),
    ],
)
def test_a_mistake_is_one_line_without_the_password(server, more, words):
    with pytest.raises(OffdiagError, match=words) as caught:
        od.read(server.url, **more)
    assert server.password not in str(caught.value)
    assert "tester" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_query_without_a_database_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    with pytest.raises(OffdiagError, match="only with a database"):
        od.read(tmp_path / "a.csv", query="select 1")


def test_errors_of_the_connection_contain_no_secrets(server):
    wrong = server.url.replace(server.password, "wr0ng%2Fsecret")
    for url, words in (
        (wrong, "password authentication failed"),
        (server.url.replace(str(server.port), "1"), "refused"),
        (server.url + "nope", "does not exist"),
    ):
        with pytest.raises(OffdiagError, match=words) as caught:
            od.read(url, table="events")
        for secret in (server.password, "wr0ng", "wr0ng/secret"):
            assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:pw@host:5/db?sslmode=require", "postgresql://host:5/db"),
        ("postgresql://ann:p@w@host/db", "postgresql://host/db"),
        ("postgresql://ann:p/w@host/db", "postgresql://host/db"),
        ("postgresql://ann:p?w@host/db", "postgresql://…"),
        ("postgresql://host/db?user=ann&password=p@w", "postgresql://…"),
        ("postgresql://host/db?user=ann&password=pw", "postgresql://host/db"),
        ("duckdb:///shop.db", "duckdb:///shop.db"),
        ("env:SHOP", "env:SHOP"),
        ("events.csv", "events.csv"),
    ],
)
def test_the_printed_name_of_a_source_contains_no_secret(url, shown):
    assert sql.shown(url) == shown
    for secret in (s for s in ("p@w", "p/w", "p?w", "pw") if s in url):
        assert secret not in sql._scrub(f"cannot connect with {url}: {secret} is wrong", url)


# A model that follows a log in PostgreSQL


def test_a_model_follows_a_log_in_postgresql(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_DB", server.url)

    def run(*args):
        code = cli.main(args)
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), err
        assert server.password not in out
        return out

    rows = "select g % 40 as who, (g * g + g / 7) % 23 as what, timestamptz 'epoch' + g * interval '1 day' as at, "
    server.execute(
        f"create table log as {rows} gen_random_uuid() as id from generate_series(1, 500) g",
        "create table requests as select 5 as person union all select 12",
    )
    fit = ["--user", "who", "--item", "what", "--time", "at", "--event", "id", "--updatable", "--model", "ease"]
    fit += ["--l2", "3", "--user-power", "0"]
    run("fit", "env:SHOP_DB", "--query", "select * from log where at < '1971-01-01'", "--out", "model.od", *fit)
    query = "select * from log where who = 3 and at < '1971-01-01'"
    assert "nothing new" in run("update", "model.od", "env:SHOP_DB", "--query", query)
    run("update", "model.od", "env:SHOP_DB", "--table", "log")
    run("fit", "env:SHOP_DB", "--table", "log", "--out", "whole.od", *fit)
    assert np.array_equal(od.load("model.od").gram_.values, od.load("whole.od").gram_.values)
    leaving = ["--users-query", "select person from requests", "--events", "env:SHOP_DB", "--table", "log"]
    run("forget", "model.od", "--users", "env:SHOP_DB", *leaving)
    run("forget", "whole.od", "--users", "env:SHOP_DB", "--query", "select who, what from log where who in (5, 12)")
    assert np.array_equal(od.load("model.od").gram_.values, od.load("whole.od").gram_.values)
    assert od.load("model.od").n_users_ == 38


# Servers that go away


def test_a_killed_connection_gives_a_one_line_error(server):
    def kill(part):
        if not kill.done:
            kill.done = True
            server.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where query like '%generate_series(1, 77)%' and pid <> pg_backend_pid()"
            )
        return part

    kill.done = False
    query = "select m.user, m.item from many m, generate_series(1, 77)"
    with pytest.raises(OffdiagError, match="error from the database.*nothing was changed"):
        sql.read_columns(server.url, {"user": "user", "item": "item"}, query=query, keep=kill)


def test_a_server_that_stops_during_an_update_changes_nothing(server, tmp_path):
    model = tmp_path / "m.od"
    table = tmp_path / "first.csv"
    table.write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(30) for i in range(9) if (u + i) % 3))
    command = [sys.executable, "-m", "offdiag"]
    subprocess.run(
        [*command, "fit", table, "--out", model, "--updatable", "--model", "ease"], check=True, capture_output=True
    )
    before = model.read_bytes()
    query = "select m.user + 1000 as user, m.item from many m, generate_series(1, 200)"
    with subprocess.Popen(
        [*command, "update", model, server.url, "--query", query],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as ran:  # fmt: skip
        try:
            busy = "query like '%generate_series(1, 200)%' and pid <> pg_backend_pid()"
            watch = f"select count(*) from pg_stat_activity where {busy}"
            deadline = time.monotonic() + 60
            while not server.execute(watch)[0][0]:
                assert ran.poll() is None, ran.stderr.read()
                assert time.monotonic() < deadline
            stopper = threading.Thread(target=server.stop)
            stopper.start()
            out, err = ran.communicate(timeout=60)
            stopper.join()
        finally:
            server.start()
    assert (ran.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert "error from the database" in err
    assert server.password not in err
    assert model.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    "source", ["postgresql:/bob:s3cret@localhost/db", "host=here password=s3cret", "bob:s3cret@db"]
)
def test_a_mistyped_connection_string_is_not_repeated(source):
    with pytest.raises(OffdiagError, match="connection string") as error:
        od.read(source)
    assert "s3cret" not in str(error.value)


def test_the_scheme_may_be_written_in_capitals(lite):
    assert same(od.read(lite.replace("sqlite:", "SQLITE:"), value="value", table="events"))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["duckdb:", "duckdb://", "duckdb:///:memory:"])
def test_duckdb_in_memory_queries_files(tmp_path, source):
    pytest.importorskip("duckdb")
    (tmp_path / "t.jsonl").write_text('{"user": 1, "item": 5, "kind": "a"}\n{"user": 2, "item": 6, "kind": "b"}\n')
    query = f"select * from '{tmp_path / 't.jsonl'}'"
    inter = od.read(source, query=query, where="kind = 'b'")
    assert (inter.user_ids.tolist(), inter.item_ids.tolist()) == ([2], [6])
    assert inter.notes == ("1 row was left out: kind = 'b' is not true of them",)
    with pytest.raises(od.OffdiagError, match="the column 'colour'"):
        od.read(source, query=query, where="colour = 'b'")
