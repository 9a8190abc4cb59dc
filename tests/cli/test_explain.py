"""`offdiag explain`: the parts of a score; tests/test_reasons.py has those of pairs and ranks."""

import pytest

import offdiag as od


@pytest.mark.parametrize("file", ["model.od", "low.od"])
def test_the_parts_sum_to_the_score(run, text_of, json_of, file):
    model = od.load(file)
    history = model.item_ids_[:4].tolist()
    item = model.recommend([history], k=1).items[0, 0]
    words = ["explain", file, "--item", item, "--history", ",".join(history)]
    found = json_of(*words)
    assert len(found["contributions"]) == 4
    assert sum(c["contribution"] for c in found["contributions"]) == found["score"]
    out = text_of(*words)
    assert "█" in out
    assert f"score of {item}" in out
    words[-1] += ",Nope"
    assert "Nope" in run(*words)[2]
    assert json_of(*words, notes=True)["score"] == found["score"]


def test_popularity_has_no_reasons(fails):
    item = od.load("popular.od").item_ids_[0]
    assert "same list" in fails("explain", "popular.od", "--history", item, "--item", item)


def test_a_missing_option_is_one_line(fails):
    assert "--item" in fails("explain", "model.od", "--history", "a")
