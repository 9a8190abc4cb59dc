"""Lists and accuracy of workers on the command line."""

import polars as pl
import pytest

import offdiag as od

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


@pytest.fixture
def folder(tmp_path):
    """Partitions whose columns have other names, and a model that remembers them."""
    log = od.synthetic.interactions(200, 30, 2_000, names=False, seed=1)
    rows = log.to_polars().select(customer="user", product="item")
    (tmp_path / "parts").mkdir()
    for part in range(3):
        rows.filter(pl.col("customer") % 3 == part).write_parquet(tmp_path / "parts" / f"{part}.parquet")
    rows.write_csv(tmp_path / "whole.csv")
    od.EASE(l2=5.0).fit(rows, user="customer", item="product").save(tmp_path / "ease.od")
    return tmp_path


def test_lists_of_partitions_are_those_of_the_whole_table(folder, text_of, fails):
    text_of("recommend", "ease.od", "--histories", "whole.csv", "-k", "3", "--out", "here.parquet", notes=True)
    words = ("recommend", "ease.od", "-k", "3", "--cluster", "local:1")
    for data, out in (("parts", "lists/part-*.parquet"), ("whole.csv", "more/*.parquet")):
        text_of(*words, "--histories", data, "--out", out, notes=True)
        there = pl.read_parquet(folder / out).sort("user", "rank")
        assert there.equals(pl.read_parquet(folder / "here.parquet").sort("user", "rank"))
    assert '--out "lists/part-*.parquet"' in fails(*words, "--histories", "parts")
    assert "one * in the name" in fails(*words, "--histories", "parts", "--out", "all.parquet")
    assert "--cluster and --diversity" in fails(*words, "--histories", "parts", "--out", "*.csv", "--diversity", "0.5")


def test_accuracy_is_that_of_one_process(folder, text_of, fails):
    words = ("evaluate", "whole.csv", "ease.od", "--metric", "ndcg@10", "--to", "csv")
    there, here = text_of(*words, "--cluster", "local:1", notes=True), text_of(*words, notes=True)
    assert there == here
    assert "--cluster and --bands" in fails(*words, "--cluster", "local:1", "--bands")
