"""The budget: what is left, what is reserved, and progress that stops what takes too long."""

import time

import pytest

from offdiag.autopilot.clock import Clock, OutOfTime


def test_a_reserve_is_taken_off_what_is_left_up_to_a_quarter():
    clock = Clock(100.0, None)
    clock.reserve(10.0)
    assert 89 < clock.left() <= 90
    clock.reserve(1000.0)
    assert 74 < clock.left() <= 75


def test_a_stage_is_stopped_after_its_time():
    seen = []
    clock = Clock(100.0, lambda stage, fraction: seen.append(stage))
    clock.best = " · best 0.1"
    stage = clock.stage("fitting", most=0.02)
    stage("part", 0.5)
    assert seen == ["race · fitting · best 0.1"]
    time.sleep(0.03)
    with pytest.raises(OutOfTime):
        stage("part", 0.6)


def test_time_of_an_earlier_part_counts_and_is_noted(monkeypatch):
    monkeypatch.setattr("offdiag.autopilot.clock.BEAT", 0.01)
    beats = []
    clock = Clock(100.0, None, spent=40.0, beat=beats.append)
    assert 59 < clock.left() <= 60
    stage = clock.stage("fitting")
    time.sleep(0.02)
    stage("part", 0.5)
    stage("part", 0.6)
    assert len(beats) == 1
    assert beats[0] > 40.02
