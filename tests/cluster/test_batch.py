"""Lists and accuracy from workers are those of one process."""

import numpy as np
import polars as pl
import pytest

import offdiag as od

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


@pytest.fixture(scope="module")
def log():
    return od.synthetic.interactions(300, 40, 3_000, times=True, seed=2)


@pytest.fixture(scope="module")
def model(log):
    return od.EASE(l2=5.0).fit(log)


def table(pattern):
    return pl.concat([pl.read_parquet(path) for path in sorted(pattern.parent.glob(pattern.name))]).sort("user", "rank")


def test_lists_of_workers_are_those_of_one_process(client, log, model, tmp_path):
    model.recommend_to(tmp_path / "here.parquet", log, k=4, reasons=True)
    model.save(tmp_path / "model.od")
    out = tmp_path / "lists" / "part-*.parquet"
    reports = []
    for given in (model, tmp_path / "model.od"):
        done = od.cluster.recommend(given, log, 4, out=out, reasons=True, client=client, reports=reports)
        assert (done.n_lists, done.n_rows, done.n_short) == (300, 1200, 0)
        assert table(out).equals(table(tmp_path / "here.parquet"))
        assert sorted(done.files) == sorted(map(str, out.parent.iterdir()))  # and no copy of the model
        for file in done.files:
            (tmp_path / file).unlink()
    assert reports[-1].stage == "recommending"


def test_workers_weigh_histories_by_age(client, log, model, tmp_path):
    model.recommend_to(tmp_path / "here.parquet", log, k=3, history_decay=0.5)
    parts = od.cluster.read(log, keep="events", client=client)
    od.cluster.recommend(model, parts, 3, out=tmp_path / "part-*.parquet", history_decay=0.5, client=client)
    assert table(tmp_path / "part-*.parquet").equals(table(tmp_path / "here.parquet"))


def test_a_worker_killed_between_lists_changes_nothing(client, killing, log, model, tmp_path):
    folders = [tmp_path / "calm", tmp_path / "disturbed"]

    def recommend(left=[*folders]):  # noqa: B006 - one folder for each run
        od.cluster.recommend(model, log, 4, out=left.pop(0) / "part-*.parquet", client=client)

    killing("recommending", recommend)
    calm, disturbed = (table(folder / "part-*.parquet") for folder in folders)
    assert disturbed.equals(calm)


def test_mistakes_of_a_batch_are_one_line(client, log, model, mistake, tmp_path):
    def words(out, given=model, **options):
        return mistake(od.cluster.recommend, given, log, 3, out=tmp_path / out, client=client, **options)

    assert "one * in the name" in words("lists.parquet")
    assert "one * in the name" in words("a-*-*.parquet")
    assert "file ending in" in words("part-*.txt")
    assert "no-model.od" in words("part-*.csv", tmp_path / "no-model.od")
    assert "'no such item'" in words("part-*.csv", allow=["no such item"], strict=True)
    (tmp_path / "part-1.csv").write_text("of another run")
    assert "1 files that are there" in words("part-*.csv")


def test_accuracy_measured_by_workers_is_the_same(client, log, mistake):
    split = od.split.strong(log, held_out=0.3, seed=0)
    fitted = od.EDLAE(dropout=0.5, l2=5.0).fit(split.train)
    here = od.evaluate(fitted, split.test, ["ndcg@10", "novelty@10"])
    there = od.cluster.evaluate(fitted, split.test, ["ndcg@10", "novelty@10"], client=client)
    for name in ("mean", "sem", "n_users", "n_without_targets"):
        assert getattr(there, name) == getattr(here, name)
    np.testing.assert_array_equal(there.per_user["ndcg@10"], here.per_user["ndcg@10"])
    np.testing.assert_array_equal(there.user_ids, here.user_ids)
    last = od.split.last_out(log).test
    decay = {"history_decay": 0.7}
    assert (
        od.cluster.evaluate(fitted, last, "hit@5", client=client, **decay).mean
        == od.evaluate(fitted, last, "hit@5", **decay).mean
    )
    assert "use od.evaluate" in mistake(od.cluster.evaluate, fitted, split.test, "coverage@10", client=client)
    empty = split.test.only([])
    assert "nothing to measure" in mistake(od.cluster.evaluate, fitted, empty, client=client)
