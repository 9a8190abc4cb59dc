"""Table 1 as a page."""

from offdiag.papers.steck2020 import table1_page


def test_a_title_cannot_break_the_page():
    part = {
        "name": "x", "title": "<b>|", "protocol": "a|b", "notes": ["<i>"], "users": 1, "items": 2, "interactions": 1,
        "test_users": 1, "rank": 1, "rows": [], "left_out": {"slim": "<u>"}, "by_rank": [], "claims": [],
    }  # fmt: skip
    said = {"data": [part], "metrics": [], "judge": "ndcg@100", "version": "0", "seed": 0, "seconds": 1.0}
    page = table1_page.page(said)
    assert "<b>|" not in page
    assert "&lt;i&gt;" in page
    assert "&lt;u&gt;" in page
