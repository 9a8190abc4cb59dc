"""The page at / in a real browser, against a real service: what people can do there."""

import re

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.browser import Watched, expect, listed, titles_of
from tests.fixtures.serving import Service

pytestmark = pytest.mark.slow


def test_without_a_history_the_popular_items_are_shown(visit, exact, titles):
    page = visit()
    assert listed(page) == titles_of(titles, exact, [])
    expect(page.locator("#lists-title")).to_have_text("Popular items")
    expect(page.locator("#history-empty")).to_be_visible()
    expect(page.locator("#clear")).to_be_hidden()
    expect(page.locator("#hits-box")).to_be_hidden()


def test_search_add_and_remove_change_the_list_at_once(visit, exact, popular, titles):
    page = visit()
    first, second, _ = popular
    page.fill("#query", titles[str(first)].upper())
    page.locator("#hits li", has_text=titles[str(first)]).first.click()
    expect(page.locator("#history li")).to_have_count(1)
    expect(page.locator("#lists-title")).to_have_text("Recommended")
    assert listed(page) == titles_of(titles, exact, [first])
    page.get_by_role("button", name=f"Add {titles[str(second)]} to your history").click()
    expect(page.locator("#history li")).to_have_count(2)
    expect(page.locator("#lists-note")).to_contain_text("2 items")
    assert listed(page) == titles_of(titles, exact, [first, second])
    page.get_by_role("button", name=f"Remove {titles[str(first)]}").click()
    expect(page.locator("#lists-note")).to_contain_text("one item")
    assert listed(page) == titles_of(titles, exact, [second])
    page.go_back()  # every step is in the address
    expect(page.locator("#history li")).to_have_count(2)
    page.locator("#clear").click()
    expect(page.locator("#lists-title")).to_have_text("Popular items")


def test_search_ignores_accents_and_reports_no_hits(visit):
    page = visit()
    page.fill("#query", "evasion a l'ile")
    expect(page.locator("#hits li")).to_have_count(1)
    page.fill("#query", "xqzw")
    expect(page.locator("#hits-note")).to_contain_text("No title is like")
    expect(page.locator("#hits")).to_be_hidden()
    page.fill("#query", "")
    expect(page.locator("#hits-box")).to_be_hidden()
    page.fill("#query", "the")
    expect(page.locator("#hits-note")).to_contain_text("keep typing")


def test_search_offers_the_nearest_titles_for_a_typing_error(visit):
    page = visit()
    page.fill("#query", "evasoin ille")
    expect(page.locator("#hits-note")).to_contain_text("No title has all the words of “evasoin ille”. The nearest:")
    expect(page.locator("#hits li .name").first).to_have_text("Évasion à l'île (heist)")
    page.keyboard.press("Enter")  # marks the guess, takes nothing
    expect(page.locator("#hits li[aria-selected=true]")).to_have_count(1)
    expect(page.locator("#history li")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("#history .title")).to_have_text("Évasion à l'île (heist)")


def test_an_example_becomes_the_history(visit, exact, titles):
    page = visit()
    chips = page.locator("#examples button")
    expect(chips.first).to_be_visible()
    chips.first.click()
    expect(page.locator("#lists-title")).to_have_text("Recommended")
    best = exact.recommend([[]], k=1).items[0, 0].item()
    history = [best, *exact.similar(best, k=2).items[0].tolist()]
    assert page.locator("#history .title").all_inner_texts() == [titles[str(i)] for i in history]
    assert listed(page) == titles_of(titles, exact, history)
    expect(page.locator("#lists")).to_be_focused()
    expect(chips.first).to_be_hidden()
    page.go_back()
    expect(chips.first).to_be_visible()


def test_popular_items_say_how_many_users_have_them(visit, exact):
    page = visit()
    share = 100 * exact.popularity_.max() / exact.n_users_
    expect(page.locator("#results .item").first).to_contain_text(f"{share:.2g} % of users have it")
    track, bar = (page.locator(f"#results .popularity {part}").first.bounding_box() for part in (".track", ".bar"))
    assert bar["width"] / track["width"] == pytest.approx(share / 100, abs=0.02)


def test_reasons_are_bars_with_the_exact_contributions(visit, exact, popular, titles):
    page = visit(h=popular)
    best = exact.recommend([popular], k=1).items[0, 0].item()
    assert listed(page)[0] == titles[str(best)]
    reason = exact.explain([popular], best)
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
        expected = f"rank 1 → {place}" if place != 1 else "still rank 1"
        expect(line.locator(".without")).to_contain_text(expected)
    similar = panel.locator(".similar .name").all_inner_texts()
    assert similar == [titles[str(i)] for i in exact.similar(best, k=8).items[0].tolist()]
    row.locator(".title").click()
    expect(panel).to_be_hidden()


def test_the_panel_says_what_an_item_counts_for_because_of_its_age(browser, tmp_path):
    X = od.synthetic.interactions(300, 30, 3_000, times=True, names=False, seed=0)
    settings = {"mix": 0.3, "l2": 5.0, "dropout": 0.2, "decay": 0.7, "history_decay": 0.8, "user_power": 0.0}
    model = od.NextItem(**settings).fit(X)
    model.save(tmp_path / "next.od")
    history = X.item_ids[[4, 9, 2]].tolist()
    best = model.recommend([history], k=1).items[0, 0].item()
    reason = model.explain([history], best)
    with Service(tmp_path, "next.od") as running, Watched(browser) as window:
        page = window.open(running.url, h=[*history[:2], 9_999, history[2]], o=[best])  # the unknown one takes no place
        panel = page.locator(f'#results [data-id="{best}"] .panel')
        expect(panel).to_contain_text("Older choices count for less.")
        lines = panel.locator(".bars > li")
        expect(lines).to_have_count(3)
        texts = {history[0]: "2 choices earlier: × 0.64", history[1]: "one choice earlier: × 0.8"}
        for line, item in zip(lines.all(), reason.items.tolist(), strict=True):
            assert line.locator(".aged").all_inner_texts() == [texts[item] for item in {item} & texts.keys()]
        assert window.complaints == []


def test_a_model_that_counts_by_time_takes_all_items_as_chosen_at_once(browser, tmp_path):
    X = od.synthetic.interactions(300, 30, 3_000, times=True, names=False, seed=0)
    settings = {"mix": 0.3, "l2": 5.0, "dropout": 0.2, "decay": 0.7, "user_power": 0.0}
    model = od.NextItem(**settings, history_half_life=86_400.0).fit(X)
    model.save(tmp_path / "half.od")
    history = X.item_ids[[4, 9, 2]].tolist()
    best = model.recommend([[(item, 0) for item in history]], k=1).items[0, 0].item()
    with Service(tmp_path, "half.od") as running, Watched(browser) as window:
        page = window.open(running.url, h=history, o=[best])
        assert listed(page)[0] == str(best)
        expect(page.locator("#lists-note")).to_contain_text("here all items were chosen at once")
        panel = page.locator(f'#results [data-id="{best}"] .panel')
        expect(panel.locator(".bars > li")).to_have_count(3)
        assert panel.locator(".aged").count() == 0
        assert window.complaints == []


def test_negative_contributions_are_drawn_to_the_left(visit, exact):
    W = exact.weights_.toarray()
    j, i = divmod(int(W.argmin()), len(W))
    assert W[j, i] < 0
    helper = int(W[:, i].argmax())
    ids = exact.item_ids_
    page = visit(h=[ids[j].item(), ids[helper].item()], k="100", o=[ids[i].item()])
    expect(page.locator(".panel .bar.minus").first).to_be_visible()
    minus = page.locator(".panel .bars > li").filter(has=page.locator(".bar.minus")).first
    zero, bar = minus.locator(".zero").bounding_box(), minus.locator(".bar.minus").bounding_box()
    assert bar["x"] + bar["width"] == pytest.approx(zero["x"], abs=1.5)
    expect(minus.locator(".amount").first).to_contain_text("−")


def test_a_weight_is_broken_down_beyond_co_occurrence(visit, popular):
    page = visit(h=popular[:2])
    page.locator("#results .title").first.click()
    page.locator(".panel .bars > li .link").first.click()
    pair = page.locator(".panel .pair").first
    expect(pair).to_contain_text("were it the only item to go by")
    expect(pair.locator("li").first).to_contain_text("its own weight")


def test_similar_items_can_be_added_from_a_history_item(visit, popular):
    page = visit(h=popular[:1])
    page.locator("#history .title").click()
    page.locator("#history .similar button").first.click()
    expect(page.locator("#history > li")).to_have_count(2)


def test_a_blocked_item_is_gone_until_it_is_unblocked(visit, popular):
    page = visit(h=popular[:2])
    best = listed(page)[0]
    page.get_by_role("button", name=f"Never recommend {best}").click()
    expect(page.locator("#blocked li")).to_have_count(1)
    expect(page.locator("#results .title").first).not_to_have_text(best)
    assert best not in listed(page)
    page.get_by_role("button", name=f"Unblock {best}").click()
    expect(page.locator("#results .title").first).to_have_text(best)
    expect(page.locator("#blocked-box")).to_be_hidden()


def test_two_models_are_compared_by_the_ranks_of_their_items(visit, folder, popular, titles):
    page = visit(h=popular)
    page.select_option("#other", "sparse")
    expect(page.locator(".column")).to_have_count(2)
    places = {}
    for side, name in enumerate(("exact", "sparse")):
        expected = titles_of(titles, od.load(folder / f"{name}.od"), popular, k=120)
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
    assert min(ups, downs, only) > 0
    tops = [[row.bounding_box()["y"] for row in page.locator(".column").nth(s).locator(".item").all()] for s in (0, 1)]
    assert tops[0] == pytest.approx(tops[1]), "rows of equal rank are at one height"
    shared = len(set(list(places["exact"])[:20]) & set(list(places["sparse"])[:20]))
    expect(page.locator("#lists-note")).to_contain_text(f"{shared} of 20 are in both lists")
    expect(page.locator("#card-body > .name")).to_have_count(2)
    page.locator(".column").nth(1).locator(".title").first.click()
    expect(page.locator(".column").nth(1).locator(".panel .bars > li")).to_have_count(3)
    page.select_option("#other", "")
    expect(page.locator(".column")).to_have_count(0)


def test_the_card_shows_data_settings_and_metrics_with_errors(visit, exact, service):
    page = visit()
    exact_metrics = service.client.get("/model").json()["metrics"]
    card = page.locator("#card").inner_text()
    assert f"{exact.n_users_} users, {len(exact.item_ids_)} items" in card
    assert "EDLAE" in card
    for name in exact.settings_:
        assert name in card
    assert re.search(r"ndcg@100\s+0\.\d{4} ± 0\.\d{4}", card)
    expect(page.locator(".metric svg path.error")).to_have_count(3)
    recall = exact_metrics["recall@20"]
    parts = [page.locator(f".metric .{part}").first.bounding_box()["width"] for part in ("whole", "mean", "popularity")]
    assert parts[1] / parts[0] == pytest.approx(recall["mean"], abs=0.01)
    assert parts[2] / parts[0] == pytest.approx(recall["popularity"], abs=0.01)
    assert f"popularity {recall['popularity']:.4f}" in card
    page.select_option("#model", "sparse")
    expect(page.locator("#card")).to_contain_text("SparseEDLAE")
    expect(page.locator("#card")).to_contain_text("neighbours")


def test_a_link_shows_what_was_shared(visit, popular, titles):
    page = visit(h=popular[:2], b=popular[2:])
    names = listed(page)
    page.locator("#results .title").nth(2).click()
    page.locator(".panel .similar").wait_for()
    other = visit(url=page.url)
    assert listed(other) == names
    assert other.locator("#history .title").all_inner_texts() == [titles[str(i)] for i in popular[:2]]
    assert other.locator("#blocked .name").all_inner_texts() == [titles[str(popular[2])]]
    expect(other.locator("#results .item").nth(2).locator(".panel .similar")).to_be_visible()


def test_everything_can_be_done_with_the_keyboard(visit):
    page = visit()
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
    expect(page.locator("#status")).to_contain_text("Recommended: 20 items")
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


def test_two_lists_are_merged_on_a_phone(visit, folder, popular, titles):
    page = visit(options={"viewport": {"width": 390, "height": 844}}, h=popular, c="sparse")
    ranks = {}
    for name in ("exact", "sparse"):
        order = titles_of(titles, od.load(folder / f"{name}.od"), popular, k=120)
        ranks[name] = {title: rank for rank, title in enumerate(order, 1)}
    found = listed(page)
    best = {title: min(ranks["exact"][title], ranks["sparse"].get(title, 999)) for title in ranks["exact"]}
    assert sorted(found) == sorted(title for title, rank in best.items() if rank <= 20)
    assert [best[title] for title in found] == sorted(best[title] for title in found)
    for row in page.locator("#results .item").all()[:8]:
        title = row.locator(".title").inner_text()
        expected = f"exact {ranks['exact'][title]} sparse {ranks['sparse'][title]}"
        assert " ".join(row.locator(".ranks").inner_text().split()) == expected
    page.set_viewport_size({"width": 1200, "height": 900})
    expect(page.locator(".column")).to_have_count(2)


@pytest.mark.parametrize("other", [None, "sparse"])
def test_a_phone_needs_no_sideways_scrolling(visit, popular, other):
    chosen = {"h": popular} | ({"c": other} if other else {})
    page = visit(options={"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}, **chosen)
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


def test_light_and_dark_follow_the_system_and_the_switch(visit):
    page = visit(options={"color_scheme": "dark"})
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
    assert visit(options={"color_scheme": "light"}).evaluate(paper) == light


def test_the_list_grows_on_request(visit):
    page = visit()
    assert len(listed(page)) == 20
    page.locator("#more").click()
    expect(page.locator("#results .item")).to_have_count(40)


def test_all_contributions_are_shown_on_request(visit, exact):
    history = exact.item_ids_[:30].tolist()
    best = exact.recommend([history], k=1).items[0, 0]

    def without_ranks(route):  # as for a long history
        answer = route.fetch().json()
        for part in answer["contributions"]:
            part["rank_without"] = None
        route.fulfill(json=answer)

    for ranks in (True, False):
        page = visit(before=lambda page, ranks=ranks: ranks or page.route("**/explain", without_ranks), h=history)
        page.locator("#results .title").first.click()
        panel = page.locator("#results .panel").first
        bars = panel.locator(".bars > li")
        expect(bars).to_have_count(13)
        panel.get_by_role("button", name="18 others together").click()
        expect(bars).to_have_count(30)
        expect(bars.nth(12).locator("button")).to_be_focused()
        shown = sorted(float(text.replace("−", "-")) for text in panel.locator(".amount").all_text_contents())
        np.testing.assert_allclose(shown, np.sort(exact.explain(history, best).contributions), atol=6e-4)
        assert ("too long for ranks" in panel.text_content()) is not ranks
        assert ("without it" in panel.text_content()) is ranks
