"""Draws docs/page-*.png: the page of ``offdiag serve`` with two models of a synthetic catalogue, in Chromium.

Run from the root of the tree: python -m docs.make_page_pictures
"""

import json
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, Page, Route, sync_playwright

import offdiag as od
from tests.fixtures.serving import Service

DOCS = Path(__file__).parent
DESKTOP, PHONE = (1180, 860), (390, 844)


def make(folder: Path) -> list[str]:
    """Two models with a catalogue, measured next to popularity; returns a history that both know well."""
    inter = od.synthetic.catalogue(6000, 800, 150_000, communities=10, seed=4).interactions
    split = od.split.strong(inter, held_out=0.1, seed=0)
    metrics = ["recall@20", "recall@50", "ndcg@100"]
    popular = od.evaluate(od.Popularity().fit(split.train), split.test, metrics=metrics).to_dict()
    ids = split.train.item_ids.tolist()
    for name, model in {"edlae": od.EDLAE(), "low-rank": od.LowRankEDLAE(rank=10)}.items():
        measured = od.evaluate(model.fit(split.train), split.test, metrics=metrics).to_dict()
        named = model.with_catalogue(products(ids))
        named.save(folder / f"{name}.od", metrics=measured | {"popularity": popular}, updatable=name == "edlae")
    row = split.test.histories[[7]]
    return [ids[i] for i in row.indices[:4]]


def products(ids: list[str]) -> dict[str, list[object]]:
    """Ids such as "The Bitter Map 1 (space opera)" as products."""
    names = [one.rpartition(" (") for one in ids]
    return {
        "item": list(ids),
        "title": [title for title, _, _ in names],
        "category": [genre.rstrip(")") for _, _, genre in names],
        "image": [f"https://pictures.example/{place}.svg" for place in range(len(ids))],
        "price": [4.99 + 7 * place % 20 for place in range(len(ids))],
        "link": [f"https://shop.example/{place}" for place in range(len(ids))],
    }


def draw(route: Route) -> None:
    """A cover in a colour of its own, in place of the pictures of a shop."""
    place = int(Path(urlsplit(route.request.url).path).stem)
    hue, shift = 47 * place % 360, 20 + 13 * place % 60
    cover = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 96">'
        f'<rect width="96" height="96" fill="hsl({hue} 45% 55%)"/>'
        f'<circle cx="{shift}" cy="62" r="30" fill="hsl({hue + 40} 55% 72%)"/>'
        f'<path d="M0 96L{shift} 40L96 96Z" fill="hsl({hue + 180} 30% 38%)"/></svg>'
    )
    route.fulfill(content_type="image/svg+xml", body=cover)


def opened(browser: Browser, size: tuple[int, int], url: str, *, scheme: str = "light", scale: float = 1) -> Page:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=scale
    )  # fmt: skip
    context.route("https://pictures.example/**", draw)
    page = context.new_page()
    page.goto(url)
    page.locator("#results .item").first.wait_for()
    page.wait_for_load_state("networkidle")
    return page


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        folder = Path(name)
        chosen = quote(json.dumps(make(folder)))
        service = Service(folder, "edlae.od", "low-rank.od")
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            page = opened(browser, DESKTOP, f"{service.url}#h={chosen}")
            page.locator("#results .title").first.click()
            page.locator(".panel .link").first.click()
            page.locator(".pair li").first.wait_for()
            page.mouse.move(0, 0)
            page.screenshot(path=DOCS / "page-light.png")

            page = opened(browser, DESKTOP, f"{service.url}#h={chosen}", scheme="dark")
            page.fill("#query", "the harbr")
            page.locator("#hits li").first.wait_for()
            page.keyboard.press("ArrowDown")
            page.screenshot(path=DOCS / "page-dark.png")

            page = opened(browser, DESKTOP, service.url)
            page.screenshot(path=DOCS / "page-start.png")

            page = opened(browser, PHONE, f"{service.url}#h={chosen}", scale=1.5)
            page.screenshot(path=DOCS / "page-phone.png")

            page = opened(browser, PHONE, f"{service.url}#h={chosen}&c=low-rank", scheme="dark", scale=1.5)
            page.screenshot(path=DOCS / "page-phone-compare.png")

            page = opened(browser, DESKTOP, f"{service.url}#h={chosen}&c=low-rank")
            page.locator(".column .item").nth(2).hover()
            page.screenshot(path=DOCS / "page-compare.png")

            page = browser.new_page(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
            page.goto(f"{service.url}/docs")
            page.wait_for_load_state("networkidle")
            page.get_by_role("button", name="Try /recommend").click()
            page.locator("#recommend pre").wait_for()
            page.screenshot(path=DOCS / "page-reference.png")
        finally:
            browser.close()
            service.stop()


if __name__ == "__main__":
    main()
