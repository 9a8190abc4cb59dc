"""What can be measured of the look: contrast, keyboard, width and what is in sight on a phone."""

import signal
from pathlib import Path

import pytest

from tests.fixtures.browser import TITLES, Watched, expect, listed
from tests.fixtures.serving import Service

pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SHORT = 664  # points of that phone that are left by the bars of a browser
CONTRAST = (Path(__file__).parents[2] / "fixtures" / "contrast.js").read_text()
FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"


def low_contrast(page):
    found = page.evaluate(CONTRAST)
    assert found["checked"] > 20
    return found["low"]


def show_everything(page):
    """Panels, a broken-down weight and the hits of a search, all at once."""
    page.locator("#results .title").nth(1).click()
    page.locator(".panel .similar").wait_for()
    if page.locator(".panel .bars .link").count():
        page.locator(".panel .bars .link").first.click()
        page.locator(".panel .pair p").first.wait_for()
    page.locator("#query").fill("the")
    page.locator("#hits li").first.wait_for()
    page.keyboard.press("ArrowDown")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_every_text_of_the_page_has_enough_contrast(visit, popular, scheme, size):
    options = {"color_scheme": scheme} | (PHONE if size == "phone" else {})
    page = visit(options)
    assert low_contrast(page) == []
    for chosen in ({"h": popular, "b": [1001]}, {"h": popular, "c": "sparse"}):
        page = visit(options, **chosen)
        show_everything(page)
        assert low_contrast(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_stale_answers_are_dimmed_but_readable(browser, folder, popular, scheme):
    with Service(folder, "exact.od", *TITLES) as running, Watched(browser, color_scheme=scheme) as each:
        page = each.open(running.url, h=popular)
        listed(page)
        running.stop(signal.SIGKILL)
        page.locator("#results .icon.add").first.click()
        expect(page.locator("body")).to_have_class("away")
        page.wait_for_timeout(400)  # the end of the transition
        assert low_contrast(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_the_reference_has_enough_contrast(visit, service, scheme):
    page = visit({"color_scheme": scheme}, url=f"{service.url}/docs", loads=False)
    page.get_by_role("button", name="Try /recommend").click()
    expect(page.locator("#recommend .state")).to_contain_text("200")
    for summary in page.locator("summary").all():
        summary.click()
    assert low_contrast(page) == []


@pytest.mark.parametrize("path", ["#h=[1001,1002,1003]", "#h=[1001,1002]&c=sparse", "", "docs"])
def test_the_tab_key_reaches_everything_in_order(visit, service, path):
    page = visit(url=f"{service.url}/{path}", loads=path != "docs")
    page.wait_for_load_state("networkidle")
    wanted = page.evaluate(
        """selector => [...document.querySelectorAll(selector)]
        .filter((one) => one.checkVisibility() && one.tabIndex >= 0)
        .map((one, at) => { one.dataset.place = at; return at; })""",
        FOCUSABLE,
    )
    assert len(wanted) > 10
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        place, ring = page.evaluate(
            "[Number(document.activeElement.dataset.place), getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.append(place)
        assert ring != "none", f"the focus on element {place} is not visible"
    assert reached == wanted


@pytest.mark.parametrize(
    "chosen",
    [{}, {"h": [1001, 1002, 1003, 1004]}, {"h": [1001, 1002, 1003], "c": "sparse"}],
    ids=["empty", "one", "two"],
)
def test_recommendations_are_in_sight_on_a_phone(visit, chosen):
    page = visit(PHONE, **chosen)
    second = page.locator("#results .item").nth(1).bounding_box()
    assert second["y"] + second["height"] < SHORT
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("chosen", [{"h": [1001, 1002]}, {"h": [1001, 1002], "c": "sparse"}], ids=["one", "two"])
def test_nothing_is_wider_than_a_phone(visit, chosen):
    page = visit(PHONE, **chosen)
    show_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_reference_is_not_wider_than_a_phone(visit, service):
    page = visit(PHONE, url=f"{service.url}/docs", loads=False)
    page.get_by_role("button", name="Try /batch").click()
    expect(page.locator("#batch .state")).to_contain_text("200")
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_path_can_be_tried_in_the_reference(visit, service):
    page = visit(url=f"{service.url}/docs", loads=False)
    page.wait_for_load_state("networkidle")  # the examples name real items now
    for form in page.locator("form[data-path]").all():
        form.get_by_role("button").click()
        expect(form.locator(".state")).to_contain_text("200")
        expect(form.locator("pre")).not_to_be_empty()
