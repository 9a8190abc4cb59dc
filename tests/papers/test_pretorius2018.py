"""Pretorius (2018) at its small size: every number as expected, every claim with evidence, figures with ink in them."""

from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from offdiag.errors import OffdiagError
from offdiag.lab import dynamics
from offdiag.papers import claims, page, pretorius2018
from offdiag.papers.pretorius2018 import curves, ends, nets

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Thousands of tiny products: threads would only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def found():
    told = []
    result = pretorius2018.run(size="small", seed=0, progress=lambda *stage: told.append(stage))
    assert all(0 <= fraction <= 1 for _, fraction in told)
    assert {stage.split(" · ")[0] for stage, _ in told} == {"theory", "MNIST", "CIFAR-10"}
    return result


def test_every_number_is_as_expected_and_every_expectation_is_computed(found):
    checks = page.checks(found)
    assert [f"{c.name}: {c.value} is not {c.expected}" for c in checks if not c.ok] == []
    assert set(claims.expected("pretorius2018", found.size)) == set(found.numbers)
    assert all(c.why for c in checks)


def test_every_section_of_the_supplement_is_there_with_evidence(found):
    everywhere = " ".join(claim.where for claim in found.claims)
    for section in ("Section A", "Section B", "Section C", "Section D", "Section E", "Section F", "section G"):
        assert section in everywhere
    assert "Figure 6" in everywhere
    for claim in found.claims:
        assert any(letter.isdigit() for letter in claim.measured), claim.where
        assert claim.verdict != "not run"
        assert claim.erratum or claim.verdict == "holds", claim.where


def test_claims_name_functions_that_exist(found):
    for claim in found.claims:
        for name in claim.code.split(", "):
            assert callable(getattr(dynamics, name.removeprefix("lab.dynamics."))), name


def test_the_errata_are_decided_by_numbers(found):
    verdicts = {claim.where: claim.verdict for claim in found.claims}
    assert verdicts["Section A, Eq. 1 of the paper"] == "holds when corrected"
    assert verdicts["Section C, Eq. 7 of the paper"] == "holds when corrected"
    assert verdicts["Section E"] == "holds when corrected"
    assert verdicts["Section D"] == "does not hold"
    assert curves.verdict(False, corrected=True) == "does not hold"


def test_the_page_is_written_with_its_figures(found, tmp_path):
    files = [Path(name) for name in page.write(found, tmp_path)]
    assert (tmp_path / "index.html").read_text().count('<figure class="drawn">') == 9
    pictures = [file for file in files if file.suffix == ".png"]
    assert len(pictures) == 9
    matplotlib_image = pytest.importorskip("matplotlib.image")
    for file in pictures:
        ink = matplotlib_image.imread(file)[..., :3]
        assert (ink.std(axis=(0, 1)) > 0.02).any(), file.name
    text = (tmp_path / "index.html").read_text()
    assert "synthetic images in place of MNIST" in text
    assert "/tmp/" not in text


def test_other_seeds_come_out_alike():
    """The theory chapters alone; the nets take longer."""
    for seed in (1,):
        for part in (curves.expected_loss, ends.ends, ends.whole_net):
            chapter = part(seed)
            bounds = claims.expected("pretorius2018", "small")
            assert all(check.ok for check in claims.check(chapter.numbers, bounds))
            assert all(claim.verdict != "does not hold" for claim in chapter.claims)


def test_a_folder_without_the_files_is_told_before_anything_runs(tmp_path):
    told = []
    with pytest.raises(OffdiagError, match="train-images-idx3-ubyte"):
        pretorius2018.run(size="small", seed=0, mnist=str(tmp_path), progress=lambda *a: told.append(a))
    assert told == []


def test_the_printed_formulas_are_ours_where_they_can_be_computed():
    assert curves._printed_dae(1.5, 0.2, 0.5, 1.3, 0.4) == pytest.approx(
        dynamics.dae(1.5, 0.2, 0.5, 1.3, 0.4, 1.0), rel=1e-9
    )
    assert np.isnan(curves._printed_dae(1.5, 0.3, 0.3, 1.0, 0.4))
    t = np.array([0.0, 1.0, 4.0])
    np.testing.assert_allclose(curves._printed_wdae(t, 0.1, 1.0, 0.4), dynamics.wdae(t, 0.1, 1.0, 0.4, 1.0))


def test_steps_needed_counts_until_the_end_is_not_left_again():
    steps = ends._steps_needed(1.0, np.array([1.0]), np.array([0.0]), np.array([0.2]))
    u, count = 0.1, 0
    while abs(u * u - 0.5) > 0.005:
        u += 0.2 * u * (1 - 2 * u * u)
        count += 1
    assert steps[0] == pytest.approx(count, abs=1)


@pytest.fixture(scope="module")
def data():
    return nets.pictures("mnist", None, "small", 0)


@pytest.mark.parametrize("activation", nets.ACTIVATIONS)
def test_a_step_of_training_goes_down_the_gradient(data, activation, monkeypatch):
    """The change of each weight in one step against central differences of the loss, at a few places."""
    gamma = nets.matched_decay(data)
    rng = np.random.default_rng(0)
    W1, W2 = (W + 0.01 * rng.standard_normal(W.shape) for W in nets.start(data, 0))
    monkeypatch.setattr(nets, "start", lambda *_: (W1, W2))
    after = {}
    monkeypatch.setattr(
        nets, "_net", lambda *a: after.update(last=[np.array(v, float) for v in a[:3]]) or (lambda x: x)
    )
    short = nets.Pictures(data.name, data.words, data.X, data.basis, nets.replace(data.sizes, steps=1))
    nets.train(short, activation, "WDAE", 0)
    act = {"linear": lambda a: a, "tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}[activation]

    def loss(A, b, B):
        rest = data.X - act(data.X @ A.T + b) @ B.T
        return np.sum(rest**2) / (2 * len(data.X)) + gamma / 2 * (np.sum(A**2) + np.sum(B**2))

    before = [W1, np.zeros(len(W1)), W2]
    for which, place in ((0, (3, 100)), (0, (7, 90)), (1, (4,)), (2, (100, 5)), (2, (77, 0))):
        if activation == "linear" and which == 1:
            continue
        slopes = []
        for sign in (1, -1):
            moved = [value.copy() for value in before]
            moved[which][place] += sign * 1e-4
            slopes.append(loss(*moved))
        slope = (slopes[0] - slopes[1]) / 2e-4
        change = (before[which][place] - after["last"][which][place]) / nets.rate(data)
        assert change == pytest.approx(slope, rel=2e-2, abs=2e-6)


def test_noise_is_drawn_with_the_variance_it_should_have(data):
    assert data.sizes.variance == nets.VARIANCE / data.sizes.pool**2
    noisy = nets.train(data, "linear", "DAE", 0).values[-1]
    assert np.abs(noisy - dynamics.dae_fixed_point(data.eigenvalues, len(data.X) * data.sizes.variance)).max() < 0.03


def test_pictures_are_pooled_and_centred(data):
    from offdiag.data._sets import images

    assert np.abs(data.X.mean(axis=0)).max() < 1e-12
    pixels = images.invented(data.sizes.samples, "mnist", 0)[0] / 255
    assert data.X.shape == (data.sizes.samples, 196)
    pooled = pixels[:, 4:6, 8:10].mean(axis=(1, 2))
    np.testing.assert_allclose(data.X[:, 2 * 14 + 4], pooled - pooled.mean())


def test_the_time_to_a_level_is_interpolated():
    curves = nets.Curves(np.array([0, 10, 20]), np.array([[0.0, 0.0, 0.5], [0.4, 0.2, 0.6], [0.8, 0.3, 0.7]]), 0.0)
    np.testing.assert_allclose(curves.time_to([0.6, 0.9, 0.1]), [15, np.inf, 0])


def test_the_last_step_is_recorded_whatever_the_interval(data):
    short = nets.Pictures(data.name, data.words, data.X, data.basis, nets.replace(data.sizes, steps=7))
    assert nets.train(short, "linear", "AE", 0, records=2).steps.tolist() == [0, 3, 6, 7]
