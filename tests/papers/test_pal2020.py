"""Pal et al. (2020) at the small size: every claim is measured, every number as expected, every figure drawn."""

import json
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from offdiag.errors import OffdiagError
from offdiag.lab import dropblock, resnet
from offdiag.papers import claims, page, pal2020
from offdiag.papers.pal2020 import extension_chapters, formulas

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Matrices this small run slower when shared among busy cores."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def found(told):
    return pal2020.run(size="small", seed=0, progress=lambda stage, fraction: told.append((stage, fraction)))


def test_every_number_is_as_expected_and_every_expectation_is_computed(found):
    checks = page.checks(found)
    assert [c.name for c in checks if not c.ok] == []
    assert {c.name for c in checks} == set(found.numbers) == set(claims.expected("pal2020", "small"))


def test_every_claim_has_evidence_and_a_verdict(found):
    assert len(found.claims) >= 20
    for claim in found.claims:
        assert any(ch.isdigit() for ch in claim.measured), claim.where
        assert "nan" not in claim.measured
        assert claim.code
    verdicts = {claim.where: claim.verdict for claim in found.claims}
    assert verdicts["Theorem 4.1, Corollary 4.2"] == "does not hold"
    assert [where for where, verdict in verdicts.items() if verdict == "does not hold"] == [
        "Theorem 4.1, Corollary 4.2"
    ]
    for where in ("Theorem 2.3", "Corollary 3.2", "Proposition 3.3", "Section 5.3"):
        assert verdicts[where] == "holds when corrected"
    assert "not run" not in verdicts.values()
    for claim in found.claims:
        assert claim.erratum or claim.verdict == "holds", claim.where


def test_every_statement_and_figure_of_the_paper_is_there(found):
    text = " ".join(claim.where for claim in found.claims)
    for name in ("2.1", "2.2", "2.3", "2.5", "2.6", "2.7", "2.8", "3.1", "3.2", "3.3", "4.1", "4.2", "Algorithm 1"):
        assert name in text, name
    for n in range(1, 7):
        assert f"Figure {n}" in text, n


def test_the_page_its_figures_and_its_numbers_are_written(found, tmp_path):
    files = page.write(found, tmp_path)
    names = [drawing.name for chapter in found.chapters for drawing in chapter.drawings]
    assert len(names) == len(set(names)) == 9
    for name in names:
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
        assert (tmp_path / "figures" / f"{name}.svg").read_text().startswith("<?xml")
    html = (tmp_path / "index.html").read_text()
    assert html.count("<img") == 9
    assert "does not hold" in html
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["paper"] == "pal2020"
    assert len(numbers["checks"]) == len(found.numbers)
    assert len(files) == 2 + 2 * 9


def test_progress_tells_what_is_done(told, found):
    stages = {stage.split(" · ")[0] for stage, _ in told}
    assert stages >= {"formulas", "descent", "DropConnect", "blocks", "residual net"}
    assert all(0 <= fraction <= 1 for _, fraction in told)
    assert "synthetic images" in found.data


def test_the_expectations_have_bounds_for_both_sizes():
    for size in ("small", "paper"):
        for name, bound in claims.expected("pal2020", size).items():
            assert bound["why"], name
            assert "value" in bound or "at_most" in bound or "at_least" in bound, name


def test_the_printed_search_can_be_right_and_is_never_below_the_minimum():
    m = np.array([5.0, 1.0, 0.9, 0.8])
    best = formulas._objective(dropblock.prox(m, 3, 0.5), m, 3, 0.5)
    assert formulas._as_printed(m, 3, 0.5) == pytest.approx(best)
    steep = np.array([5.0, 4.0, 0.1])
    best = formulas._objective(dropblock.prox(steep, 2, 0.5), steep, 2, 0.5)
    assert formulas._as_printed(steep, 2, 0.5) > best + 0.05


def test_the_dual_of_the_norm_never_exceeds_it():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = np.sort(rng.random(6))[::-1] + 0.01
        assert formulas._dual(a, 3) <= dropblock.k_support_squared(a, 3) * (1 + 1e-12)


def test_the_residual_net_learns_and_is_decided_by_its_seed():
    rng = np.random.default_rng(0)
    pixels, Y = rng.integers(0, 256, (12, 16, 16, 3)), resnet.targets(np.arange(12) % 10)
    settings = {"stages": (1, 1), "width": 4, "hidden": 10, "steps": 12, "masks": 20, "learning_rate": 1e-2}
    before = torch.random.get_rng_state()
    once, again = (resnet.train(pixels, Y, seed=3, **settings) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.array_equal(once.losses, again.losses)
    assert once.losses[-1] < 0.7 * once.losses[0]
    assert once.predictions.shape == (10, 12)
    bound = dropblock.optimum(Y, np.eye(12), 10, 5, 0.5).bound
    assert once.losses.min() > bound
    assert resnet.train(pixels, Y, seed=4, **settings).losses[-1] != once.losses[-1]


def test_resnet_50_has_the_layers_of_resnet_50():
    net = resnet._classes()["ResNet"](3, resnet.RESNET50, 64, 1000)
    convolutions = sum(isinstance(m, torch.nn.Conv2d) for m in net.modules())
    assert convolutions == 53  # 49 in the path of the data, 4 shortcuts; the 50th layer is linear
    assert sum(p.numel() for p in net.parameters()) == 25_557_032  # as published for 1,000 outputs


def test_no_text_shows_the_quotes_of_its_source(found):
    for chapter in found.chapters:
        words = [chapter.title, chapter.text]
        words += [part for claim in chapter.claims for part in (claim.says, claim.measured, claim.erratum)]
        words += [drawing.caption for drawing in chapter.drawings]
        assert not [text for text in words if '"' in text]


@pytest.mark.parametrize("folder", ["mnist", "cifar10"])
def test_a_wrong_folder_is_told_before_anything_is_computed(folder, monkeypatch):
    monkeypatch.setattr(pal2020.measure, "data", lambda *_: pytest.fail("computed first"))
    with pytest.raises(OffdiagError, match="there is no 'nowhere'"):
        pal2020.run(size="small", seed=0, **{folder: "nowhere"})


def test_every_figure_says_what_to_install_when_matplotlib_is_missing(monkeypatch):
    from offdiag.papers.mianjy2018 import figures

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OffdiagError, match=r"figures need matplotlib: pip install 'offdiag\[plot\]'"):
        figures.landscapes()


def test_without_torch_the_deep_part_says_so():
    chapter = extension_chapters.deep([], "small")
    assert chapter.claims[0].verdict == "not run"
    assert not chapter.drawings
    assert not chapter.numbers


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: resnet.train(np.ones((2, 3)), np.ones((1, 2))), "pixels must be"),
        (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 3))), "Y must be any×2"),
        (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), hidden=7), "received width 7 and block 5"),
        (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), steps=0), "steps must be a whole number"),
        (lambda: resnet.train(np.full((2, 8, 8), np.nan), np.ones((1, 2))), "pixels holds NaN"),
        (lambda: resnet.train("a", np.ones((1, 2))), "pixels must be"),
        (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), seed=-1), "seed"),
        (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), learning_rate="a"), "learning_rate"),
        (lambda: resnet.train(np.ones((2, 8, 8)), np.ones((1, 2)), stages=(1, 0)), "stages"),
        (lambda: resnet.targets([11]), "labels must be whole numbers from 0 to 9, received 11"),
        (lambda: resnet.targets([-1]), "received -1"),
        (lambda: resnet.targets([0.5]), "received 0.5"),
        (lambda: resnet.targets([]), "labels must be a vector"),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(OffdiagError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
