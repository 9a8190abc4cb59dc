"""offdiag compress: what it reports and writes, and mistakes."""

import json

import pytest

import offdiag as od
from offdiag.cli.compress import bytes_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("compress")
    inter = od.synthetic.interactions(400, 80, 8000, seed=0)
    X = inter.matrix.tocoo()
    lines = [f"{u},{i}" for u, i in zip(X.row, X.col, strict=True)]
    (where / "data.csv").write_text("user,item\n" + "\n".join(lines) + "\n")
    od.EDLAE().fit(od.read(where / "data.csv")).save(where / "model.od")
    od.Popularity().fit(od.read(where / "data.csv")).save(where / "popularity.od")
    return where


def test_sizes_and_losses_are_reported(run, folder):
    code, out, err = run("compress", "model.od", "small.od", "--data", "data.csv", "--metric", "ndcg@20", "--json")
    printed = json.loads(out)
    assert code == 0, err
    assert "did not learn from these users" in err
    small = od.load(folder / "small.od")
    assert printed["bytes"] == small.weights_.nbytes <= printed["bytes_before"] / 10
    assert printed["file_bytes"] == (folder / "small.od").stat().st_size < printed["file_bytes_before"]
    (test,) = printed["measured"]["comparisons"]
    before, after = (model["mean"]["ndcg@20"] for model in printed["measured"]["models"])
    assert test["difference"]["ndcg@20"] == pytest.approx(after - before)
    assert test["sem"]["ndcg@20"] > 0
    code, out, _ = run("compress", "model.od", "small.od", "--data", "data.csv", "--storage", "float16", "--keep", "9")
    assert code == 0
    for words in ("weights before", "packed", "float16", "paired over users", "standard error"):
        assert words in out, words


def test_a_model_may_be_replaced_by_its_compressed_form(run, folder):
    (folder / "own.od").write_bytes((folder / "model.od").read_bytes())
    code, out, _ = run("compress", "own.od", "own.od", "--keep", "5", "--data", "data.csv")
    assert code == 0
    assert "own.od before" in out
    assert "own.od after" in out
    assert od.load(folder / "own.od").compressed_["keep"] == 5
    assert sorted(path.name for path in folder.iterdir() if "tmp" in path.name) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.od", "new.od", "--keep", "0"], "keep must be"),
        (["model.od", "new.od", "--storage", "int4"], "storage must be"),
        (["model.od", "new.od", "--max-bytes", "200"], "room for one weight per item"),
        (["model.od", "new.od", "--max-bytes", "20 parsecs"], "--max-bytes takes a size such as 20MB"),
        (["model.od", "new.od", "--metric", "ndcg@5"], "add --data"),
        (["model.od", "new.od", "--data", "nothing.csv"], "nothing.csv"),
        (["model.od", "new.od", "--data", "data.csv", "--metric", "bliss@5"], "unknown metric"),
        (["data.csv", "new.od"], "not an offdiag model"),
        (["nothing.od", "new.od"], "nothing.od"),
        (["popularity.od", "new.od"], "expected a linear model"),
        (["model.od", "."], "file name"),
        (["model.od", "no/folder/new.od"], "does not exist"),
        (["model.od", "data.csv", "--data", "data.csv"], "'data.csv' itself"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_file(fails, folder, words, message):
    assert message in fails("compress", *words)
    assert not (folder / "new.od").exists()


@pytest.mark.parametrize(
    ("text", "n"),
    [("5000", 5000), ("20MB", 20_000_000), ("1.5 gb", 1_500_000_000), ("64KiB", 65_536), (".5k", 500), ("7B", 7)],
)
def test_sizes_are_read_as_people_write_them(text, n):
    assert bytes_of(text) == n


@pytest.mark.parametrize("text", ["", "0", "-5", "nan", "1e6", "MB", "5 ib", "٣MB", "9" * 30])
def test_text_that_is_not_a_size_is_refused(text):
    with pytest.raises(od.OffdiagError, match="takes a size"):
        bytes_of(text)
