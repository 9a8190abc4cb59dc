"""Features are read from any table; what is guessed, missing, constant or merged is reported."""

import json

import numpy as np
import pytest

import offdiag as od
from offdiag.data.read_features import read_features
from tests.fixtures.mistakes import refused

FILMS = {
    "id": [7, 8, 9, 10],
    "genre": ["horror|sf", "sf", None, "drama"],
    "plot": ["A ship meets a monster", "A clerk dreams", "Amélie's café", "The monster of the CAFE"],
    "year": [1979, 1985, 2001, None],
    "vector": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], None],
}
COLUMNS = {"item": "id", "categories": "genre", "text": ["plot"], "numbers": ["year"], "vectors": ["vector"]}


def dense(features, *items):
    return features.rows(items).toarray()


def test_every_kind_of_table_gives_the_same_features(tmp_path):
    pl, pd, pa = pytest.importorskip("polars"), pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pl.DataFrame(FILMS)
    text = frame.with_columns(pl.Series("vector", ["[1.0, 0.0]", "0 1", "(1;1)", ""]))
    text.write_csv(tmp_path / "f.csv")
    frame.write_parquet(tmp_path / "f.parquet")
    frame.write_ndjson(tmp_path / "f.jsonl")
    (tmp_path / "f.json").write_text(json.dumps(frame.to_dicts()))
    files = [str(tmp_path / f"f.{end}") for end in ("csv", "parquet", "jsonl", "json")]
    first = read_features(FILMS, **COLUMNS)
    for source in [frame, frame.lazy(), pd.DataFrame(FILMS), pa.table(FILMS), *files]:
        found = read_features(source, **COLUMNS)
        assert found.names == first.names, source
        assert (found.matrix != first.matrix).nnz == 0, source
        assert found.items.tolist() == [7, 8, 9, 10]


def test_rows_have_length_one_per_column_and_zeros_where_unknown():
    features = read_features(FILMS, **COLUMNS)
    ends = np.cumsum([block.coder.width for block in features.blocks])[:-1]
    lengths = np.stack([np.linalg.norm(part, axis=1) for part in np.split(dense(features, 7, 8, 9, 10), ends, axis=1)])
    known = np.array([[1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]])
    np.testing.assert_allclose(lengths, known / 2, atol=1e-12)  # four columns of equal weight
    assert "genre: 1 of 4 items has none" in features.notes


def test_rows_of_one_item_are_merged():
    table = {"item": [1, 1, 2], "tag": ["a", "b", "a"], "n": [1.0, 3.0, 4.0], "t": ["x y", "z", "y y"]}
    features = read_features(table, categories=["tag"], numbers=["n"], text=["t"])
    once = {"item": [1, 2], "tag": ["a|b", "a"], "n": [2.0, 4.0], "t": ["x y z", "y y"]}
    merged = read_features(once, categories=["tag"], numbers=["n"], text=["t"])
    assert (features.matrix != merged.matrix).nnz == 0
    assert "1 row repeats an item and was merged" in features.notes
    with refused("expected one vector for each item, received different ones for 1"):
        read_features({"item": [1, 1], "e": [[1.0, 2.0], [2.0, 1.0]]}, vectors=["e"])


def test_constant_columns_are_left_out_with_a_note():
    table = {
        "item": [1, 2],
        "c": ["x", "x"],
        "n": [3, 3],
        "t": ["same words"] * 2,
        "e": [[1.0], [1.0]],
        "b": ["u", "v"],
    }
    features = read_features(table, categories=["c", "b"], numbers=["n"], text=["t"], vectors=["e"])
    assert [block.name for block in features.blocks] == ["b"]
    assert sum("left out" in note for note in features.notes) == 4
    with refused("expected features that tell items apart"):
        read_features(table, categories=["c"])


def test_other_items_are_read_into_the_same_features():
    features = read_features(FILMS, **COLUMNS)
    again = read_features(FILMS, item="id", like=features)
    assert (again.matrix != features.matrix).nnz == 0
    new = {"id": [11], "genre": ["sf|musical"], "plot": ["monster ship"], "year": [3000], "vector": [[1.0, 0.0]]}
    added = read_features(new, item="id", like=features)
    assert added.names == features.names
    assert "genre: tags that are not known left out: 'musical'" in added.notes
    assert added.matrix[0] @ features.matrix[0] > added.matrix[0] @ features.matrix[1]
    with refused("expected vector='vector' among the columns"):
        read_features({"id": [11], "genre": ["sf"], "plot": ["x"], "year": [1]}, item="id", like=features)
    with refused("then no columns or weights"):
        read_features(FILMS, item="id", categories=["genre"], like=features)


def test_a_million_tags_fit_into_memory():
    n = 20_000
    tags = [[f"t{50 * i + j}" for j in range(50)] + ["shared"] * (i % 2) for i in range(n)]
    features = read_features({"item": range(n), "tag": tags}, categories=["tag"])
    assert features.matrix.shape == (n, 1_000_001)
    assert features.nbytes < 20e6
    assert features.rows([3, 5]).nnz == 102


def test_mistakes_are_explained():
    table = {"item": [1, 2], "brand": ["a", "b"]}
    with refused("did you mean 'brand'"):
        read_features(table, categories=["brnd"])
    with refused("received 'brand' twice"):
        read_features(table, categories=["brand"], text=["brand"])
    with refused("expected a column of item ids"):
        read_features({"brand": ["a"]}, categories=["brand"])
    with refused("expected weights of brand, received 'colour'"):
        read_features(table, categories=["brand"], weights={"colour": 1.0})
    with refused("text_rank must be a whole number"):
        read_features(table, text=["brand"], text_rank=0)
    with refused("expected names of columns"):
        read_features(table, categories={"brand": 1})
    with refused("received lists; use vectors"):
        read_features({"item": [1], "n": [[1.0]]}, numbers=["n"])
    with refused("expected columns of features"):
        read_features({"item": [1, 2], "url": ["https://a/1", "https://a/2"]})
    with refused("at least one item"):
        read_features({"item": [None], "brand": ["a"]}, categories=["brand"])


def test_an_item_id_column_of_another_type_is_the_same_item():
    features = read_features({"item": ["7", "8"], "brand": ["a", "b"]}, categories=["brand"])
    assert features.items.dtype.kind == "i"
    assert od.read_features({"item": ["7", "x"], "brand": ["a", "b"]}, categories="brand").rows([7]).nnz == 1
