"""Items that were added to a model after its fit, on the page: a mark, and what they are like."""

import copy
from pathlib import Path

import pytest

import offdiag as od
from tests.fixtures.browser import Watched, expect, listed
from tests.fixtures.new_products import ADDED, TITLES, fitted, grow
from tests.fixtures.serving import Service, until

pytestmark = pytest.mark.slow
FANS = [1, 6, 11]
CONTRAST = (Path(__file__).parents[2] / "fixtures" / "contrast.js").read_text()
SIZES = pytest.mark.parametrize("size", [(1200, 900), (390, 844)], ids=["desktop", "phone"])


@pytest.fixture(scope="module")
def model():
    return grow(fitted())


@pytest.fixture(scope="module")
def shop(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("grown")
    model.save(folder / "grown.od", updatable=True)
    bare = copy.copy(model)
    bare.remove_items(ADDED).save(folder / "before.od")
    with Service(folder, "grown.od", "before.od", "--reload-every", "0.05") as running:
        yield running


@SIZES
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_new_item_has_a_mark_and_a_reason(shop, model, browser, size, scheme):
    with Watched(browser, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme) as each:
        page = each.open(shop.url, h=FANS, k="15")
        assert listed(page) == [TITLES[item] for item in model.recommend([FANS], k=15).items[0].tolist()]
        row = page.locator("#results li[data-id='41']")
        expect(row.locator(".new")).to_have_text("new")
        like = [TITLES[item] for item, _ in model.new_items_.like[41]]
        expect(row.locator(".like")).to_have_text(f"because it is like {like[0]}, {like[1]} and {like[2]}")
        marked = set(model.recommend([FANS], k=15).items[0].tolist()) & set(ADDED)
        assert page.locator("#results .new").count() == len(marked)
        row.locator(".title").click()
        panel = row.locator(".panel")
        expect(panel.locator(".like")).to_contain_text("nobody has it yet: it is here because it is like Film")
        expect(panel.locator(".like")).to_contain_text(f"and {like[-1]}.")
        similar = set(model.similar(41, k=8).items[0].tolist()) & set(ADDED)
        expect(panel.locator(".similar .new")).to_have_count(len(similar))
        panel.locator(".bars .link").first.click()
        expect(panel.locator(".pair").first).to_contain_text("was added after the fit")
        page.fill("#query", "film 4")
        expect(page.locator("#hits li", has_text="Film 41").locator(".soft")).to_have_text("new")
        assert page.evaluate(CONTRAST)["low"] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        refused = [line for line in each.complaints if "409" not in line]  # the pair, as the browser logs it
        assert refused == []


def test_the_card_says_how_many_are_new(shop, browser):
    with Watched(browser) as each:
        page = each.open(shop.url, h=FANS)
        listed(page)
        expect(page.locator("#card-body")).to_contain_text("300 users, 40 items")
        expect(page.locator("#card-body")).to_contain_text("4, which nobody has yet")
        page = each.open(shop.url, h=FANS, m="before")
        listed(page)
        expect(page.locator("#card-body .name")).to_have_text("before")
        expect(page.locator("#card-body")).not_to_contain_text("nobody has yet")


@SIZES
def test_compared_lists_mark_what_only_one_model_has(shop, browser, size):
    with Watched(browser, viewport={"width": size[0], "height": size[1]}) as each:
        page = each.open(shop.url, h=FANS, k="15", c="before")
        listed(page)
        row = page.locator("#results li[data-id='41']")
        expect(row).to_have_count(1)
        expect(row.locator(".new")).to_have_text("new")
        expect(row).to_contain_text("cannot recommend it")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert each.complaints == []


def test_items_that_are_added_while_it_runs_appear(shop, browser):
    with Watched(browser) as each:
        page = each.open(shop.url, h=FANS, k="15", m="before")
        listed(page)
        expect(page.locator("#results .new")).to_have_count(0)
        path = shop.folder / "before.od"
        grow(od.load(path)).save(path)
        until(lambda: shop.client.get("/model", params={"model": "before"}).json()["new_items"] == 4)
        page.reload()
        listed(page)
        expect(page.locator("#results li[data-id='41'] .new")).to_have_text("new")
