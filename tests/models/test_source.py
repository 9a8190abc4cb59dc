"""What fit takes: matrices, Interactions, and every table that od.read reads, with its options."""

import inspect
import sqlite3
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from scipy import sparse

import offdiag as od
from offdiag import model_list
from offdiag.data.columns import Roles
from offdiag.models.source import Reading, read_data

ROWS = {"customer": ["ann", "ann", "bob", "cem"], "sku": ["tea", "cup", "tea", "jam"], "qty": [2, 3, 4, 1]}
WORDS = {"user": "customer", "item": "sku", "value": "qty"}
LINEAR = [name for name, entry in model_list.MODELS.items() if entry.family not in ("nets", "order")]


def test_fit_has_the_options_of_read():
    of_read = set(inspect.signature(od.read).parameters) - {"source"}
    assert set(Reading.__annotations__) == of_read


@pytest.fixture
def expected():
    return od.EASE(l2=1.0).fit(od.read(pl.DataFrame(ROWS), **WORDS))


FORMS = {
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pandas": pd.DataFrame,
    "Arrow": pa.table,
    "dataset": lambda rows: pyarrow.dataset.dataset(pa.table(rows)),
    "dict": dict,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_table_is_learned_from_as_read_would_read_it(form, expected):
    model = od.EASE(l2=1.0).fit(form(ROWS), **WORDS)
    assert np.array_equal(model.weights_.toarray(), expected.weights_.toarray())
    assert model.item_ids_.tolist() == ["cup", "jam", "tea"]
    assert model.columns_ == expected.columns_ == Roles("customer", "sku", "qty")
    assert model.popularity_.tolist() == [3, 1, 6]


def test_files_and_databases_are_learned_from(tmp_path, expected):
    table = pl.DataFrame(ROWS)
    table.head(2).write_csv(tmp_path / "a.csv")
    table.tail(2).write_csv(tmp_path / "b.csv")
    table.write_parquet(tmp_path / "all.parquet")
    with sqlite3.connect(tmp_path / "shop.db") as base:
        base.execute("create table log (customer text, sku text, qty int)")
        base.executemany("insert into log values (?, ?, ?)", table.rows())
    base.close()
    sources = {
        "path": (tmp_path / "all.parquet", {}),
        "text": (str(tmp_path / "all.parquet"), {}),
        "list": ([tmp_path / "a.csv", tmp_path / "b.csv"], {}),
        "pattern": (str(tmp_path / "*.csv"), {}),
        "database": (f"sqlite:///{tmp_path / 'shop.db'}", {"table": "log"}),
    }
    for name, (source, more) in sources.items():
        model = od.EASE(l2=1.0).fit(source, **WORDS, **more)
        assert np.array_equal(model.weights_.toarray(), expected.weights_.toarray()), name


@pytest.mark.parametrize("name", LINEAR)
def test_every_model_learns_from_a_table(name, tmp_path):
    data = od.synthetic.interactions(60, 12, 300, seed=0)
    table = data.to_polars().rename({"user": "who", "item": "what"})
    model = getattr(od, name)().fit(table, user="who", item="what")
    assert model.columns_ == Roles("who", "what")
    plain = getattr(od, name)().fit(data)
    assert plain.columns_ is None
    assert np.array_equal(model.predict(data), plain.predict(data))
    model.save(tmp_path / "model.od")
    assert od.load(tmp_path / "model.od").columns_ == model.columns_


def test_a_matrix_takes_ids():
    model = od.Popularity().fit(np.array([[1, 0], [1, 1]]), item_ids=["tea", "cup"])
    assert model.item_ids_.tolist() == ["tea", "cup"]
    assert od.Popularity().fit(sparse.eye_array(2)).columns_ is None


def test_selections_and_splits_keep_the_columns():
    data = od.read(pl.DataFrame(ROWS), **WORDS)
    for some in (data.select_users([0, 1]), data.select_items([0, 1]), data[:2], od.prepare.binarize(data)):
        assert some.columns == data.columns
    assert od.split.strong(data, held_out=1).train.columns == data.columns
    assert od.split.given(data, data).train.columns == data.columns


@pytest.mark.parametrize(
    ("source", "words", "error", "message"),
    [
        (ROWS, {"user": "costumer", "item": "sku"}, od.OffdiagError, "user='costumer'.*received customer, sku, qty"),
        (pl.DataFrame(ROWS), {}, od.OffdiagError, "try user='customer', item='sku'"),
        (pd.DataFrame(np.eye(3, dtype=int)), {}, od.OffdiagError, r"columns items: fit\(table.to_numpy\(\), item_ids"),
        (pl.DataFrame(ROWS), {"usr": "customer"}, TypeError, "unexpected keyword argument 'usr'; did you mean 'user'?"),
        (od.synthetic.interactions(9, 9, 20), {"user": "a"}, od.OffdiagError, "user only with a table, received Inter"),
        (np.eye(2), {"value": "qty"}, od.OffdiagError, "received a matrix"),
        ("no-such-file.csv", {}, od.OffdiagError, "does not exist"),
        (["no-such-file.csv"], {}, od.OffdiagError, "does not exist"),
        ([["ann", "tea"]], {}, od.OffdiagError, "matrix of numbers"),
        (object(), {}, od.OffdiagError, "received object"),
    ],
)
def test_mistakes_are_named(source, words, error, message):
    with pytest.raises(error, match=message):
        od.Popularity().fit(source, **words)


def test_nothing_of_an_earlier_fit_remains():
    model = od.Popularity().fit(ROWS, **WORDS)
    assert model.fit(np.eye(3)).columns_ is None


def test_reading_a_matrix_takes_little_memory_next_to_it():
    rng = np.random.default_rng(0)
    n, m, length = 20_000, 100, 50
    values = rng.integers(1, 5, n * length).astype(np.float32) / 4
    items = np.tile(np.arange(0, m, 2, dtype=np.int32), n)
    X = sparse.csr_array((values, items, np.arange(n + 1, dtype=np.int32) * length), shape=(n, m))
    tracemalloc.start()
    _, found = read_data(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * X.nnz  # a copy of the indices in 64 bits would take as much
    assert np.array_equal(found.popularity, X.sum(axis=0))  # multiples of a quarter: exact
    assert not found.counts_users
