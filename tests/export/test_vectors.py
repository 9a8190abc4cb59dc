"""Vectors of low-rank models: indexes and databases give the lists of the library."""

import json
import sys

import numpy as np
import pytest

import offdiag as od
from tests.export.conftest import LOW_RANK, assert_same_lists
from tests.fixtures.postgres import Server, programs

LONG = 60  # all items: seen ones are removed afterwards, as a caller of an index does


def unseen(history, pairs, k):
    return [(item, score) for item, score in pairs if item not in set(history)][:k]


@pytest.mark.parametrize("name", LOW_RANK)
def test_inner_products_are_the_scores(fitted, histories, name):
    model, found = fitted[name], od.export.vectors(fitted[name])
    for history in histories[:5]:
        scores = found.decoder @ found.query(history)
        np.testing.assert_allclose(scores, model.predict([history])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOW_RANK)
def test_faiss_gives_the_same_lists(fitted, histories, name):
    pytest.importorskip("faiss")
    model, found = fitted[name], od.export.vectors(fitted[name])
    asked = histories[:-1]
    scores, places = od.export.faiss_index(model).search(np.array([found.query(h) for h in asked]), LONG)
    lists = [
        unseen(h, zip(model.item_ids_[p].tolist(), s.tolist(), strict=True), 10)
        for h, p, s in zip(asked, places, scores, strict=True)
    ]
    assert_same_lists(model, asked, [[i for i, _ in row] for row in lists], [[s for _, s in row] for row in lists])


@pytest.mark.slow
def test_qdrant_gives_the_same_lists(fitted, histories):
    client = pytest.importorskip("qdrant_client").QdrantClient(":memory:")
    model, found = fitted["LowRankDLAE"], od.export.vectors(fitted["LowRankDLAE"])
    assert od.export.fill_qdrant(model, client, "items") == len(model.item_ids_)
    asked = histories[:10]
    answers = [client.query_points("items", query=found.query(h).tolist(), limit=LONG).points for h in asked]
    lists = [unseen(h, [(p.payload["item"], p.score) for p in a], 10) for h, a in zip(asked, answers, strict=True)]
    assert_same_lists(model, asked, [[i for i, _ in row] for row in lists], [[s for _, s in row] for row in lists])
    with pytest.raises(od.OffdiagError, match="'items', which exists"):
        od.export.fill_qdrant(model, client, "items")


def odd_ids():
    X = np.random.default_rng(0).random((30, 5)) < 0.5
    ids = ["it's", "back\\slash", 'quo"te', "plain", "; drop table items; --"]
    return od.LowRankDLAE(rank=2, dropout=0.3, l2=1.0).fit(od.read(X.astype(float), item_ids=ids))


def test_sql_holds_every_item_and_quotes_ids():
    model = odd_ids()
    create, insert = od.export.pgvector_sql(model, "things")
    assert create == 'create table "things" (item text primary key, vector vector(2));'
    for text in ("('it''s', '[", "(E'back\\\\slash', '[", "('; drop table items; --', '["):
        assert text in insert
    with pytest.raises(od.OffdiagError, match="plain table name"):
        od.export.pgvector_sql(model, 'a"; drop')


@pytest.fixture(scope="module")
def server():
    if programs() is None:
        pytest.skip("PostgreSQL (initdb, pg_ctl) is not installed on this machine")
    with Server() as running:
        yield running


@pytest.mark.slow
def test_postgresql_reads_back_the_ids_and_vectors(server):
    """Vectors as text here, so that it also runs without the extension."""
    model = odd_ids()
    create, *inserts = od.export.pgvector_sql(model, "things")
    server.execute(create.replace("vector(2)", "text"), *inserts)
    stored = {item: np.array(json.loads(vector)) for item, vector in server.execute("select item, vector from things")}
    expected = od.export.vectors(model)
    assert sorted(stored) == sorted(expected.item_ids.tolist())
    for item, row in zip(expected.item_ids.tolist(), expected.decoder, strict=True):
        np.testing.assert_array_equal(stored[item].astype(np.float32), row)


@pytest.mark.slow
def test_pgvector_gives_the_same_lists(fitted, histories, server):
    if not server.execute("select 1 from pg_available_extensions where name = 'vector'"):
        pytest.skip("the extension pgvector is not installed")
    model, found = fitted["LowRankDLAE"], od.export.vectors(fitted["LowRankDLAE"])
    query = "[" + ",".join(map(str, found.query(histories[0]))) + "]"
    ranked = f"select item from items order by vector <#> '{query}' limit {LONG}"
    server.execute("drop table if exists items", "create extension if not exists vector")
    listed = [item for (item,) in server.execute(*od.export.pgvector_sql(model), ranked)]
    assert [i for i in listed if i not in histories[0]][:5] == model.recommend([histories[0]], k=5).items[0].tolist()


def test_unknown_items_of_a_query_are_reported(fitted):
    found = od.export.vectors(fitted["Spectral"])
    with pytest.warns(od.UnknownItemsWarning, match="1 unknown items"):
        assert not found.query(["nobody has this"]).any()


def test_a_model_without_vectors_is_refused(fitted):
    with pytest.raises(od.OffdiagError, match="expected a low-rank model, .* received EASE"):
        od.export.vectors(fitted["EASE"])


@pytest.mark.parametrize(("package", "call"), [("faiss", od.export.faiss_index), ("qdrant_client", None)])
def test_a_missing_package_is_named(fitted, monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    call = call or (lambda model: od.export.fill_qdrant(model, None, "items"))
    with pytest.raises(od.OffdiagError, match=r"pip install 'offdiag\[export\]'"):
        call(fitted["LowRankDLAE"])
