"""The page at / in a real browser, against a real service: what people can do there, and what may go wrong."""

import json
import re
import shutil
import signal
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.serving import Service
from tests.fixtures.titled_models import HOSTILE, make_titled_models

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the page is tested with playwright: pip install playwright"
)
pytest.importorskip("fastapi", reason="the service needs offdiag[serve]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"),
]
TITLES = ("--titles", "titles.csv")
expect = sync_api.expect
expect.set_options(timeout=20_000)  # a busy machine is not a broken page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def titles(folder):
    return make_titled_models(folder)


@pytest.fixture(scope="module")
def service(folder, titles):
    running = Service(folder, "exact.od", "sparse.od", *TITLES)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Watched:
    """A page, and everything it asked for and complained about."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.hosts, self.complaints = set(), []
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda told: told.type in ("error", "warning") and self.complaints.append(told.text))

    def open(self, url, **chosen):
        values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in chosen.items()}
        self.page.goto(url + ("#" if values else "") + "&".join(f"{name}={quote(v)}" for name, v in values.items()))
        return self.page


@pytest.fixture
def watched(browser, service):
    made = []

    def make(**options):
        made.append(Watched(browser, **options))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
        assert each.hosts <= {urlsplit(service.url).netloc}, "the page asked another host"
        assert each.complaints == []
        assert each.page.is_closed()


def listed(page):
    """Titles of the list, once it has loaded."""
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")
    page.locator("#results .item").first.wait_for()
    return page.locator("#results .item .title").all_inner_texts()


def ids_of(titles, model, history, k=20, **options):
    fitted = od.load(model)
    (found,) = fitted.recommend([history], k=k, **options)
    return [titles[str(item)] for item, _ in found]


def popular(folder, n):
    fitted = od.load(folder / "exact.od")
    return fitted.recommend([[]], k=n).items[0].tolist()


def test_without_a_history_the_popular_items_stand_there(watched, service, folder, titles):
    page = watched().open(service.url)
    assert listed(page) == ids_of(titles, folder / "exact.od", [])
    expect(page.locator("#lists-title")).to_have_text("Popular items")
    expect(page.locator("#history-empty")).to_be_visible()
    expect(page.locator("#clear")).to_be_hidden()
    expect(page.locator("#hits-box")).to_be_hidden()


def test_search_add_and_remove_change_the_list_at_once(watched, service, folder, titles):
    page = watched().open(service.url)
    listed(page)
    first, second = popular(folder, 2)
    page.fill("#query", titles[str(first)].upper())
    page.locator("#hits li", has_text=titles[str(first)]).first.click()
    expect(page.locator("#history li")).to_have_count(1)
    expect(page.locator("#lists-title")).to_have_text("Recommended")
    assert listed(page) == ids_of(titles, folder / "exact.od", [first])
    page.get_by_role("button", name=f"Add {titles[str(second)]} to your history").click()
    expect(page.locator("#history li")).to_have_count(2)
    expect(page.locator("#lists-note")).to_contain_text("2 items")
    assert listed(page) == ids_of(titles, folder / "exact.od", [first, second])
    page.get_by_role("button", name=f"Remove {titles[str(first)]}").click()
    expect(page.locator("#lists-note")).to_contain_text("one item")
    assert listed(page) == ids_of(titles, folder / "exact.od", [second])
    page.go_back()  # every step is in the address
    expect(page.locator("#history li")).to_have_count(2)
    page.locator("#clear").click()
    expect(page.locator("#lists-title")).to_have_text("Popular items")


def test_accents_do_not_matter_and_no_hits_are_told(watched, service):
    page = watched().open(service.url)
    page.fill("#query", "evasion a l'ile")
    expect(page.locator("#hits li")).to_have_count(1)
    page.fill("#query", "no such title anywhere")
    expect(page.locator("#hits-note")).to_contain_text("No title has all the words")
    expect(page.locator("#hits")).to_be_hidden()
    page.fill("#query", "")
    expect(page.locator("#hits-box")).to_be_hidden()
    page.fill("#query", "the")
    expect(page.locator("#hits-note")).to_contain_text("keep typing")


def test_reasons_are_bars_with_the_exact_contributions(watched, service, folder, titles):
    history = popular(folder, 3)
    page = watched().open(service.url, h=history)
    names = listed(page)
    model = od.load(folder / "exact.od")
    best = model.recommend([history], k=1).items[0, 0].item()
    assert names[0] == titles[str(best)]
    reason = model.explain([history], best)
    row = page.locator("#results .item").first
    assert row.locator(".reasons .name").all_inner_texts() == [titles[str(i)] for i in reason.items.tolist()]
    row.locator(".title").click()
    panel = row.locator(".panel")
    expect(panel).to_contain_text("Rank 1")
    lines = panel.locator(".bars > li")
    expect(lines).to_have_count(3)
    widths = [line.locator(".bar").first.bounding_box()["width"] for line in lines.all()]
    assert widths[0] == max(widths)
    for line, item, part, place in zip(
        lines.all(), reason.items.tolist(), reason.contributions, reason.rank_without.tolist(), strict=True
    ):
        expect(line.locator(".name").first).to_have_text(titles[str(item)])
        shown = line.locator(".amount").first.inner_text().replace("−", "-")
        assert float(shown) == pytest.approx(part, abs=0.006 * abs(reason.contributions).max())
        told = f"rank 1 → {place}" if place != 1 else "still rank 1"
        expect(line.locator(".without")).to_contain_text(told)
    similar = panel.locator(".similar .name").all_inner_texts()
    assert similar == [titles[str(i)] for i in model.similar(best, k=8).items[0].tolist()]
    row.locator(".title").click()
    expect(panel).to_be_hidden()


def test_what_speaks_against_an_item_is_drawn_to_the_other_side(watched, service, folder):
    model = od.load(folder / "exact.od")
    W = model.weights_.toarray()
    j, i = divmod(int(W.argmin()), len(W))
    assert W[j, i] < 0
    helper = int(W[:, i].argmax())
    ids = model.item_ids_
    page = watched().open(service.url, h=[ids[j].item(), ids[helper].item()], k="100", o=[ids[i].item()])
    expect(page.locator(".panel .bar.minus").first).to_be_visible()
    minus = page.locator(".panel .bars > li").filter(has=page.locator(".bar.minus")).first
    zero, bar = minus.locator(".zero").bounding_box(), minus.locator(".bar.minus").bounding_box()
    assert bar["x"] + bar["width"] == pytest.approx(zero["x"], abs=1.5)
    expect(minus.locator(".amount").first).to_contain_text("−")


def test_a_weight_is_taken_apart_beyond_co_occurrence(watched, service, folder, titles):
    history = popular(folder, 2)
    page = watched().open(service.url, h=history)
    listed(page)
    page.locator("#results .title").first.click()
    page.locator(".panel .bars > li .link").first.click()
    pair = page.locator(".panel .pair").first
    expect(pair).to_contain_text("were it the only item to go by")
    expect(pair.locator("li").first).to_contain_text("its own weight")


def test_similar_items_can_be_added_from_a_history_item(watched, service, folder, titles):
    (first,) = popular(folder, 1)
    page = watched().open(service.url, h=[first])
    listed(page)
    page.locator("#history .title").click()
    page.locator("#history .similar button").first.click()
    expect(page.locator("#history > li")).to_have_count(2)


def test_a_blocked_item_is_gone_until_it_is_unblocked(watched, service, folder, titles):
    history = popular(folder, 2)
    page = watched().open(service.url, h=history)
    best = listed(page)[0]
    page.get_by_role("button", name=f"Never recommend {best}").click()
    expect(page.locator("#blocked li")).to_have_count(1)
    expect(page.locator("#results .title").first).not_to_have_text(best)
    assert best not in listed(page)
    page.get_by_role("button", name=f"Unblock {best}").click()
    expect(page.locator("#results .title").first).to_have_text(best)
    expect(page.locator("#blocked-box")).to_be_hidden()


def test_two_models_are_compared_with_what_each_ranks_differently(watched, service, folder, titles):
    history = popular(folder, 3)
    page = watched().open(service.url, h=history)
    listed(page)
    page.select_option("#other", "sparse")
    expect(page.locator(".column")).to_have_count(2)
    places = {}
    for side, name in enumerate(("exact", "sparse")):
        expected = ids_of(titles, folder / f"{name}.od", history, k=120)
        places[name] = {title: rank for rank, title in enumerate(expected, 1)}
        assert page.locator(".column").nth(side).locator(".title").all_inner_texts() == expected[:20]
    ups = downs = only = 0
    for row in page.locator(".column").first.locator(".item").all():
        title, text = row.locator(".title").inner_text(), row.inner_text()
        here, there = places["exact"][title], places["sparse"][title]
        if there > 20:
            assert f"only here; rank {there} there" in text
            only += 1
        elif there != here:
            assert f"{'▲' if there > here else '▼'} {abs(there - here)}" in text
            ups, downs = ups + (there > here), downs + (there < here)
        else:
            assert "=" in text
    assert ups
    assert downs
    assert only
    shared = len(set(list(places["exact"])[:20]) & set(list(places["sparse"])[:20]))
    expect(page.locator("#lists-note")).to_contain_text(f"{shared} of 20 are in both lists")
    expect(page.locator("#card-body > .name")).to_have_count(2)
    page.locator(".column").nth(1).locator(".title").first.click()
    expect(page.locator(".column").nth(1).locator(".panel .bars > li")).to_have_count(3)
    page.select_option("#other", "")
    expect(page.locator(".column")).to_have_count(0)


def test_the_card_tells_data_settings_and_metrics_with_error_bars(watched, service, folder):
    page = watched().open(service.url)
    listed(page)
    model = od.load(folder / "exact.od")
    told = page.locator("#card").inner_text()
    assert f"{model.n_users_} users, {len(model.item_ids_)} items" in told
    assert "EDLAE" in told
    for name in model.settings_:
        assert name in told
    assert re.search(r"ndcg@100\s+0\.\d{4} ± 0\.\d{4}", told)
    expect(page.locator(".metric svg path.error")).to_have_count(3)
    page.select_option("#model", "sparse")
    expect(page.locator("#card")).to_contain_text("SparseEDLAE")
    expect(page.locator("#card")).to_contain_text("neighbours")


def test_a_link_shows_what_was_shared(watched, service, folder, titles):
    history = popular(folder, 3)
    page = watched().open(service.url, h=history[:2], b=[history[2]])
    names = listed(page)
    page.locator("#results .title").nth(2).click()
    page.locator(".panel .similar").wait_for()
    other = watched()
    other.page.goto(page.url)
    assert listed(other.page) == names
    assert other.page.locator("#history .title").all_inner_texts() == [titles[str(i)] for i in history[:2]]
    assert other.page.locator("#blocked .name").all_inner_texts() == [titles[str(history[2])]]
    expect(other.page.locator("#results .item").nth(2).locator(".panel .similar")).to_be_visible()


def test_a_link_to_what_is_not_here_is_told(watched, service, folder):
    page = watched().open(service.url, h=[999_999, "7"], m="gone")
    listed(page)
    expect(page.locator("#lists-note")).to_contain_text("“gone” of this link is not served here")
    expect(page.locator("#history")).to_contain_text("999999 (not in this catalogue)")
    expect(page.locator("#lists-title")).to_have_text("Popular items")
    expect(page.locator("#lists-note")).to_contain_text("Nothing in your history is known to this model")
    known = od.load(folder / "exact.od").item_ids_[:2].tolist()
    page.goto("about:blank")
    page = watched().open(service.url, h=[*known, 999_999])
    listed(page)
    expect(page.locator("#lists-note")).to_contain_text("For the 2 items in your history")
    expect(page.locator("#lists-note")).to_contain_text("One more is not in this catalogue and left out")
    page.goto("about:blank")
    page.goto(service.url + "#h=[[1],null,1e400&b=nonsense&k=-3&o=%7B")
    listed(page)
    expect(page.locator("#history li")).to_have_count(0)


def test_a_link_with_ids_as_text_shows_the_same_items(watched, service, folder, titles):
    known = od.load(folder / "exact.od").item_ids_[:3].tolist()
    wanted = listed(watched().open(service.url, h=known[:2], b=known[2:]))
    page = watched().open(service.url, h=[str(x) for x in known[:2]], b=[str(known[2])])
    assert listed(page) == wanted
    expect(page.locator("#history .title")).to_have_text([titles[str(x)] for x in known[:2]])
    expect(page.locator("#lists-title")).to_have_text("Recommended")


def test_everything_can_be_done_with_the_keyboard(watched, service, folder, titles):
    page = watched().open(service.url)
    listed(page)
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type("the")
    expect(page.locator("#query")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    marked = page.locator("#hits li[aria-selected=true]")
    expect(page.locator("#query")).to_have_attribute("aria-activedescendant", marked.get_attribute("id"))
    chosen = marked.locator(".name").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("#history .title")).to_have_text(chosen)
    expect(page.locator("#query")).to_be_focused()
    expect(page.locator("#said")).to_contain_text("Recommended: 20 items")
    page.keyboard.type("zzz")
    page.keyboard.press("Escape")
    expect(page.locator("#hits-box")).to_be_hidden()

    def tab_to(selector, most=40):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"the tab key does not reach {selector}")

    tab_to("#results .title")
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring != "none"
    page.keyboard.press("Enter")
    page.locator(".panel .bars").wait_for()
    expect(page.locator("#results .title").first).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    tab_to("#results .icon.add", 3)
    page.keyboard.press("Enter")
    expect(page.locator("#history > li")).to_have_count(2)
    expect(page.locator("#lists-note")).to_contain_text("2 items")
    assert page.evaluate("document.activeElement.matches('#results .item:first-child .icon.add')")
    tab_to("#results .icon.block", 3)
    page.keyboard.press("Enter")
    expect(page.locator("#blocked li")).to_have_count(1)
    page.locator("#history .remove").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#history > li")).to_have_count(1)
    expect(page.locator("#history .remove")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#history > li")).to_have_count(0)
    expect(page.locator("#you")).to_be_focused()


@pytest.mark.parametrize("other", [None, "sparse"])
def test_a_phone_needs_no_sideways_scrolling(watched, service, folder, other):
    chosen = {"h": popular(folder, 3)} | ({"c": other} if other else {})
    page = watched(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True).open(service.url, **chosen)
    listed(page)
    page.locator("#results .title").nth(1).tap()
    page.locator(".panel .similar").wait_for()
    page.locator(".panel .link").first.tap()
    page.locator(".panel .pair p").first.wait_for()
    page.locator("#query").fill("the")
    page.locator("#hits li").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for button in page.locator("#results .icon:visible").all()[:6]:
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 36  # large enough for a finger
    page.locator("#hits li").filter(has_not_text="in your history").first.tap()
    expect(page.locator("#history > li")).to_have_count(4)


def test_light_and_dark_follow_the_system_and_the_switch(watched, service):
    page = watched(color_scheme="dark").open(service.url)
    listed(page)
    paper = "getComputedStyle(document.querySelector('#lists')).backgroundColor"
    dark = page.evaluate(paper)
    button = page.locator("#theme")
    button.click()
    expect(button).to_have_text("Theme: light")
    light = page.evaluate(paper)
    assert light == "rgb(255, 255, 255)" != dark
    page.reload()
    expect(button).to_have_text("Theme: light")
    assert page.evaluate(paper) == light
    button.click()
    expect(button).to_have_text("Theme: dark")
    assert page.evaluate(paper) == dark
    assert watched(color_scheme="light").open(service.url).evaluate(paper) == light


def test_titles_with_markup_stay_text(watched, service, folder, titles):
    page = watched().open(service.url)
    assert set(HOSTILE) <= set(listed(page))
    ids = [int(item) for item, title in titles.items() if title in HOSTILE]
    page.fill("#query", "window.hacked")
    expect(page.locator("#hits li")).to_have_count(len(HOSTILE))
    page.keyboard.press("Enter")
    expect(page.locator("#history > li")).to_have_count(1)
    other = watched().open(service.url, h=ids[:2], b=ids[2:3], c="sparse")
    for each in (page, other):
        listed(each)
        each.locator("#results .title").first.hover()
        each.locator("#results .title").first.click()
        each.locator(".panel .similar").wait_for()
        assert each.evaluate("window.hacked") is None
        assert each.locator("main img, main script").count() == 0
    assert other.locator("#history .title").all_inner_texts() == [titles[str(i)] for i in ids[:2]]


def test_more_of_the_list_comes_when_asked(watched, service):
    page = watched().open(service.url)
    assert len(listed(page)) == 20
    page.locator("#more").click()
    expect(page.locator("#results .item")).to_have_count(40)


def test_nothing_left_is_told(watched, service, folder):
    every = od.load(folder / "exact.od").item_ids_.tolist()
    page = watched().open(service.url, h=every[:-1], b=every[-1:])
    expect(page.locator("#results")).to_contain_text("Nothing is left to recommend")
    expect(page.locator("#lists-note")).not_to_contain_text("Bars")


def test_ids_too_long_for_a_browser_arrive_whole(browser, tmp_path):
    """JavaScript would merge two neighbouring integers beyond 2^53."""
    inter = od.synthetic.catalogue(300, 40, 3_000, communities=3, seed=5).interactions
    ids = 2**62 + np.arange(40)
    model = od.EDLAE().fit(od.Interactions(inter.matrix, inter.user_ids, ids))
    model.save(tmp_path / "long.od", updatable=True)
    (tmp_path / "titles.csv").write_text("item,title\n" + "".join(f"{i},Film {i - 2**62}\n" for i in ids.tolist()))
    running = Service(tmp_path, "long.od", *TITLES)
    try:
        each = Watched(browser)
        page = each.open(running.url, h=[str(ids[7])])
        expect(page.locator("#history .title")).to_have_text("Film 7")
        page.get_by_role("button", name="Add Film 8 to your history").click()
        expect(page.locator("#history .title")).to_have_count(2)
        wanted = [f"Film {i - 2**62}" for i in model.recommend([ids[7:9].tolist()], k=20).items[0].tolist()]
        expect(page.locator("#results .title").first).to_have_text(wanted[0])
        assert listed(page) == wanted
        page.locator("#results .title").first.click()
        page.locator(".panel .similar").wait_for()
        expect(page.locator("#results .panel").first).to_contain_text("Film 8")
        page.reload()
        expect(page.locator("#history .title").last).to_have_text("Film 8")
        assert each.complaints == []
        each.context.close()
    finally:
        running.stop()


def test_a_long_history_shows_its_end_and_the_rest_when_asked(watched, service):
    ids = list(range(250))
    page = watched().open(service.url, h=ids, b=list(range(5000, 5120)))
    names = page.locator("#history .title")
    expect(names).to_have_count(100)
    expect(names.last).to_have_text("249 (not in this catalogue)")
    expect(page.locator("#blocked > li")).to_have_count(101)
    page.get_by_role("button", name="Show 150 earlier").click()
    expect(names).to_have_count(250)
    expect(page.locator("#blocked > li")).to_have_count(101)
    page.locator("#history .remove").first.click()
    expect(names).to_have_count(249)


def test_all_contributions_are_shown_when_asked_and_missing_ranks_are_told(watched, service, folder):
    model = od.load(folder / "exact.od")
    history = model.item_ids_[:30].tolist()
    best = model.recommend([history], k=1).items[0, 0]

    def as_of_a_long_history(route):
        said = route.fetch().json()
        for part in said["contributions"]:
            part["rank_without"] = None
        route.fulfill(json=said)

    for ranks in (True, False):
        each = watched()
        if not ranks:
            each.page.route("**/explain", as_of_a_long_history)
        page = each.open(service.url, h=history)
        page.locator("#results .title").first.click()
        panel = page.locator("#results .panel").first
        bars = panel.locator(".bars > li")
        expect(bars).to_have_count(13)
        panel.get_by_role("button", name="18 others together").click()
        expect(bars).to_have_count(30)
        expect(bars.nth(12).locator("button")).to_be_focused()
        shown = sorted(float(text.replace("−", "-")) for text in panel.locator(".amount").all_text_contents())
        np.testing.assert_allclose(shown, np.sort(model.explain(history, best).contributions), atol=6e-4)
        assert ("too long for ranks" in panel.text_content()) is not ranks
        assert ("without it" in panel.text_content()) is ranks


def test_a_refused_request_shows_the_words_of_the_service(browser, service, folder):
    each = Watched(browser)
    page = each.open(service.url, h=list(range(6000)))
    expect(page.locator("#trouble")).to_contain_text("at most 5000 ids")
    each.context.close()


def test_a_service_that_goes_away_is_told_and_found_again(browser, folder, titles):
    running = Service(folder, "exact.od", *TITLES)
    each = Watched(browser)
    try:
        page = each.open(running.url)
        first = listed(page)[0]
        expect(page.locator("#other-field")).to_be_hidden()  # one model: nothing to compare
        page.clock.install()
        page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 60)  # so it does not retry by itself
        running.stop(signal.SIGKILL)
        page.get_by_role("button", name=f"Add {first} to your history").click()
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        running.start()
        page.locator("#again").click()
        expect(page.get_by_role("alert")).to_be_hidden()
        assert first not in listed(page)
        page.clock.resume()
        running.stop(signal.SIGKILL)
        page.locator("#results .title").first.click()
        expect(page.locator("#trouble")).to_be_visible()
        running.start()
        expect(page.locator("#trouble")).to_be_hidden()  # by itself
        running.stop(signal.SIGKILL)
        page.locator("#query").fill("the")
        expect(page.locator("#trouble")).to_be_visible()
        running.start()
        expect(page.locator("#hits li").first).to_be_visible()  # requests made meanwhile are repeated
    finally:
        each.context.close()
        running.stop()


def test_a_token_is_asked_for_and_kept_out_of_the_address(browser, folder, titles):
    running = Service(folder, "exact.od", *TITLES, "--token-env", "PAGE_TOKEN", env={"PAGE_TOKEN": "let me in"})
    each = Watched(browser)
    try:
        page = each.open(running.url)
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-form")).to_contain_text("not accepted")
        page.fill("#token", "let me in")
        page.keyboard.press("Enter")
        assert len(listed(page)) == 20
        expect(page.locator("#token-form")).to_be_hidden()
        assert "let" not in page.url
        page.reload()
        assert len(listed(page)) == 20
    finally:
        each.context.close()
        running.stop()


def test_a_model_without_reasons_still_recommends(browser, folder, titles):
    inter = od.synthetic.interactions(300, 40, 4_000, seed=1)
    od.WMF(rank=4, iterations=2).fit(inter).save(folder / "wmf.od")
    running = Service(folder, "wmf.od", *TITLES)
    each = Watched(browser)
    try:
        page = each.open(running.url, h=inter.item_ids[:2].tolist())
        assert len(listed(page)) == 20
        expect(page.locator("#lists-note")).to_contain_text("gives no reasons")
        page.locator("#results .title").first.click()
        expect(page.locator("#results .panel").first).to_contain_text("gives no reasons")
        expect(page.locator("#card")).to_contain_text("Nothing was measured")
    finally:
        each.context.close()
        running.stop()
