"""The journal: rows come back as they were, a truncated line is lost alone, and a run of something else is refused."""

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot import journal
from offdiag.autopilot.journal import Journal
from tests.autopilot.races import race

HEADER = {"data": "d", "metric": "ndcg@20", "seed": 0}


def test_a_row_comes_back_bit_for_bit(tmp_path):
    row = race().measure("full rank", od.EDLAE())
    Journal(tmp_path / "race", HEADER).add(row, 12.5)
    again = Journal(tmp_path / "race", HEADER)
    assert again.spent == 12.5
    (back,) = again.rows.values()
    assert back.settings == row.settings
    assert np.array_equal(back.result.per_user["ndcg@20"], row.result.per_user["ndcg@20"])
    assert back.result.compare(row.result).difference == {"ndcg@20": 0.0}
    assert {name for name in vars(row) if name != "result" and vars(row)[name] != vars(back)[name]} == set()


def test_a_row_without_a_measurement_and_time_alone_come_back(tmp_path):
    kept, found = Journal(tmp_path / "race", HEADER), race()
    found.journal = kept
    found.leave_out(type("Slow", (), {"family": "slow", "model": od.EASE()}), "its fit was stopped", seconds=3.0)
    kept.beat(9.0)
    again = Journal(tmp_path / "race", HEADER)
    assert again.rows["slow"].fit_seconds == 3.0
    assert again.spent == 9.0


def test_a_line_that_a_kill_truncated_is_lost_alone(tmp_path):
    path, row = tmp_path / "race", race().measure("full rank", od.EDLAE())
    kept = Journal(path, HEADER)
    kept.add(row, 1.0)
    size = path.stat().st_size
    kept.add(row, 2.0)
    with path.open("r+b") as file:
        file.truncate(size + 100)
    again = Journal(path, HEADER)
    assert again.spent == 1.0
    assert list(again.rows) == ["full rank"]


@pytest.mark.parametrize("text", ["hello\n", '{"spent": 1, "row": {}}\n', '{"row": {}}\n'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    Journal(tmp_path / "race", HEADER)
    with (tmp_path / "race").open("a") as file:
        file.write(text)
    with pytest.raises(od.OffdiagError, match="expected a race written by offdiag"):
        Journal(tmp_path / "race", HEADER)


def test_other_data_or_another_metric_is_refused(tmp_path):
    Journal(tmp_path / "race", HEADER)
    with pytest.raises(od.OffdiagError, match="is of something else: metric"):
        Journal(tmp_path / "race", HEADER | {"metric": "recall@5"})
    X = od.synthetic.interactions(100, 20, 900, times=True, seed=0)
    one, other = od.split.last_out(X), od.split.weak(X, 0.2, 0.1, seed=0)
    assert journal.fingerprint(one) == journal.fingerprint(od.split.last_out(X))
    assert journal.fingerprint(one) != journal.fingerprint(other)


def test_studies_live_next_to_the_journal_and_go_with_it(tmp_path):
    path = tmp_path / "best.od.race"
    kept = Journal(path, HEADER)
    study = tmp_path / "best.od.race.full-rank-features.study"
    assert kept.study("full rank + features") == str(study)
    study.write_text("")
    (tmp_path / "best.od.race2").write_text("")
    journal.remove(path)
    assert [file.name for file in tmp_path.iterdir()] == ["best.od.race2"]


def test_features_and_groups_belong_to_a_journal():
    features = od.read_features({"item": ["a", "b"], "kind": ["x", "y"]}, categories=["kind"])
    other = od.read_features({"item": ["a", "c"], "kind": ["x", "y"]}, categories=["kind"])
    found = [journal.digest_of(also) for also in ({}, {"item_features": features}, {"item_features": other})]
    assert len(set(found)) == 3
