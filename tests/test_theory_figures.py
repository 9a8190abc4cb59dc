"""docs/theory/*.html, the figures to explore: up to date, self-contained, right, and usable in a browser."""

import json
import re

import numpy as np
import pytest

import offdiag as od
from docs.theory import figures
from offdiag.lab import dynamics

NAMES = tuple(figures.PAGES)


def content(name):
    """What the committed page embeds."""
    text = (figures.THEORY / f"{name}.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_page_is_what_the_generator_writes(name):
    text = (figures.THEORY / f"{name}.html").read_text(encoding="utf-8")
    assert text == figures.page(name), "run python -m docs.theory.figures"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_asks_for_nothing_outside_and_has_no_slider(name):
    text = (figures.THEORY / f"{name}.html").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"' <]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<link|<img|<input|@import|\bsrc=|fetch\(|url\((?!#)", text)


def test_learning_curves_are_those_of_an_ode_solver():
    data = content("learning")
    t = np.array(data["x"]["values"])
    for view, force in zip(data["views"], ({}, {"noise": 0.5}, {"decay": 0.35}), strict=True):
        for line in view["lines"]:
            lam = float(line["name"].removeprefix("λ = "))
            one, two = dynamics.simulate(t, 0.05, 0.05, lam, tau=1.0, **force)
            np.testing.assert_allclose(line["values"], one * two, atol=6e-5)


def test_shrinkages_are_drawn_over_the_singular_values_they_shrink():
    data = content("shrinkage")
    sigma = np.array(data["x"]["values"])
    assert (np.diff(sigma) > 0).all()
    for view, l2 in zip(data["views"], (20, 80, 320), strict=True):
        lines = {line["name"]: line for line in view["lines"]}
        assert list(lines) == [kind.__name__ for kind in od.spectral.SHRINKS.values()]
        np.testing.assert_allclose(lines["Ridge"]["values"], sigma**2 / (sigma**2 + l2), atol=1e-4)
        np.testing.assert_allclose(lines["WeightDecay"]["values"], np.maximum(1 - l2 / sigma**2, 0), atol=1e-3)
        assert lines["Ridge"]["note"] == f"l2 {l2}"
        for line in view["lines"]:
            assert (np.diff(line["values"]) >= -1e-4).all(), "a larger component is never shrunk more"


def test_maps_show_the_loss_and_its_critical_points():
    data = content("landscape")
    at = np.linspace(-1, 1, data["cells"]) * data["reach"] * (1 - 1 / data["cells"])
    u, v = np.meshgrid(at, at)
    one, two = data["views"]
    for n, lam in enumerate(data["lambdas"]):
        surfaces = (1 - u * v) ** 2 + lam * (u * v) ** 2, (1 - u**2 - v**2) ** 2 + lam * (u**4 + v**4)
        lowest = lam / (1 + lam), lam / (2 + lam)
        for view, surface, low in zip((one, two), surfaces, lowest, strict=True):
            bands = np.array([[int(digit) for digit in row] for row in view["frames"][n]["rows"]])
            edges = np.array([-np.inf, *figures.BANDS, np.inf])
            above = surface - low
            assert (above >= edges[bands] - 1e-9).all()
            assert (above <= edges[bands + 1] + 1e-9).all()
        minima = [mark["at"] for mark in two["frames"][n]["marks"] if mark["kind"] == "minimum"]
        assert len(minima) == (4 if lam else 0)
        np.testing.assert_allclose(np.abs(minima), (2 + lam) ** -0.5, atol=6e-5)
        for valley in one["frames"][n]["valleys"]:
            np.testing.assert_allclose(np.prod(valley, axis=1), 1 / (1 + lam), atol=2e-4)


def test_descent_ends_in_a_minimum_of_the_map():
    for view in content("landscape")["views"]:
        for frame in view["frames"]:
            for way in frame["ways"]:
                places = [mark["at"] for mark in frame["marks"] if mark["kind"] == "minimum"]
                places += [place for valley in frame["valleys"] for place in valley]
                assert np.linalg.norm(np.array(places) - way[-1], axis=1).min() < 0.06


@pytest.fixture(scope="module")
def browser():
    from tests.fixtures.browser import chromium

    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser):
    """A page on a phone, which may not complain or ask a host."""
    from tests.fixtures.browser import Watched

    windows = []

    def open_page(name, **options):
        options = {"viewport": {"width": 390, "height": 844}, **options}
        windows.append(Watched(browser, **options))
        return windows[-1].open((figures.THEORY / f"{name}.html").as_uri())

    yield open_page
    for each in windows:
        each.context.close()
        assert each.hosts == {""}
        assert each.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_every_page_fits_a_phone_and_every_button_works(visit, name, scheme):
    page = visit(name, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for n in range(page.locator("button").count()):
        page.locator("button").nth(n).click()
        assert page.locator("#plot svg path").count() > 0
        assert len(page.locator("#text").inner_text()) > 20
    assert "NaN" not in page.content()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["learning", "shrinkage"])
def test_pointer_and_keys_read_the_values_of_a_chart(visit, name):
    page, data = visit(name), content(name)
    box = page.locator("#plot svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] / 2)
    view = data["views"][data.get("first", 0)]
    shown = page.locator("#values .number")
    assert float(shown.nth(1).inner_text()) == pytest.approx(view["lines"][1]["values"][-1], abs=0.01)
    page.locator("#plot").focus()
    page.keyboard.press("Home")
    assert shown.all_inner_texts() == [f"{line['values'][0]:.3f}" for line in view["lines"]]
    page.keyboard.press("ArrowRight")
    assert page.locator("#at").inner_text() == f"at {data['x']['short']} = {round(data['x']['values'][1], 2):g}"


@pytest.mark.slow
def test_marks_of_the_map_can_be_reached_and_play_moves_on(visit):
    page = visit("landscape")
    page.get_by_role("button", name="two units").click()
    page.get_by_role("button", name="λ = 1", exact=True).click()
    page.locator(".mark").first.focus()
    assert page.locator(".detail").inner_text() == "minimum at (0.577, 0.577): loss 0.333"
    page.locator("#plot").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#text").inner_text().startswith("λ = 2.")
    page.get_by_role("button", name="play").click()
    assert page.locator("#text").inner_text().startswith("λ = 0.")
    page.wait_for_function("document.getElementById('text').textContent.startsWith('λ = 0.25')")
    page.get_by_role("button", name="pause").click()
    assert page.get_by_role("button", name="play").count() == 1
