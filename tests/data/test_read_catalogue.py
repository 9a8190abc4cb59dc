"""Products are read from any table; what is guessed, left out or cut is reported."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.read_catalogue import parse_columns, read_catalogue
from tests.fixtures.mistakes import refused

ROWS = {"sku": [7, 8], "name": ["Alien", "Brazil"], "genres": ["horror", None], "price": [9.5, None]}
TRUTH = [
    {"item": 7, "title": "Alien", "category": "horror", "price": 9.5},
    {"item": 8, "title": "Brazil", "category": None, "price": None},
]


def test_every_kind_of_table_gives_the_same_catalogue(tmp_path):
    pl, pd, pa = pytest.importorskip("polars"), pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pl.DataFrame(ROWS)
    frame.write_csv(tmp_path / "p.csv")
    frame.write_csv(tmp_path / "p.tsv", separator="\t")
    frame.write_parquet(tmp_path / "p.parquet")
    frame.write_ndjson(tmp_path / "p.jsonl")
    frame.write_ipc(tmp_path / "p.arrow")
    (tmp_path / "p.json").write_text(json.dumps(frame.to_dicts()))
    (tmp_path / "p.inter").write_text("sku:token,name:token,genres:token,price:float\n7,Alien,horror,9.5\n8,Brazil,,\n")
    (tmp_path / "p.dat").write_text("7::Alien::horror::9.5\n8::Brazil::::\n")
    files = [str(tmp_path / f"p.{end}") for end in ("csv", "tsv", "parquet", "jsonl", "arrow", "json", "inter")]
    sources = [ROWS, frame, frame.lazy(), pd.DataFrame(ROWS), pa.table(ROWS), *files, [files[0]]]
    for source in sources:
        assert read_catalogue(source).to_dicts() == TRUTH, source
    numbered = read_catalogue(tmp_path / "p.dat", item=0, title=1, category=2, price=3)
    assert numbered.to_dicts() == TRUTH
    assert numbered.notes == ()


def test_a_database_is_a_source(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("adbc_driver_manager")
    with duckdb.connect(str(tmp_path / "shop.db")) as base:
        base.execute("create table products as select 7 as sku, 'Alien' as name, 9.5 as price")
    source = f"duckdb:///{tmp_path / 'shop.db'}"
    assert read_catalogue(source, table="products").to_dicts() == [{"item": 7, "title": "Alien", "price": 9.5}]
    asked = read_catalogue(source, query="select sku, name from products")
    assert asked.to_dicts() == [{"item": 7, "title": "Alien"}]
    with refused("query only with a database"):
        read_catalogue(ROWS, query="select 1")


def test_a_sheet_is_chosen_by_name(tmp_path):
    pl = pytest.importorskip("polars")
    pytest.importorskip("fastexcel")
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(tmp_path / "p.xlsx") as book:
        pl.DataFrame(ROWS).write_excel(book, worksheet="shop")
        pl.DataFrame({"a": [1]}).write_excel(book, worksheet="other")
    assert read_catalogue(tmp_path / "p.xlsx", table="shop").to_dicts() == TRUTH


@pytest.mark.parametrize(
    ("columns", "roles"),
    [
        (["item_id", "item", "title"], {"item": "item_id", "title": "title"}),
        (["id", "product", "price"], {"item": "id", "title": "product", "price": "price"}),
        (["product_id", "id", "name"], {"item": "product_id", "title": "name"}),
        (["product", "name"], {"item": "product", "title": "name"}),
        (["Anime ID", "Title", "URL"], {"item": "Anime ID", "title": "Title", "link": "URL"}),
        (["movieId", "title", "genres"], {"item": "movieId", "title": "title", "category": "genres"}),
        (["asin", "imgUrl", "parent_asin"], {"item": "asin", "image": "imgUrl", "group": "parent_asin"}),
        (["name", "title", "sku"], {"item": "sku", "title": "title"}),
    ],
)
def test_columns_are_found_by_their_usual_names(columns, roles):
    found = read_catalogue({name: ["x"] for name in columns})
    assert dict(found.source) == roles
    for role, column in roles.items():
        assert f"{role}={column!r}" in found.notes[0]
    for unused in set(columns) - set(roles.values()):
        assert unused in found.notes[0].partition("not used: ")[2]


def test_a_named_column_is_not_guessed_again():
    found = read_catalogue({"id": [1], "name": ["a"], "title": ["b"]}, title="name")
    assert found.title(1) == "a"
    assert "title='name'" in found.notes[0]
    assert read_catalogue({"id": [1], "name": ["a"]}, item="id", title="name").notes == ()


@pytest.mark.parametrize(
    ("table", "words", "options"),
    [
        ({"a": [1], "b": ["x"]}, "column of item ids.*a, b.*item=", {}),
        ({"id": [1], "b": ["x"]}, "title or another column.*id, b.*title=", {}),
        ({"id": [1], "b": ["x"]}, "title='c'.*id, b", {"title": "c"}),
        ({"id": [1], "b": ["x"]}, "title=2.*id, b", {"title": 2}),
        ({"id": [None], "title": ["x"]}, "at least one product", {}),
        ({"id": [1.5], "title": ["x"]}, "whole numbers or text", {}),
        (3, "received int", {}),
    ],
)
def test_a_table_that_is_no_catalogue_is_explained(table, words, options):
    with refused(words):
        read_catalogue(table, **options)


def test_what_is_left_out_is_counted():
    table = {
        "id": ["7", "7", None, " ", "8", "9"],
        "title": ["Alien", "again", "none", "blank", "a\nb\x1b[31m", "x" * 600],
        "link": ["javascript:alert(1)", None, None, None, " https://a ", "data:x"],
    }
    shop = read_catalogue(table)
    assert shop.items.tolist() == [7, 8, 9]
    assert shop.column("title", [7, 8]) == ["Alien", "a b [31m"]
    assert shop.title(9) == "x" * 499 + "…"
    assert shop.column("link", [7, 8, 9]) == [None, "https://a", None]
    assert shop.notes[1:] == (
        "2 rows without an item id were left out",
        "1 row repeats an item: the first row was kept",
        "control characters were removed from the title of 1 row",
        "the title of 1 row was cut at 500 characters",
        "the link of 2 rows is no address (http, https or relative) and was left out, such as 'javascript:alert(1)'",
    )


def test_notes_are_logged(caplog):
    with caplog.at_level("INFO", logger="offdiag"):
        read_catalogue({"id": [1, 1], "title": ["a", "b"]})
    assert "1 row repeats an item" in caplog.text


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ([1, None], [1.0, None]),
        (["1.50", ""], [1.5, None]),
        (["1,50 €", "2"], ["1,50 €", "2"]),
        (["free", None], ["free", None]),
        ([float("nan"), float("inf")], [None, None]),
    ],
)
def test_prices_are_numbers_if_all_are(prices, expected):
    assert read_catalogue({"id": [1, 2], "price": prices}).column("price", [1, 2]) == expected


def test_cells_of_other_types_become_text():
    shop = read_catalogue(
        {"id": [1, 2], "title": [1984.0, None], "genres": [["a", "b"], []], "images": [["a.png", "b.png"], []]}
    )
    assert shop.to_dicts() == [
        {"item": 1, "title": "1984", "category": "a, b", "image": "a.png"},
        {"item": 2, "title": None, "category": None, "image": None},
    ]


def test_a_file_that_is_not_utf8_is_read_as_latin_1_with_a_note(tmp_path):
    (tmp_path / "p.csv").write_bytes("id,title\n1,Amélie\n".encode("latin-1"))
    shop = read_catalogue(tmp_path / "p.csv")
    assert shop.title(1) == "Amélie"
    assert "read as latin-1" in shop.notes[0]
    (tmp_path / "p.csv").write_bytes("id,title\n1,Amélie\n".encode("cp1252"))
    assert read_catalogue(tmp_path / "p.csv", encoding="cp1252").notes == ("columns found: item='id', title='title'",)


def test_ids_follow_the_rule_of_reading_interactions(tmp_path):
    (tmp_path / "p.csv").write_text("id,title\n007,Bond\n12,Dozen\n")
    shop = read_catalogue(tmp_path / "p.csv")
    assert shop.items.tolist() == ["007", "12"]
    assert (shop.title(12), shop.title(7)) == ("Dozen", None)
    model = od.Popularity().fit(od.read({"user": [1, 1], "item": ["007", "12"]})).with_catalogue(tmp_path / "p.csv")
    assert model.recommend([[]], k=2).to_polars()["title"].to_list() == ["Bond", "Dozen"]


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.one_of(st.none(), st.text(max_size=4))), min_size=1
    ).filter(lambda rows: any(row[0] is not None for row in rows))
)
def test_every_row_is_kept_or_counted(rows):
    with np.errstate(all="raise"):
        shop = read_catalogue({"id": [row[0] for row in rows], "title": [row[1] for row in rows]})
    assert shop.items.tolist() == sorted({row[0] for row in rows if row[0] is not None})
    missing = sum(row[0] is None for row in rows)
    repeated = len(rows) - missing - len(shop)
    notes = " ".join(shop.notes)
    assert (f"{missing} row" in notes and "without an item id" in notes) == bool(missing)
    assert (f"{repeated} row" in notes and "repeat" in notes) == bool(repeated)


def test_columns_are_parsed_as_the_command_line_takes_them():
    assert parse_columns("title=name, price=3") == {"title": "name", "price": 3}
    for text, words in (("title", "'title'"), ("colour=x", "NAME=COLUMN"), ("title=a,title=b", "twice")):
        with refused(words):
            parse_columns(text)
