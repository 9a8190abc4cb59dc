"""The verdicts on nets that are not linear: differences are paired over the seeds, two standard errors decide."""

import json
from pathlib import Path

import numpy as np
import pytest

from offdiag.papers.claims import Chapter
from offdiag.papers.pretorius2018 import nets, picture_chapters

DOCS = Path(__file__).resolve().parents[3] / "docs" / "papers" / "pretorius2018"
SIZES = nets.Sizes(samples=10, pool=1, hidden=2, batch=10, epochs=100, seeds=3)


def rising(pace, end, jitter=0.0):
    """Curves that rise linearly to an end, direction j at pace/(j + 1); seeds differ by the jitter."""
    steps = np.arange(101)
    factors = 1 + jitter * np.array([-1.0, 0.0, 1.0])
    paces = factors[:, None, None] * pace / np.arange(1, nets.MODES + 1)
    return nets.Curves(steps, np.minimum(paces * steps[None, :, None], end))


def verdict(plain, decayed, noisy):
    data = nets.Pictures("mnist", "", np.zeros((10, 9), np.float32), np.ones(8), np.eye(9)[:, :8], SIZES)
    chapter = Chapter("pretorius2018", "", "")
    runs = {("tanh", kind): run for kind, run in zip(nets.KINDS, (plain, decayed, noisy), strict=True)}
    picture_chapters._nonlinear(chapter, data, runs, "tanh", "section G, Figure 1 of the supplement")
    return chapter.claims[0].verdict, chapter.numbers


def test_noise_that_is_quicker_and_holds_weak_directions_back_holds():
    found, numbers = verdict(rising(0.2, 1.0), rising(0.05, 0.5), rising(0.1, 0.5))
    assert found == "holds"
    assert numbers["mnist_tanh_decay_over_noise_time"] == pytest.approx(2)
    assert numbers["mnist_tanh_weak_noise_over_plain"] == pytest.approx(0.5)
    assert numbers["mnist_tanh_strong_first"] == 1


@pytest.mark.parametrize(
    ("decayed", "noisy"),
    [
        (rising(0.1, 0.5), rising(0.05, 0.5)),  # decay is quicker
        (rising(0.05, 0.5), rising(0.1, 1.0)),  # noise leaves the weak directions as they are
        (rising(0.1, 0.5, jitter=0.5), rising(0.101, 0.5)),  # quicker, but not by two standard errors
    ],
)
def test_a_difference_that_is_missing_or_unsure_does_not_hold(decayed, noisy):
    assert verdict(rising(0.2, 1.0), decayed, noisy)[0] == "does not hold"


def test_directions_that_rise_together_are_not_in_order():
    together = nets.Curves(np.arange(101), np.broadcast_to(np.linspace(0, 1, 101)[:, None], (3, 101, nets.MODES)))
    found, numbers = verdict(together, rising(0.05, 0.5), rising(0.1, 0.5))
    assert found == "does not hold"
    assert numbers["mnist_tanh_strong_first"] == 0


def test_the_gap_of_paired_runs_has_their_standard_error():
    found = picture_chapters._gap(np.array([1.0, 2.0, 3.0]))
    assert found == pytest.approx((2.0, 1 / np.sqrt(3)))


def test_committed_numbers_and_page_state_the_sizes_that_are_run():
    data, page = json.loads((DOCS / "numbers.json").read_text())["data"], (DOCS / "README.md").read_text()
    for name, sizes in nets.SIZES["paper"].items():
        assert sizes.samples == picture_chapters.PAPER_SAMPLES[name]
        assert sizes.pool == 1
        assert sizes.samples % sizes.batch == 0
        run = f"{sizes.epochs} epochs in batches of {sizes.batch:,}"
        assert f"{run}, {sizes.hidden} hidden units, {sizes.seeds} seeds" in data
        assert run in page
        assert f"| hidden units | {sizes.hidden} |" in page
        assert f"| seeds | {sizes.seeds} |" in page
        assert f"{sizes.samples:,} pictures of" in data
        assert f"{sizes.samples:,} of" in page


def test_every_claim_on_the_page_names_its_figure():
    rows = [line for line in (DOCS / "README.md").read_text().splitlines() if line.startswith("| ") and ".png" in line]
    claims = json.loads((DOCS / "numbers.json").read_text())["claims"]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [claim["where"] for claim in claims]
