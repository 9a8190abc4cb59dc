"""`offdiag similar`: by score or by embeddings, and suggestions for unknown ids."""

import polars as pl
import pytest

import offdiag as od


@pytest.mark.parametrize("space", ["score", "encoder", "decoder"])
def test_similar_gives_what_the_library_gives_in_each_space(text_of, json_of, space):
    model = od.load("low.od")
    a, b = model.item_ids_[[3, 7]].tolist()
    found = json_of("similar", "low.od", a, b, "-k", 4, "--space", space)
    for listed, expected in zip(found, model.similar([a, b], k=4, space=space), strict=True):
        assert [(x["item"], pytest.approx(x["score"])) for x in listed["similar"]] == expected
    same = text_of("similar", "low.od", a) == text_of("similar", "low.od", a, "--space", space)
    assert same == (space == "score")


def test_a_space_that_the_model_lacks_is_one_line(fails):
    item = od.load("low.od").item_ids_[0]
    assert "LowRankEDLAE" in fails("similar", "ease.od", item, "--space", "decoder")
    assert "'score', 'encoder', 'decoder'" in fails("similar", "low.od", item, "--space", "both")


def test_similar_suggests_ids_that_look_alike(fails):
    item = od.load("model.od").item_ids_[5]
    assert repr(str(item)) in fails("similar", "model.od", item.upper()[:-3])
    assert repr(str(item)) in fails("explain", "model.od", "--history", item, "--item", item.replace("e", "a"))
    assert "whole numbers such as 100" in fails("similar", "numbers.od", "7")
    assert "ITEM" in fails("similar", "model.od")


def test_lists_of_all_items_go_to_a_file_without_blocked_ones(run, folder, tmp_path):
    model = od.load("model.od")
    (tmp_path / "block.txt").write_text(f"{model.item_ids_[0]}\n")
    words = ["similar", "model.od", "--all", "-k", 3, "--block", tmp_path / "block.txt"]
    assert run(*words, "--out", tmp_path / "similar.parquet")[0] == 0
    expected = model.similar(model.item_ids_, k=3, block=model.item_ids_[:1]).to_polars()
    table = pl.read_parquet(tmp_path / "similar.parquet")
    assert table.equals(expected)
    assert table.columns == ["item", "rank", "similar", "score"]
    assert model.item_ids_[0] not in table["similar"]
    assert table["item"].n_unique() == 60


def test_only_allowed_items_are_listed_as_csv_in_a_pipe(text_of, fails, folder, tmp_path):
    model = od.load("model.od")
    (tmp_path / "allow.txt").write_text("\n".join(model.item_ids_[:4]))
    lines = text_of("similar", "model.od", model.item_ids_[0], "--allow", tmp_path / "allow.txt", notes=True)
    assert lines.splitlines()[0] == "item,rank,similar,score"
    assert len(lines.splitlines()) == 4
    assert "--all" in fails("similar", "model.od")
