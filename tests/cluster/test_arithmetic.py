"""docs/cluster-arithmetic.md is the script's output for the measurements, and the estimate follows its formulas."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("cluster_page", ROOT / "benchmarks" / "cluster_page.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def results(page):
    """A cluster that does exactly 1000 units a second on every core."""
    shape = {"users": 50, "items": 20, "entries": 400, "pairs": 3000, "neighbours": 8, "tile": 5, "gram": 900}
    shapes = {
        size: {
            kind: {name: value * scale for name, value in shape.items()}
            | {"pieces": {"1": 1800 * scale, "2": 2200 * scale}}
            for kind in ("dense", "sparse")
        }
        for size, scale in (("small", 1), ("large", 2))
    }
    made = {
        "machine": {"processor": "some processor"},
        "shapes": shapes,
        "runs": {},
        "speedup": {"columns": 1.75},
        "overlap": 0.5,
    }
    for size in shapes:
        for workers in (1, 2):
            took = {}
            for name, stage in page.STAGES.items():
                s = page.size_of(made, size, name, workers)
                seconds = stage.seconds(s, 1000.0)
                took[name] = {"seconds": seconds, "peak_bytes": stage.memory(s), "moved_bytes": stage.moved(s)}
            made["runs"].setdefault(size, {})[str(workers)] = took
    return made


def test_the_committed_page_is_made_from_the_committed_results(page):
    made = page.page(page.measured())
    assert (ROOT / "docs" / "cluster-arithmetic.md").read_text() == made, "run python benchmarks/cluster_page.py"


def test_constants_of_the_small_shape_predict_the_large_one(page, results):
    assert page.rates(results) == pytest.approx(dict.fromkeys(page.STAGES, 1000.0))
    for name, workers, predicted, measured, _, _, moved, moved_too in page.checked(results, page.rates(results)):
        assert predicted == measured, (name, workers)
        assert moved == moved_too
    text = page.page(results)
    assert text.count("\n| columns |") == 4  # constants, formulas, and one for each number of workers
    assert "columns 1.75×" in text
    assert "$ " not in text  # nothing that the documentation test would run


def test_a_model_too_large_for_the_cluster_is_reported(page, results):
    rate = page.rates(results)
    rows = page.scenarios(results, rate)
    assert [row[:2] for row in rows] == [
        ["10 M", "1 M"], ["10 M", "1 M"], ["10 M", "10 M"], ["100 M", "1 M"], ["100 M", "1 M"], ["100 M", "10 M"],
        ["1000 M", "1 M"], ["1000 M", "10 M"],
    ]  # fmt: skip
    huge = page.Size(1e9, 1e8, 5e10, 1e13, 200, 4096, 64, 16, gram=1e13)
    assert page.scenario("sparse", huge, rate, ("counting",))[-1].startswith("no, more than 205 GB")
    assert page.scenario("sparse", page.Size(1, 1, 1, 1, 1, 1, 1), rate, ("ordering",))[-1] == "yes"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h"), (3e7, "347 days")]
)
def test_durations_are_readable(page, seconds, text):
    assert page.duration(seconds) == text
