"""`offdiag recommend`: the lists of the library, from histories that are typed or read."""

import csv
import json
import re

import polars as pl
import pytest

import offdiag as od


@pytest.mark.parametrize("file", ["model.od", "low.od"])
def test_recommend_gives_the_lists_of_the_library(json_of, file):
    model = od.load(file)
    a, b = model.item_ids_[[3, 7]].tolist()
    found = json_of("recommend", file, "--history", f"{a},{b}", "--history", a, "-k", 4)
    for listed, expected in zip(found, model.recommend([[a, b], [a]], k=4), strict=True):
        assert [(x["item"], pytest.approx(x["score"])) for x in listed["items"]] == expected


def test_recommend_reads_histories_from_a_file(json_of):
    found, inter = json_of("recommend", "model.od", "--histories", "new.csv", "-k", 3), od.read("new.csv")
    assert [x["user"] for x in found] == inter.user_ids.tolist()
    expected = od.load("model.od").recommend(inter, k=3)
    assert [[i["item"] for i in x["items"]] for x in found] == expected.items.tolist()


def test_unknown_ids_are_named_and_listed(run, json_of):
    words = ["recommend", "model.od", "--history", "Nope,Neither"]
    assert "'Nope', 'Neither'" in run(*words)[2]
    (found,) = json_of(*words, notes=True)
    assert found["unknown"] == ["Nope", "Neither"]
    assert len(found["items"]) == 10  # as for an empty history: the popular items


def test_allow_and_block_lists_are_obeyed(json_of, folder):
    ids = od.load("model.od").item_ids_.tolist()
    (folder / "allow.txt").write_text("\n".join(ids[:6]) + "\n")
    (folder / "block.txt").write_text(ids[0] + "\n")
    options = ["--history", "", "-k", 50, "--allow", "allow.txt", "--block", "block.txt"]
    (found,) = json_of("recommend", "model.od", *options)
    assert sorted(i["item"] for i in found["items"]) == sorted(ids[1:6])


def test_ids_newer_than_the_model_are_ignored_and_reported(run, json_of, fails, folder):
    known = od.load("numbers.od").item_ids_.tolist()
    (folder / "stock.txt").write_text(f"{known[0]}\n{known[1]}\n9999\nnew\n")
    (folder / "gone.txt").write_text(f"{known[1]}\n8888\n")
    lists = ["--allow", "stock.txt", "--block", "gone.txt"]
    options = ["recommend", "numbers.od", "--history", f"{known[2]},7777", "--history", f"{known[3]}", *lists]
    found = json_of(*options, notes=True)
    assert [user["unknown"] for user in found] == [[7777, 9999, "new", 8888], [9999, "new", 8888]]
    assert [[item["item"] for item in user["items"]] for user in found] == [[known[0]]] * 2
    _, out, err = run(*options)
    assert out.count(str(known[0])) == 2
    assert "left out: '7777'" in err
    assert "(--allow, --block): '9999', 'new', '8888'" in err
    strict = ["recommend", "numbers.od", "--strict", "--history"]
    assert re.search("allow holds .*9999, 'new'", fails(*strict, f"{known[2]}", *lists))
    assert re.search("histories hold .*7777", fails(*strict, f"{known[2]},7777"))


def test_a_list_may_be_shorter_than_k(text_of, json_of, folder):
    (folder / "zero.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(9) for i in range(u % 3 + 1)))
    text_of("fit", "zero.csv", "--out", "zero.od", "--model", "ease", "--l2", "1")
    for history, expected in (("0,1", [2]), ("0,1,2", [])):
        words = ["recommend", "zero.od", "--history", history, "-k", "9"]
        assert [item["item"] for item in json_of(*words)[0]["items"]] == expected
        shown = text_of(*words, notes=True).splitlines()[1:]
        assert [line.split(",")[2] for line in shown] == [str(i) for i in expected]
    (found,) = json_of("similar", "zero.od", "0", "-k", "9")
    assert sorted(item["item"] for item in found["similar"]) == [1, 2]


def test_a_k_above_the_catalogue_gives_all_that_is_left(json_of):
    words = ["recommend", "model.od", "--history", od.load("model.od").item_ids_[0], "-k", 10_000]
    assert len(json_of(*words)[0]["items"]) == 59
    assert len(json_of(*words, "--include-seen")[0]["items"]) == 60


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--history"),
        (["--history", "a", "--histories", "new.csv"], "one of the two"),
        (["--history", "a", "-k", "0"], "at least 1"),
        (["--history", "a", "-k", "many"], "'-k'"),
        (["--history", "", "--block", "new.csv", "--strict"], "block"),
        (["--history", "a", "--allow", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_a_wrong_call_is_one_line(fails, args, words):
    assert words in fails("recommend", "model.od", *args)


def test_a_model_that_is_missing_or_damaged_is_one_line(fails, folder, tmp_path):
    assert "nowhere.od" in fails("recommend", "nowhere.od", "--history", "a")
    whole = (folder / "model.od").read_bytes()
    (tmp_path / "half.od").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.od").write_text("not a model at all")
    fails("recommend", tmp_path / "text.od", "--history", "a")
    for name, *rest in (["recommend", "--history", "a"], ["similar", "a"], ["info"]):
        fails(name, tmp_path / "half.od", *rest)
    fails("evaluate", "new.csv", tmp_path / "half.od")


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def test_a_pipe_gets_csv_or_json_lines_whatever_the_length(text_of, folder):
    expected = od.load("model.od").recommend(od.read("new.csv"), k=50).to_dicts()
    for k in (1, 50):  # 50: more rows than a table shows
        words = ["recommend", "model.od", "--histories", "new.csv", "-k", k]
        part = [row for row in expected if row["rank"] <= k]
        assert [row["item"] for row in rows_of(text_of(*words, notes=True))] == [row["item"] for row in part]
        lines = text_of(*words, "--to", "jsonl", notes=True).splitlines()
        assert [json.loads(line)["item"] for line in lines] == [row["item"] for row in part]
    one = rows_of(text_of("recommend", "model.od", "--history", od.load("model.od").item_ids_[0]))
    assert [row["user"] for row in one] == ["1"] * 10


def test_out_writes_the_lists_of_the_library(run, folder, tmp_path):
    inter, model = od.read("new.csv"), od.load("model.od")
    (tmp_path / "titles.csv").write_text(f'item,title\n"{model.item_ids_[0]}",First\n')
    options = ["--reasons", "--titles", tmp_path / "titles.csv", "-k", 5]
    code, out, err = run("recommend", "model.od", "--histories", "new.csv", *options, "--out", tmp_path / "top.parquet")
    assert (code, out) == (0, "")
    assert "wrote 60 lists, 300 rows" in err
    expected = model.recommend(inter, k=5, reasons=True).with_titles({model.item_ids_[0]: "First"}).to_polars()
    assert pl.read_parquet(tmp_path / "top.parquet").equals(expected)
    words = ["recommend", "model.od", "--histories", "new.csv", "-k", 5, "--out", tmp_path / "top.csv"]
    assert run(*words, "--rows-per-file", 100)[0] == 0
    assert sorted(path.name for path in (tmp_path / "top.csv").iterdir()) == [f"part-0000{n}.csv" for n in range(3)]


def test_only_the_users_of_a_file_get_lists(text_of, fails, folder, tmp_path):
    users = od.read("new.csv").user_ids.tolist()
    (tmp_path / "users.txt").write_text(f"{users[4]}\n{users[2]}\n")
    words = ["recommend", "model.od", "--histories", "new.csv", "-k", 1, "--only-users", tmp_path / "users.txt"]
    assert [row["user"] for row in rows_of(text_of(*words))] == [str(users[4]), str(users[2])]
    (tmp_path / "users.txt").write_text("nobody\n")
    assert "'nobody'" in fails(*words)


def test_pairs_of_a_table_are_blocked(text_of, folder, tmp_path):
    words = ["recommend", "model.od", "--histories", "new.csv", "-k", 2]
    before = rows_of(text_of(*words))
    (tmp_path / "pairs.csv").write_text(f'user,item\n{before[0]["user"]},"{before[0]["item"]}"\n')
    after = rows_of(text_of(*words, "--block-pairs", tmp_path / "pairs.csv"))
    assert after[0]["item"] == before[1]["item"]
    assert after[2:] == before[2:]
    (tmp_path / "pairs.csv").write_text(f'user,item\n999999,"{before[0]["item"]}"\n')
    assert text_of(*words, "--block-pairs", tmp_path / "pairs.csv", notes=True)


def test_varied_lists_come_with_their_measured_cost(run, folder, tmp_path):
    model = od.load("model.od")
    kinds = {item: f"kind {n % 3}" for n, item in enumerate(model.item_ids_.tolist())}
    table = [("item", "genre"), *kinds.items()]
    with (tmp_path / "kinds.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)
    words = ["recommend", "model.od", "--histories", "new.csv", "-k", 6, "--diversity", 0.3]
    code, out, err = run(*words, "--at-most", 2, "--per", "genre", "--categories", tmp_path / "kinds.csv")
    assert code == 0
    assert re.search(r"reranking changes ndcg@6 by [+-]0\.\d+ ± 0\.\d+ from 0\.\d+ \(60 users", err)
    each = {}
    for row in rows_of(out):
        each.setdefault(row["user"], []).append(kinds[row["item"]])
    assert all(sorted(listed) == sorted(["kind 0", "kind 1", "kind 2"] * 2) for listed in each.values())
    assert "--histories" in run("recommend", "model.od", "--history", "", "--diversity", 0.5)[2]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--to", "xml"], "csv or jsonl"),
        (["--out", "top.xlsx"], "ending in .parquet"),
        (["--out", "top.csv", "--to", "csv"], "exclude each other"),
        (["--rows-per-file", "5"], "add --out"),
        (["--only-users", "new.csv"], "add --histories"),
        (["--block-pairs", "new.csv"], "add --histories"),
        (["--categories", "new.csv"], "add --at-most"),
        (["--at-most", "2"], "categories"),
        (["--diversity", "2"], "diversity must be"),
        (["--out", "nowhere/top.csv"], "nowhere"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(fails, args, words):
    assert words in fails("recommend", "model.od", "--history", "", *args)


def test_recent_choices_count_for_more_if_asked(json_of, run, fails, folder):
    model = od.load("model.od")
    a, b, c = model.item_ids_[[3, 7, 9]].tolist()
    (found,) = json_of("recommend", "model.od", "--history", f"{a},{b},{c}", "--history-decay", "0.5", "-k", 4)
    (expected,) = model.recommend([[a, b, c]], k=4, history_decay=0.5)
    assert [(x["item"], pytest.approx(x["score"])) for x in found["items"]] == expected
    pl.DataFrame({"user": [1, 1, 1, 2], "item": [c, a, b, a], "day": [9, 1, 3, 5]}).write_csv(folder / "days.csv")
    words = ["recommend", "model.od", "--histories", "days.csv", "-k", 4]
    by_time = json_of(*words, "--time", "day", "--history-half-life", "2")
    wanted = model.recommend([[(a, 1), (b, 3), (c, 9)], [(a, 5)]], k=4, history_half_life=2)
    for listed, expected in zip(by_time, wanted, strict=True):
        assert [(x["item"], pytest.approx(x["score"])) for x in listed["items"]] == expected
    by_row = json_of(*words, "--history-decay", "0.5")  # no times: the order of the table
    assert [x["item"] for x in by_row[0]["items"]] == model.recommend([[c, a, b]], k=4, history_decay=0.5).items[
        0
    ].tolist()
    assert "needs the time of each choice" in fails(*words, "--history-half-life", "2")
    assert "--histories FILE and --time" in fails("recommend", "model.od", "--history", a, "--history-half-life", "2")
    code, _, err = run(*words, "--time", "day", "--history-decay", "0.5", "--diversity", "0.3")
    assert code == 0
    assert "not measured where the order" in err
