"""Twenty-six tables as people have them, each from file to recommendations by one pair of commands.

All hold the same purchases, so all must give the recommendations of a model fitted to the matrix of these purchases.
"""

import bz2
import gzip
import io
import json
import lzma
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import polars as pl
import pytest

import offdiag as od

CUSTOMERS = ["ann", "bob", "cy", "dan", "eve", "fay", "gus", "hal"]
PRODUCTS = ["cup", "jam", "mug", "pan", "tea", "tin"]
BOUGHT = [
    (CUSTOMERS[u], PRODUCTS[i], 1 + (u + i) % 3, f"2024-0{1 + i}-1{u}")
    for u in range(8)
    for i in range(6)
    if (7 * u + 3 * i * i + u * i) % 5 < 3
]
PAIR, OTHER = [(c, p) for c in CUSTOMERS for p in PRODUCTS if (c, p) not in {row[:2] for row in BOUGHT}][:2]
COLUMNS = ["customer", "product", "qty", "day"]
FRAME = pl.DataFrame(BOUGHT, schema=COLUMNS, orient="row")
WORDS = ["--user", "customer", "--item", "product"]
QTY = [*WORDS, "--value", "qty"]


def lines(rows=BOUGHT, header=COLUMNS, separator=","):
    return "".join(separator.join(map(str, row)) + "\n" for row in [header, *rows])


def expected(counts):
    """The lists of a model that never saw a file."""
    X = np.zeros((8, 6), dtype=np.float32)
    for customer, product, qty, _ in BOUGHT:
        X[CUSTOMERS.index(customer), PRODUCTS.index(product)] = qty if counts else 1
    inter = od.read(X, user_ids=CUSTOMERS, item_ids=PRODUCTS)
    lists = od.EASE(l2=2.0, user_power=0.0).fit(inter).recommend(inter, k=3)
    return {user: [(item, round(score, 5)) for item, score in one] for user, one in zip(CUSTOMERS, lists, strict=True)}


def csv(folder):
    (folder / "orders.csv").write_text(lines())
    return "orders.csv", QTY, []


def json_lines(folder):
    (folder / "clicks.jsonl").write_text("".join(json.dumps(dict(zip(COLUMNS, r, strict=True))) + "\n" for r in BOUGHT))
    return "clicks.jsonl", QTY, []


def json_records(folder):
    FRAME.write_json(folder / "orders.json")
    return "orders.json", QTY, []


def json_columns_of_pandas(folder):
    FRAME.to_pandas().to_json(folder / "frame.json")
    return "frame.json", QTY, []


def workbook(folder):
    FRAME.write_excel(folder / "orders.xlsx")
    return "orders.xlsx", QTY, []


def sheet_of_a_workbook(folder):
    import xlsxwriter

    with xlsxwriter.Workbook(folder / "shop.xlsx") as book:
        FRAME.write_excel(book, worksheet="Orders")
        pl.DataFrame({"name": ["Ann"]}).write_excel(book, worksheet="Customers")
    return "shop.xlsx", [*QTY, "--table", "Orders"], []


def feather(folder):
    FRAME.write_ipc(folder / "orders.feather", compression="lz4")
    return "orders.feather", QTY, []


def zip_archive(folder):
    half = len(BOUGHT) // 2
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        archive.writestr("export/part-1.csv", lines(BOUGHT[:half]))
        archive.writestr("export/part-2.csv", lines(BOUGHT[half:]))
        archive.writestr("export/LICENSE", "free")
    return "export.zip", QTY, ["1 other file was not read in export.zip: 'export/LICENSE'"]


def zstd(folder):
    import zstandard

    (folder / "orders.csv.zst").write_bytes(zstandard.ZstdCompressor().compress(lines().encode()))
    return "orders.csv.zst", QTY, []


def packed_json(folder):
    json_lines(folder)
    (folder / "clicks.ndjson.xz").write_bytes(lzma.compress((folder / "clicks.jsonl").read_bytes()))
    return "clicks.ndjson.xz", QTY, []


def folder_of_csv(folder):
    (folder / "logs").mkdir()
    for at in range(3):
        (folder / "logs" / f"day-{at}.csv.gz").write_bytes(gzip.compress(lines(BOUGHT[at::3]).encode()))
    return "logs", QTY, []


def pattern_of_files(folder):
    for at in range(3):
        (folder / f"day-{at}.tsv.bz2").write_bytes(bz2.compress(lines(BOUGHT[at::3], separator="\t").encode()))
    return "day-*.tsv.bz2", QTY, []


def hive_partitions(folder):
    FRAME.with_columns(event=pl.lit("buy")).write_parquet(folder / "lake", partition_by=["event", "day"])
    other = FRAME.head(3).with_columns(event=pl.lit("view"), product=pl.lit("pan"))
    other.write_parquet(folder / "lake", partition_by=["event", "day"])
    return "lake", [*QTY, "--time", "day", "--where", "event = 'buy'"], ["3 rows were left out: event = 'buy' is not"]


def address(folder):
    FRAME.write_parquet(folder / "orders.parquet")
    return "http://127.0.0.1:{port}/orders.parquet?token=secret", QTY, []


def bucket(folder):
    import fsspec

    with fsspec.open("memory://shop/2024/orders.csv", "w") as file:
        file.write(lines())
    return "memory://shop/2024/orders.csv", QTY, []


def stdin(folder):
    json_lines(folder)
    return "-", QTY, []


def recbole(folder):
    header = ["user_id:token", "item_id:token", "rating:float", "day:token"]
    (folder / "shop.inter").write_text(lines(header=header, separator="\t"))
    return "shop.inter", ["--user", "user_id", "--item", "item_id", "--value", "rating"], []


def sequences(folder):
    text = "".join(f"{c} {' '.join(p for u, p, *_ in BOUGHT if u == c)}\n" for c in CUSTOMERS)
    (folder / "sequences.txt").write_text(text)
    return "sequences.txt", ["--format", "sequence"], []


def duckdb_in_memory(folder):
    json_lines(folder)
    query = "select customer, product, sum(qty) as qty from 'clicks.jsonl' group by all"
    return "duckdb:", [*QTY, "--query", query], []


def missing_users(folder):
    rows = [("", "pan", 1, "2024-01-01"), *BOUGHT, ("ann", "", 2, "2024-01-01"), ("", "pan", 2, "2024-01-02")]
    (folder / "orders.csv").write_text(lines(rows))
    notes = ["2 rows without a user were dropped", "1 row without an item was dropped"]
    return "orders.csv", [*QTY, "--missing", "drop"], notes


def returns(folder):
    more = [(*PAIR, 2, "2024-01-01"), (*PAIR, -2, "2024-01-03"), (*OTHER, -1, "2024-01-03")]
    (folder / "orders.csv").write_text(lines([*BOUGHT, *more]))
    note = "2 rows with negative values were netted; 2 pairs of user and item left with nothing disappeared"
    return "orders.csv", [*QTY, "--negative", "net"], [note]


def cancelled_rows(folder):
    (folder / "orders.csv").write_text(lines([*BOUGHT, (*PAIR, -2, "2024-01-03")]))
    return "orders.csv", [*QTY, "--negative", "drop"], ["1 row with negative values was dropped"]


def decimal_commas_and_german_dates(folder):
    rows = [(c, p, f"{q},00", ".".join(reversed(d.split("-")))) for c, p, q, d in BOUGHT]
    (folder / "orders.csv").write_text(lines(rows, separator=";"), encoding="latin-1")
    words = ["--decimal", ",", "--time", "day", "--date-format", "%d.%m.%Y", "--encoding", "latin-1"]
    return "orders.csv", [*QTY, *words], []


def cases_of_user_ids(folder):
    rows = [(c.upper() if at % 2 else f" {c} ", p, q, d) for at, (c, p, q, d) in enumerate(BOUGHT)]
    (folder / "orders.json").write_text(json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows]))
    merged = len({row[0] for row in rows}) - len(CUSTOMERS)
    return "orders.json", [*QTY, "--normalise-users"], [f"{merged} user ids were merged with others that differ only"]


def events_of_many_kinds(folder):
    header = [*COLUMNS, "event", "price"]
    rows = [(*row, "purchase", 9.5) for row in BOUGHT]
    rows += [(*PAIR, 1, "2024-01-01", "view", 9.5), (*OTHER, 1, "2024-01-01", "purchase", 0)]
    (folder / "clicks.csv").write_text(lines(rows, header))
    where = "event = 'purchase' AND price > 0"
    return "clicks.csv", [*QTY, "--where", where], [f"2 rows were left out: {where} is not true of them"]


def weights_of_actions(folder):
    rows = [(c, p, "view" if q == 1 else "cart" if q == 2 else "purchase", d) for c, p, q, d in BOUGHT]
    rows += [(*PAIR, "remove", "2024-01-01")]
    (folder / "clicks.csv").write_text(lines(rows, ["customer", "product", "event", "day"]))
    words = ["--action", "event", "--weights", "view=1,cart=2,purchase=3,remove=0"]
    return "clicks.csv", [*WORDS, *words], ["1 row was dropped: 'remove' has weight 0"]


TABLES = (
    csv, json_lines, json_records, json_columns_of_pandas, workbook, sheet_of_a_workbook, feather, zip_archive, zstd,
    packed_json, folder_of_csv, pattern_of_files, hive_partitions, address, bucket, stdin, recbole, sequences,
    duckdb_in_memory, missing_users, returns, cancelled_rows, decimal_commas_and_german_dates, cases_of_user_ids,
    events_of_many_kinds, weights_of_actions,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Where `run` runs."""
    return tmp_path


@pytest.fixture
def port(tmp_path):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_a_table_gives_the_recommendations_of_its_purchases(table, tmp_path, monkeypatch, run, port):
    source, words, notes = table(tmp_path)
    source = source.format(port=port)

    def call(*args):
        if source == "-":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "clicks.jsonl").read_bytes())))
        code, out, err = run(*args)
        assert code == 0, err
        printed = [line.removeprefix("offdiag: note: ") for line in err.splitlines()]
        assert len(printed) == len(notes), err
        assert all(line.startswith(note) for line, note in zip(printed, notes, strict=True)), err
        assert "secret" not in out + err
        return out

    call("fit", source, *words, "--model", "ease", "--l2", "2", "--user-power", "0", "--out", "shop.od")
    found = json.loads(call("recommend", "shop.od", "--histories", source, *words, "-k", "3", "--json"))
    lists = {one["user"]: [(i["item"], round(i["score"], 5)) for i in one["items"]] for one in found}
    wanted = expected(counts=table is not sequences)
    assert lists.keys() == wanted.keys()
    for user, items in wanted.items():
        assert [item for item, _ in lists[user]] == [item for item, _ in items], user
        assert [score for _, score in lists[user]] == pytest.approx([score for _, score in items], abs=1e-4)


def test_each_kind_of_dirt_is_an_error_that_names_its_option(tmp_path, fails):
    for table, option in (
        (missing_users, "--missing 'drop'"),
        (returns, "--negative 'drop' or 'net'"),
        (decimal_commas_and_german_dates, "--decimal ','"),
    ):
        source, words, _ = table(tmp_path)
        strict = [word for word in words if word not in ("--missing", "drop", "--negative", "net", "--decimal", ",")]
        assert option in fails("fit", source, *strict, "--out", "shop.od")
    source, words, _ = decimal_commas_and_german_dates(tmp_path)
    at = words.index("--date-format")
    assert "--date-format '…'" in fails("fit", source, *words[:at], *words[at + 2 :], "--out", "shop.od")
    assert not (tmp_path / "shop.od").exists()
