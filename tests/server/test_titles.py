"""Titles are read from tables and searched by words."""

import gzip
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.server import titles as titling


def plain(text):
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if not unicodedata.combining(c)).casefold()


def slow_search(titles, order, query):
    wanted = plain(query).strip()
    hits = [i for i in order if all(word in plain(titles[i]) for word in wanted.split())]
    return sorted(hits, key=lambda i: not plain(titles[i]).startswith(wanted))  # stable: popularity otherwise


words = st.text(st.sampled_from("aàbBéE ñ-ß "), max_size=6)


@given(st.lists(words, min_size=1, max_size=20), words, st.randoms(use_true_random=False))
def test_search_finds_the_same_items_as_a_slow_one(titles, query, random):
    order = list(range(len(titles)))
    random.shuffle(order)
    search = titling.Search(titles, order)
    wanted = slow_search(titles, order, query)
    assert search(query, 0, 100) == (wanted, len(wanted))
    assert search(query, 2, 3) == (wanted[2:5], len(wanted))


@pytest.mark.slow
def test_items_are_found_by_their_words(service, models):
    model = models["exact"]
    order = np.argsort(-model.popularity_, kind="stable")
    popular = service.client.get("/items", params={"limit": 7, "offset": 2}).json()
    assert [item["id"] for item in popular["items"]] == model.item_ids_[order[2:9]].tolist()
    assert popular["total"] == 150
    assert popular["items"][0]["popularity"] == model.popularity_[order[2]]
    word = model.item_ids_[40].split()[1]
    found = service.client.get("/items", params={"q": f"{word.upper()}  the", "limit": 200}).json()
    titles = model.item_ids_.tolist()
    assert [item["id"] for item in found["items"]] == [titles[i] for i in slow_search(titles, order, f"{word} the")]
    assert service.client.get("/items", params={"q": "no such title"}).json() == {"items": [], "total": 0}


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.csv", 'item,title\n1,"One, or ""more"""\n2,Deux\n', ("item", "title")),
        ("a.tsv", 'name\tmovie\nOne, or "more"\t1\nDeux\t2\n', ("movie", "name")),
        ("movies.dat", '1::One, or "more"::x\n2::Deux::y\n', ("0", "1")),
        ("b.csv", "\ufeffitem;title\n1;One, or more\n2;Deux\n3;\n", ("item", "title")),
    ],
)
def test_titles_are_read_from_tables(tmp_path, name, text, columns):
    (tmp_path / name).write_text(text, encoding="utf-8")
    read = titling.read(tmp_path / name, *columns)
    assert read["2"] == "Deux"
    assert read["1"].startswith("One, or ")
    assert set(read) == {"1", "2"}


def test_titles_are_read_from_parquet(tmp_path):
    import polars as pl

    pl.DataFrame({"item": [1, 2], "title": ["One", None]}).write_parquet(tmp_path / "t.parquet")
    assert titling.read(tmp_path / "t.parquet") == {"1": "One"}


def test_titles_are_read_from_every_format_and_packing(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("item,title\n1,Été\n".encode()))
    (tmp_path / "t.jsonl").write_text('{"item": 1, "title": "Été"}\n', encoding="utf-8")
    for name in ("t.csv.gz", "t.jsonl"):
        assert titling.read(tmp_path / name) == {"1": "Été"}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("none.csv", None, "not a file"),
        ("empty.csv", b"", "empty"),
        ("other.csv", b"a,b\n1,2\n", "columns a, b"),
        ("wrong.parquet", b"no parquet", "wrong.parquet"),
    ],
)
def test_an_invalid_table_of_titles_is_one_clear_line(tmp_path, name, content, problem):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(od.OffdiagError, match=problem) as error:
        titling.read(tmp_path / name)
    assert "\n" not in str(error.value)
