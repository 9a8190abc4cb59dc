"""The columns of a catalogue on the page: pictures, categories, prices and links, only if they are safe."""

import pytest

import offdiag as od
from tests.fixtures.browser import Watched, expect, listed
from tests.fixtures.serving import Service
from tests.fixtures.titled_models import HOSTILE

pytestmark = pytest.mark.slow
N = 30
DOT = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A service whose model has a catalogue; items 2 to 5 have hostile cells."""
    folder = tmp_path_factory.mktemp("shop")
    inter = od.synthetic.interactions(300, N, 4_000, seed=1)
    products = {
        "id": list(range(N)),
        "title": [f"Product {i}" for i in range(N)],
        "category": ["Garden" if i % 2 else HOSTILE[0] for i in range(N)],
        "image": [f"https://pictures.example/{i}.png" for i in range(N)],
        "price": [9.5 + i for i in range(N)],
        "link": [f"https://shop.example/{i}" for i in range(N)],
    }
    products["link"][2:4] = ["javascript:window.hacked='link'", "/relative"]
    products["image"][2:6] = [
        "javascript:window.hacked='image'",
        "data:image/png;base64,AAAA",
        "http://plain.example/a",
        "",
    ]
    numbered = od.Interactions(inter.matrix, inter.user_ids, range(N))
    model = od.EASE(l2=10.0).fit(numbered)
    model.with_catalogue(products).save(folder / "shop.od")
    model.save(folder / "bare.od")
    with Service(folder, "shop.od") as running:
        yield running


def pictures(page, missing=None):
    """Answers for the host of the pictures; one of them may be missing."""
    found = {"content_type": "image/svg+xml", "body": DOT}
    page.route("https://pictures.example/**", lambda route: route.fulfill(**found))
    page.route(f"https://pictures.example/{missing}.png", lambda route: route.abort())


@pytest.mark.parametrize("size", [(1200, 900), (390, 844)], ids=["desktop", "phone"])
def test_rows_show_picture_category_price_and_link(shop, browser, size):
    with Watched(browser, viewport={"width": size[0], "height": size[1]}) as each:
        pictures(each.page)
        page = each.open(shop.url, h=[0], k="29")
        assert len(listed(page)) == N - 1
        row = page.locator("#results li[data-id='9']")
        row.scroll_into_view_if_needed()
        image = row.locator("img")
        expect(image).to_have_js_property("naturalWidth", 1)
        box = image.bounding_box()
        assert (box["width"], box["height"]) == (48, 48)
        assert image.get_attribute("alt") == "Picture of Product 9"
        assert image.get_attribute("loading") == "lazy"
        words = row.locator(".facts").inner_text().split()
        assert words == ["Garden", "18.50", *(["open"] if size[0] > 620 else []), "↗"]
        link = row.locator(".facts a")
        assert link.get_attribute("href") == "https://shop.example/9"
        assert set(link.get_attribute("rel").split()) == {"noopener", "noreferrer"}
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert each.complaints == []


def test_a_missing_picture_leaves_an_empty_place(shop, browser):
    with Watched(browser) as each:
        pictures(each.page, missing=7)
        page = each.open(shop.url, h=[0], k="29")
        row = page.locator("#results li[data-id='7']")
        row.scroll_into_view_if_needed()
        expect(row.locator("span.picture")).to_be_visible()
        assert row.locator("img").count() == 0
        assert row.locator("span.picture").bounding_box()["width"] == 48


def test_unsafe_addresses_and_markup_are_not_used(shop, browser):
    with Watched(browser) as each:
        pictures(each.page)
        page = each.open(shop.url, h=[0], k="29")
        listed(page)
        for item in (2, 3, 4, 5):
            row = page.locator(f"#results li[data-id='{item}']")
            assert row.locator("img").count() == 0
            assert row.locator("a").count() == (item > 3)
        expect(page.locator("#results li[data-id='4'] .facts")).to_contain_text(HOSTILE[0])
        assert page.evaluate("window.hacked") is None
        assert each.complaints == []
        assert all(".example" not in host or host == "pictures.example" for host in each.hosts)


def test_pictures_of_other_hosts_are_allowed_only_with_a_catalogue(shop):
    policy = shop.client.get("/").headers["content-security-policy"]
    assert "img-src 'self' https: data:" in policy
    with Service(shop.folder, "bare.od") as bare:
        policy = bare.client.get("/").headers["content-security-policy"]
        assert "img-src 'self' data:" in policy
        assert "https:" not in policy


def test_every_answer_names_the_columns_of_the_catalogue(shop):
    wanted = {"id": 9, "title": "Product 9", "category": "Garden", "image": "https://pictures.example/9.png"}
    wanted |= {"price": 18.5, "link": "https://shop.example/9"}
    assert shop.client.get("/model").json()["columns"] == ["title", "category", "image", "price", "link"]
    body = {"history": [0], "k": 29, "reasons": 1}
    lists = [shop.post("/recommend", **body).json()["items"], shop.post("/similar", item=0, k=29).json()["items"]]
    lists += [shop.post("/batch", histories=[[0]], k=29).json()["answers"][0]["items"]]
    lists += [shop.client.get("/items", params={"limit": N}).json()["items"]]
    lists += [shop.post("/explain", history=[9], item=3).json()["contributions"]]
    lists += [[shop.post("/explain", history=[0], item=9).json()["item"]]]
    for items in lists:
        (found,) = [item for item in items if item["id"] == 9]
        assert wanted.items() <= found.items()
    (bare,) = [item for item in lists[0] if item["id"] == 2]
    assert not {"image", "link"} & set(bare)
    assert lists[0][0]["reasons"][0]["price"] == 9.5
