"""`offdiag similar`: by score or by embeddings, and suggestions for unknown ids."""

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
