"""Seconds and peak memory of a call."""

import json
import subprocess
import sys

import pytest

from offdiag.papers.steck2020 import measure

pytestmark = pytest.mark.slow


def test_the_peak_of_a_call_is_what_it_touched():
    """In a separate process: libraries that release memory late would blur the measurement."""
    code = (
        "import json, numpy as np; from offdiag.papers.steck2020.measure import measured;"
        "print(json.dumps(measured(lambda: float(np.ones(30_000_000).sum()))))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, seconds, peak = json.loads(ran.stdout)
    assert found == 30_000_000
    assert seconds > 0
    if peak is None:
        pytest.skip("this system does not report the peak of a process")
    assert 200e6 < peak < 400e6


def test_without_the_system_s_report_there_is_no_peak(monkeypatch):
    monkeypatch.setattr(measure, "_start", lambda: None)
    assert measure.measured(lambda: 5)[0::2] == (5, None)
