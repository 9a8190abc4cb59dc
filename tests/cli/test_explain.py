"""`offdiag explain`: the parts of a score with ranks, and pairs."""

import json
import re

import pytest

import offdiag as od


@pytest.fixture(scope="module")
def saved(folder):
    """A model that knows its Gram, which pairs need, also saved without it."""
    inter = od.synthetic.interactions(300, 40, 4_000, names=True, seed=5)
    model = od.EDLAE(l2=2.0).fit(inter)
    model.save(folder / "pairs.od", updatable=True)
    model.save(folder / "bare.od")
    return model


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


def test_the_command_prints_ranks_next_to_the_bars(saved, run):
    ids = saved.item_ids_.tolist()
    best = saved.recommend([ids[:3]], k=1).items[0, 0].item()
    answer = saved.explain([ids[:3]], best)
    code, out, _ = run("explain", "pairs.od", "--history", ",".join(ids[:3]), "--item", best)
    assert code == 0
    assert f"{best} has rank 1 among" in out
    for item, place in zip(answer.items.tolist(), answer.rank_without.tolist(), strict=True):
        (line,) = [line for line in out.splitlines() if line.startswith(item)]
        assert line.rstrip().endswith(f"rank 1 → {place}" if place != 1 else "rank 1, as it is")
    body = json.loads(run("explain", "pairs.od", "--history", ",".join(ids[:3]), "--item", best, "--json")[1])
    assert body["rank"] == 1
    assert [c["rank_without"] for c in body["contributions"]] == answer.rank_without.tolist()
    code, out, _ = run("explain", "pairs.od", "--history", ",".join(ids[:3]), "--item", ids[0])
    assert "is in the history" in out


def test_the_command_explains_a_pair(saved, run):
    ids = saved.item_ids_.tolist()
    answer = saved.explain_pair(ids[2], ids[5])
    code, out, _ = run("explain", "pairs.od", "--pair", ids[2], ids[5])
    assert code == 0
    assert f"{answer.weight:+.4f}" in out.splitlines()[0]
    assert f"{answer.alone:+.4f}" in out.splitlines()[0]
    shares = [line for line in out.splitlines() if line.startswith(("its own", "through", "not explained"))]
    assert len(shares) == 13  # its own weight, ten items, the others together, the rest
    parts = [float(re.search(r"[+-]\d+\.\d(?!\d)", line)[0]) for line in shares]
    assert sum(parts) == pytest.approx(100, abs=0.05 * len(parts))
    body = json.loads(run("explain", "pairs.od", "--pair", ids[2], ids[5], "--json")[1])
    assert body["together"] == answer.together
    assert len(body["through"]) == len(answer.items)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--item", "x"], "missing: --history"),
        ([], "missing: --history and --item"),
        (["--pair", "x", "y", "--item", "x"], "--item as well"),
        (["--pair", "nobody", "nothing"], "'nobody'"),
    ],
)
def test_wrong_calls_of_explain_are_one_line(saved, fails, options, words):
    assert words in fails("explain", "pairs.od", *options)


def test_a_pair_needs_a_file_with_its_gram(saved, run):
    ids = saved.item_ids_.tolist()
    code, _, err = run("explain", "bare.od", "--pair", ids[2], ids[5])
    assert code == 2
    assert "updatable" in err


def test_the_weight_of_age_stands_next_to_each_part(saved, text_of, json_of):
    ids = saved.item_ids_.tolist()
    words = ["explain", "bare.od", "--history", ",".join(ids[:3]), "--item", ids[5]]
    out = text_of(*words, "--history-decay", "0.5")
    for item, factor in zip(ids[:3], ("0.25", "0.5", "1"), strict=True):
        (line,) = [line for line in out.splitlines() if line.startswith(item)]
        assert re.search(rf"× {factor}\s", line)
    dates = ["--history-half-life", str(7 * 86_400), "--times", "2026-01-01,2026-01-08, 2026-01-11"]
    out = text_of(*words, *dates)
    (line,) = [line for line in out.splitlines() if line.startswith(ids[1])]
    assert re.search(r"3 days +× 0.743", line)
    found = json_of(*words, *dates)
    assert sum(part["contribution"] for part in found["contributions"]) == found["score"]
    ages = {part["item"]: (part["age"], part["age_weight"]) for part in found["contributions"]}
    assert ages[ids[0]] == (10 * 86_400, pytest.approx(0.5 ** (10 / 7)))
    assert "10 " in text_of(*words, "--history-half-life", "7", "--times", "1,8,11")
    assert "age_weight" not in json_of(*words)["contributions"][0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--history-half-life", "7"], "add --times"),
        (["--history-half-life", "7", "--times", "1"], "one for each item of the history (2), received 1"),
        (["--history-half-life", "7", "--times", "1,soon"], "all numbers or all dates"),
        (["--history-half-life", "7", "--times", "2999-01-01,2999-01-02"], "in the future"),
        (["--history-decay", "2"], "in (0, 1], received 2.0"),
        (["--history-decay", "0.5", "--history-half-life", "7", "--times", "1,2"], "received both"),
    ],
)
def test_ages_that_cannot_be_used_are_one_line(saved, fails, words, text):
    ids = saved.item_ids_.tolist()
    assert text in fails("explain", "bare.od", "--history", ",".join(ids[:2]), "--item", ids[5], *words)
