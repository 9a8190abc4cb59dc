"""Blocks of columns: finished ones survive the program, and their traffic is known beforehand."""

from functools import partial

import pytest

import offdiag as od
from offdiag.files.block_checkpoints import BlockCheckpoints
from tests.fixtures.partitions import same_sparse, sparse_model

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


class Stopped(Exception):  # noqa: N818 - the program is stopped, nothing is wrong
    pass


def test_a_stopped_fit_resumes_with_the_columns_it_has(client, tmp_path, monkeypatch):
    inter = od.synthetic.interactions(900, 300, 12_000, seed=5)
    folder = tmp_path / "checkpoint"
    fit = partial(od.cluster.fit_sparse, data=inter, client=client, checkpoint=folder)

    def stop(stage, fraction):
        if stage == "solving columns" and fraction >= 0.4:
            raise Stopped

    with pytest.raises(Stopped):
        fit(sparse_model(block_bytes=60_000), progress=stop)
    finished = {path.name for path in folder.glob("all-block-*")}
    assert finished
    stored, store = [], BlockCheckpoints.store
    monkeypatch.setattr(BlockCheckpoints, "store", lambda self, *of: (stored.append(of[0]), store(self, *of)))
    there = fit(sparse_model(block_bytes=60_000))
    same_sparse(there, sparse_model(block_bytes=60_000).fit(inter))
    assert len(stored) == len(list(folder.glob("all-block-*"))) - len(finished) > 0
    with pytest.raises(od.OffdiagError, match="of another fit: l2"):
        fit(sparse_model(l2=3.0))
    other = od.Interactions(inter.matrix[::-1], inter.user_ids, inter.item_ids)  # the same users in another order
    od.cluster.fit_sparse(sparse_model(block_bytes=60_000), other, client=client, checkpoint=folder)
    fewer = od.synthetic.interactions(900, 300, 12_000, seed=6)
    with pytest.raises(od.OffdiagError, match="contents"):
        od.cluster.fit_sparse(sparse_model(), fewer, client=client, checkpoint=folder)


def test_traffic_and_memory_are_estimated_before_they_are_used(client, mistake):
    inter = od.synthetic.interactions(3_000, 800, 90_000, seed=5)
    reports = []
    od.cluster.fit_sparse(sparse_model(block_bytes=200_000), inter, client=client, reports=reports)
    moved = {report.stage: (report.moved_bytes, report.expected_bytes) for report in reports if report.expected_bytes}
    assert set(moved) == {"counting pairs", "copying popular items", "solving columns"}
    for stage, (measured, expected) in moved.items():
        assert expected / 1.5 < measured < 1.5 * expected + 300_000, stage  # messages of Dask itself
    assert "expected)" in str(reports[-1])
    words = mistake(od.cluster.fit_sparse, sparse_model(block_bytes=1 << 40), inter, client=client)
    assert "its share of 90,000 interactions" in words
    assert "smaller block_bytes" in words
