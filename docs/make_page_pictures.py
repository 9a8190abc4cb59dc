"""Draws docs/page-*.png: the page of ``offdiag serve`` with two models of a synthetic catalogue, in Chromium.

Run from the root of the tree: python -m docs.make_page_pictures
"""

import json
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

import offdiag as od
from tests.fixtures.serving import Service

DOCS = Path(__file__).parent
DESKTOP, PHONE = (1180, 860), (390, 844)


def make(folder: Path) -> list[str]:
    """Two models and their titles; returns a history that both know well."""
    inter = od.synthetic.catalogue(6000, 800, 150_000, communities=10, seed=4).interactions
    split = od.split.strong(inter, held_out=0.1, seed=0)
    for name, model in {"edlae": od.EDLAE(), "low-rank": od.LowRankEDLAE(rank=10)}.items():
        measured = od.evaluate(model.fit(split.train), split.test, metrics=["recall@20", "recall@50", "ndcg@100"])
        model.save(folder / f"{name}.od", metrics=measured, updatable=name == "edlae")
    ids = split.train.item_ids.tolist()
    (folder / "titles.csv").write_text("item,title\n" + "".join(f'{i},"{i}"\n' for i in ids), encoding="utf-8")
    row = split.test.histories[[7]]
    return [ids[i] for i in row.indices[:4]]


def opened(browser: Browser, size: tuple[int, int], url: str, *, scheme: str = "light", scale: float = 1) -> Page:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=scale
    )  # fmt: skip
    page = context.new_page()
    page.goto(url)
    page.locator("#results .item").first.wait_for()
    return page


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        folder = Path(name)
        chosen = quote(json.dumps(make(folder)))
        service = Service(folder, "edlae.od", "low-rank.od", "--titles", "titles.csv")
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            page = opened(browser, DESKTOP, f"{service.url}#h={chosen}")
            page.locator("#results .title").first.click()
            page.locator(".panel .link").first.click()
            page.locator(".pair li").first.wait_for()
            page.mouse.move(0, 0)
            page.screenshot(path=DOCS / "page-light.png")

            page = opened(browser, DESKTOP, f"{service.url}#h={chosen}", scheme="dark")
            page.fill("#query", "the harb")
            page.locator("#hits li").first.wait_for()
            page.keyboard.press("ArrowDown")
            page.screenshot(path=DOCS / "page-dark.png")

            page = opened(browser, PHONE, f"{service.url}#h={chosen}", scale=1.5)
            page.locator("#results .title").first.click()
            page.locator(".panel .bars").wait_for()
            page.locator("#lists").scroll_into_view_if_needed()
            page.evaluate("document.querySelector('#lists').scrollIntoView()")
            page.screenshot(path=DOCS / "page-phone.png")

            page = opened(browser, DESKTOP, f"{service.url}#h={chosen}&c=low-rank")
            page.locator(".column .item").nth(2).hover()
            page.screenshot(path=DOCS / "page-compare.png")
        finally:
            browser.close()
            service.stop()


if __name__ == "__main__":
    main()
