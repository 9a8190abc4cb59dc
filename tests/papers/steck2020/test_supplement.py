"""The claims of the supplement: the committed verdicts are those that a run gives."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_a_run_comes_to_the_committed_verdicts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import steck2020_supplement

    committed = json.loads(steck2020_supplement.FILE.read_text())["claims"]
    found = steck2020_supplement.run()
    assert [(c["where"], c["says"], c["verdict"]) for c in committed] == [(c.where, c.says, c.verdict) for c in found]
    assert {c.verdict for c in found} == {"holds", "holds when corrected", "does not hold"}
    assert all(c.erratum or c.verdict == "holds" for c in found)
