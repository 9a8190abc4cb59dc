"""The page when links, titles, ids or the service are not as expected."""

import signal

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.browser import TITLES, Watched, expect, listed
from tests.fixtures.serving import Service
from tests.fixtures.titled_models import HOSTILE

pytestmark = pytest.mark.slow


def test_a_link_to_unknown_items_or_models_is_reported(visit, service, exact):
    page = visit(h=[999_999, "7"], m="gone")
    expect(page.locator("#lists-note")).to_contain_text("“gone” of this link is not served here")
    expect(page.locator("#history")).to_contain_text("999999 (not in this catalogue)")
    expect(page.locator("#lists-title")).to_have_text("Popular items")
    expect(page.locator("#lists-note")).to_contain_text("Nothing in your history is known to this model")
    known = exact.item_ids_[:2].tolist()
    page.goto("about:blank")
    page = visit(h=[*known, 999_999])
    expect(page.locator("#lists-note")).to_contain_text("For the 2 items in your history")
    expect(page.locator("#lists-note")).to_contain_text("One more is not in this catalogue and left out")
    page.goto("about:blank")
    page.goto(service.url + "#h=[[1],null,1e400&b=nonsense&k=-3&o=%7B")
    listed(page)
    expect(page.locator("#history li")).to_have_count(0)


def test_a_link_with_ids_as_text_shows_the_same_items(visit, exact, titles):
    known = exact.item_ids_[:3].tolist()
    wanted = listed(visit(h=known[:2], b=known[2:]))
    page = visit(h=[str(x) for x in known[:2]], b=[str(known[2])])
    assert listed(page) == wanted
    expect(page.locator("#history .title")).to_have_text([titles[str(x)] for x in known[:2]])
    expect(page.locator("#lists-title")).to_have_text("Recommended")


def test_titles_with_markup_stay_text(visit, titles):
    page = visit()
    assert set(HOSTILE) <= set(listed(page))
    ids = [int(item) for item, title in titles.items() if title in HOSTILE]
    page.fill("#query", "window.hacked")
    expect(page.locator("#hits li")).to_have_count(len(HOSTILE))
    page.keyboard.press("Enter")
    expect(page.locator("#history > li")).to_have_count(1)
    other = visit(h=ids[:2], b=ids[2:3], c="sparse")
    for each in (page, other):
        listed(each)
        each.locator("#results .title").first.hover()
        each.locator("#results .title").first.click()
        each.locator(".panel .similar").wait_for()
        assert each.evaluate("window.hacked") is None
        assert each.locator("main img, main script").count() == 0
    assert other.locator("#history .title").all_inner_texts() == [titles[str(i)] for i in ids[:2]]


def test_an_empty_list_is_explained(visit, exact):
    every = exact.item_ids_.tolist()
    page = visit(loads=False, h=every[:-1], b=every[-1:])
    expect(page.locator("#results")).to_contain_text("Nothing is left to recommend")
    expect(page.locator("#lists-note")).not_to_contain_text("Bars")


def test_ids_beyond_the_integers_of_javascript_stay_exact(browser, tmp_path):
    """JavaScript would merge two neighbouring integers beyond 2^53."""
    inter = od.synthetic.catalogue(300, 40, 3_000, communities=3, seed=5).interactions
    ids = 2**62 + np.arange(40)
    model = od.EDLAE().fit(od.Interactions(inter.matrix, inter.user_ids, ids))
    model.save(tmp_path / "long.od", updatable=True)
    (tmp_path / "titles.csv").write_text("item,title\n" + "".join(f"{i},Film {i - 2**62}\n" for i in ids.tolist()))
    with Service(tmp_path, "long.od", *TITLES) as running, Watched(browser) as each:
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


def test_a_long_history_shows_its_end_and_the_rest_on_request(visit):
    ids = list(range(250))
    page = visit(h=ids, b=list(range(5000, 5120)))
    names = page.locator("#history .title")
    expect(names).to_have_count(100)
    expect(names.last).to_have_text("249 (not in this catalogue)")
    expect(page.locator("#blocked > li")).to_have_count(101)
    page.get_by_role("button", name="Show 150 earlier").click()
    expect(names).to_have_count(250)
    expect(page.locator("#blocked > li")).to_have_count(101)
    page.locator("#history .remove").first.click()
    expect(names).to_have_count(249)


def test_the_message_of_a_refused_request_is_shown(browser, service):
    with Watched(browser) as each:
        page = each.open(service.url, h=list(range(6000)))
        expect(page.locator("#trouble")).to_contain_text("at most 5000 ids")


def test_an_unreachable_service_is_reported_and_found_again(browser, folder):
    with Service(folder, "exact.od", *TITLES) as running, Watched(browser) as each:
        page = each.open(running.url)
        first = listed(page)[0]
        expect(page.locator("#other-field")).to_be_hidden()  # one model: nothing to compare
        page.clock.install()
        page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 60)  # so it does not retry by itself
        running.stop(signal.SIGKILL)
        page.get_by_role("button", name=f"Add {first} to your history").click()
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        expect(page.get_by_role("alert")).to_contain_text("from before")
        expect(page.locator("#lists")).to_have_css("opacity", "0.7")  # what is shown is not the answer
        running.start()
        page.locator("#again").click()
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#lists")).to_have_css("opacity", "1")
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


def test_a_token_is_requested_and_kept_out_of_the_address(browser, folder):
    options = (*TITLES, "--token-env", "PAGE_TOKEN")
    env = {"PAGE_TOKEN": "let me in"}
    with Service(folder, "exact.od", *options, env=env) as running, Watched(browser) as each:
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


def test_a_model_without_reasons_still_recommends(browser, folder, titles):
    inter = od.synthetic.interactions(300, 40, 4_000, seed=1)
    inter.matrix.data[::50] = 2.0  # so that sums do not count users
    od.WMF(rank=4, iterations=2).fit(inter).save(folder / "wmf.od")
    with Service(folder, "wmf.od", *TITLES) as running, Watched(browser) as each:
        page = each.open(running.url, h=inter.item_ids[:2].tolist())
        assert len(listed(page)) == 20
        expect(page.locator("#lists-note")).to_contain_text("gives no reasons")
        page.locator("#results .title").first.click()
        expect(page.locator("#results .panel").first).to_contain_text("gives no reasons")
        expect(page.locator("#card")).to_contain_text("Nothing was measured")
        page.locator("#clear").click()
        expect(page.locator("#results .item").first).to_contain_text("% of all interactions")
