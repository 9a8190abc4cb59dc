"""Cards of notebooks: every object has one, and whatever text is in the data stays text."""

import re

import numpy as np
import pytest

import offdiag as od
from offdiag import notebook

EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def inter():
    users = ["ann", EVIL, "eve & co", *(f"user {n}" for n in range(57))]
    drawn = od.synthetic.interactions(60, 20, 500, seed=0)
    return od.Interactions(drawn.matrix, users, [EVIL, *(f"item {n}" for n in range(19))])


@pytest.fixture(scope="module")
def shown(inter):
    model = od.EASE(l2=10.0).fit(inter)
    split = od.split.strong(inter, held_out=10)
    result = od.evaluate(od.EASE(l2=10.0).fit(split.train), split.test, ["ndcg@5", "coverage@5"])
    tuned = od.tune(od.EASE, split, trials=2, fixed={"user_power": 0.0}) if has_optuna() else od.EASE()
    certificate = od.EASE(l2=10.0).fit(inter).forget(inter.select_users(ids=["ann"]), prove=True)
    lists = model.recommend(inter, k=3, reasons=True)
    why = model.explain(inter.item_ids[:3].tolist(), EVIL)
    objects = (
        model,
        od.EASE(),
        inter,
        split,
        split.test,
        result,
        result.compare(result),
        tuned,
        certificate,
        lists,
        why,
        od.Reranked(model, diversity=0.2, at_most=2, categories={EVIL: EVIL}),
    )
    return [one._repr_html_() for one in objects]


def has_optuna():
    try:
        import optuna  # noqa: F401
    except ImportError:
        return False
    return True


def test_every_object_has_a_card_without_markup_from_the_data(shown):
    for html in shown:
        assert html.count('<div class="offdiag-card">') == 1
        assert "<script" not in html
        opened, closed = (re.findall(p, html) for p in (r"<(div|table|tr|dl|style)\b", r"</(div|table|tr|dl|style)>"))
        assert sorted(opened) == sorted(closed)
        assert not re.search(r"(?:src|href)=|url\(|@import", html), "self-contained"
    assert sum("&lt;script&gt;" in html for html in shown) >= 3, "ids are shown, escaped"


def test_a_card_of_lists_shows_the_first_rows_and_counts_the_rest(inter):
    lists = od.EASE(l2=10.0).fit(inter).recommend(inter, k=3)
    html = lists._repr_html_()
    assert html.count("<tr>") == notebook.ROWS + 1
    assert f"{int(lists.lengths.sum()) - notebook.ROWS:,} more rows" in html


def test_a_model_says_what_it_learned_from(inter):
    model = od.EASE(l2=10.0)
    assert "nothing yet" in model._repr_html_()
    assert "learned" not in repr(model)
    model.fit(inter)
    total = f"60 users x 20 items, values summing to {int(inter.matrix.sum())}"
    assert total in model._repr_html_()
    assert repr(model).endswith(f", learned from {total}")
    assert "chosen from the data" in model._repr_html_(), "user_power was left to the library"


def test_a_model_shows_its_columns_and_its_catalogue():
    log = {"who": ["ann", "ann", "bob"], "sku": [7, 8, 9]}
    model = od.EASE(l2=1.0).fit(log, user="who", item="sku")
    assert "catalogue" not in model._repr_html_()
    html = model.with_catalogue({"id": [7, 8], "title": ["Alien", "Brazil"]})._repr_html_()
    assert "user &#39;who&#39;, item &#39;sku&#39;" in html
    assert "title of 2 of 3 items" in html


def test_cells_are_short_and_gaps_are_empty():
    values = [None, 0.123456, np.float32(2), 7, True, "x"]
    assert [notebook.cell(x) for x in values] == ["", "0.1235", "2", "7", "True", "x"]


def test_this_is_not_a_notebook():
    assert not notebook.is_running()


def test_a_card_of_products_shows_pictures_and_links():
    shop = {
        "item": [0, 1, 2], "title": ["Alien", "<i>Brazil", "Cube"], "price": [9.5, None, 2],
        "img": ["a.png", None, None], "url": ["https://shop.example/?a=1&b=2", None, "javascript:alert(1)"],
    }  # fmt: skip
    model = od.EASE(l2=1.0).fit(np.array([[1, 1, 0], [1, 0, 1]])).with_catalogue(shop)
    for shown in (model.recommend([[1], [2]], k=2), model.catalogue_):
        html = shown._repr_html_()
        assert '<img src="a.png" alt=""' in html
        assert '<a href="https://shop.example/?a=1&amp;b=2" rel="noopener noreferrer" target="_blank">Alien</a>' in html
        assert "9.5" in html
        assert "&lt;i&gt;Brazil" in html
        assert '="javascript' not in html, "it may be named in a note"
        assert "<th>link</th>" not in html, "the address itself is not shown"
    assert "https://shop.example" not in model.with_catalogue(None).recommend([[1]])._repr_html_()
    assert model.similar([1])._repr_html_().count("<img") == 1
