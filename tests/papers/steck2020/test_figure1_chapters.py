"""Figure 1 and the theorems of Steck (2020) at the small size, and how the verdicts on them are made."""

import json
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag.diagnostics import RankCurve, RankPoint
from offdiag.papers.claims import Chapter
from offdiag.papers.steck2020 import figure1, figure1_chapters, fits, table1_claims
from tests.laws.reproduction import DOCS, Reproduced

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"


@pytest.mark.slow
class TestSteck2020(Reproduced):
    paper = "steck2020"
    stages = ("Figure 1", "Theorems")
    covers = ("Figure 1", "Eq. 3", "Eq. 5", "Eq. 6", "Eq. 8", "Eq. 10")
    figures = ("figure1", "gauges")
    refuted = ("Section 4.1.1, b → 0",)
    corrected = ()
    empirical = tuple(
        f"Figure 1, {part}"
        for part in (
            "all ranks",
            "small ranks",
            "large ranks",
            "the identity",
            "encoder",
            "decoder",
            "orthogonality",
        )
    )


def curve(edlae, zero, dlae, ranks=(10, 100), n=400, spread=0.05):
    """A curve whose models have these means, on the same users."""
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.1, n)
    points = []
    for name, means in (("EDLAE", edlae), ("zero diagonal", zero), ("DLAE", dlae)):
        for rank, mean in zip(ranks, means, strict=True):
            noise = rng.normal(size=n)
            values = mean + base - base.mean() + spread * (noise - noise.mean())
            sem = float(values.std(ddof=1) / np.sqrt(n))
            result = od.Result({"ndcg@100": float(values.mean())}, {"ndcg@100": sem}, {"ndcg@100": values}, n, 0, 0.0)
            points.append(RankPoint(name, rank, mean, sem, 1, 0.0, 0.0, {}, result))
    return RankCurve("ndcg@100", points)


def verdicts(found, low=0.05, high=0.6, as_fitted=None):
    chapter = Chapter("steck2020", "", "")
    figure1_chapters.judge_accuracy(chapter, found)
    cosines = {"balanced": around(low, high), "as fitted": around(*(as_fitted or (low, high)))}
    figure1_chapters.judge_embeddings(chapter, cosines)
    assert all(claim.measured and claim.says for claim in chapter.claims)
    return {claim.where.removeprefix("Figure 1, "): claim.verdict for claim in chapter.claims}


def around(low, high):
    values = {"EDLAE": low, "zero diagonal": low, "DLAE": high}
    noise = np.linspace(-0.01, 0.01, 5)
    return {name: (value + noise, value - noise) for name, value in values.items()}


def test_the_papers_own_picture_passes_every_claim():
    assert set(verdicts(curve((0.3, 0.4), (0.25, 0.399), (0.299, 0.38))).values()) == {"holds"}


def test_each_claim_can_fail():
    seen = verdicts(curve((0.3, 0.4), (0.25, 0.42), (0.2, 0.45)), low=0.7)
    assert set(seen.values()) == {"does not hold"}
    seen = verdicts(curve((0.3, 0.4), (0.25, 0.402), (0.3, 0.4)))
    assert seen["all ranks"] == "within error"
    assert seen["the identity"] == "within error"
    assert verdicts(curve((0.3, 0.4), (0.25, 0.4), (0.3, 0.3)), low=0.55)["encoder"] == "barely"


def test_a_claim_that_holds_in_one_gauge_alone_says_so():
    seen = verdicts(curve((0.3, 0.4), (0.25, 0.399), (0.299, 0.38)), as_fitted=(0.7, 0.6))
    assert seen["encoder"] == seen["decoder"] == seen["orthogonality"] == "depends on the gauge"


def test_without_any_pair_of_similar_items_nothing_is_claimed_for_them():
    cosines = {"balanced": {name: (np.full(2, np.nan),) * 2 for name in ("EDLAE", "zero diagonal", "DLAE")}}
    chapter = Chapter("steck2020", "", "")
    figure1_chapters.judge_embeddings(chapter, cosines)
    assert {claim.verdict for claim in chapter.claims} == {"does not hold"}
    assert np.isnan(figure1.middle(np.array([np.nan])))


@pytest.mark.parametrize("behind", [0.0, 0.004, 0.02])
def test_figure_and_table_agree_on_the_same_users(behind):
    found = curve((0.3, 0.4), (0.3, 0.4 - behind), (0.3, 0.4 - behind))
    lines = [
        {"row": row, "kind": fits.TUNED, "per_user": at.result.per_user, "sem": at.result.sem, "validation": 0.0,
         "emphasis": row == "edlae", "settings": {"rank": 100}}
        for row, at in (("edlae", found.at("EDLAE", 100)), ("zero-diagonal", found.at("zero diagonal", 100)))
    ]  # fmt: skip
    (claim,) = [c for c in table1_claims.judged(lines, []) if c.where == "zero_diagonal_alike"]
    assert claim.verdict == verdicts(found)["large ranks"] == ("holds" if behind < 0.01 else "does not hold")


def test_the_readme_lists_the_verdicts_of_table_1_on_every_set():
    lines = [line.split(" | ") for line in (DOCS / "steck2020" / "README.md").read_text().splitlines()]
    table = {cells[0].strip("| `"): [cell.strip("| ") for cell in cells[2:]] for cells in lines if len(cells) > 3}
    for place, name in enumerate(("ml-1m", "lastfm", "ml-100k")):
        (part,) = json.loads((RESULTS / f"table1-{name}.json").read_text())["data"]
        for claim in part["claims"]:
            assert table[claim["name"]][place] == claim["verdict"], (name, claim["name"])
