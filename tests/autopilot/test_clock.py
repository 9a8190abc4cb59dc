"""The budget: what is left, what is reserved, and progress that stops what takes too long."""

import pytest

from offdiag.autopilot.clock import Clock, OutOfTime


@pytest.fixture
def passes(monkeypatch):
    """Lets seconds pass; no other time does."""
    now = [1000.0]
    monkeypatch.setattr("offdiag.autopilot.clock.time.perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_a_reserve_is_taken_off_what_is_left_up_to_a_quarter(passes):
    clock = Clock(100.0, None)
    clock.reserve(10.0)
    assert clock.left() == 90
    clock.reserve(1000.0)
    passes(1.0)
    assert clock.left() == 74


def test_a_stage_is_stopped_after_its_time(passes):
    seen = []
    clock = Clock(100.0, lambda stage, fraction: seen.append(stage))
    clock.best = " · best 0.1"
    stage = clock.stage("fitting", most=2.0)
    stage("part", 0.5)
    assert seen == ["race · fitting · best 0.1"]
    passes(2.5)
    with pytest.raises(OutOfTime):
        stage("part", 0.6)


def test_time_of_an_earlier_part_counts_and_is_noted(passes):
    beats = []
    clock = Clock(100.0, None, spent=40.0, beat=beats.append)
    assert clock.left() == 60
    stage = clock.stage("fitting")
    passes(6.0)
    stage("part", 0.5)
    passes(1.0)
    stage("part", 0.6)
    assert beats == [46.0]
