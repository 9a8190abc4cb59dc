"""The check of the built site finds what it is for: dead links, missing anchors, anything fetched from elsewhere."""

from pathlib import Path

import pytest

from docs.site import check, sources

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def site(tmp_path):
    def build(body, name="index.html"):
        page = tmp_path / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<html><body>{body}</body></html>")
        return tmp_path

    build('<h1 id="one">1</h1><a href="..">up</a>', "a/b/index.html")
    build('<h1 id="über-uns">2</h1>', "a/index.html")
    return build


@pytest.mark.parametrize(
    "good",
    [
        '<a href="a/b/">folder</a> <a href="a/b/#one">anchor</a> <a href="/a/b/index.html">from the root</a>',
        '<a href="a/#%C3%BCber-uns">encoded</a> <p id="here"></p><a href="#here">same page</a> <a href="">itself</a>',
        '<a href="https://example.org">a link may leave</a> <a href="mailto:a@example.org">mail</a>',
        '<link rel="canonical" href="https://example.org/"> <img src="data:image/png;base64,AAAA">',
    ],
)
def test_good_links_are_no_problem(site, good):
    assert check.problems(site(good)) == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ('<a href="nowhere/">x</a>', "nowhere/ leads nowhere"),
        ('<a href="a/b/#two">x</a>', "a/b/#two leads nowhere"),
        ('<a href="#two">x</a>', "#two leads nowhere"),
        ('<img src="missing.png">', "missing.png leads nowhere"),
        ('<script src="https://cdn.example.org/x.js"></script>', "fetches https://cdn.example.org/x.js"),
        ('<link rel="stylesheet" href="//fonts.example.org/css">', "fetches //fonts.example.org/css"),
    ],
)
def test_bad_links_are_named_with_their_page(site, bad, problem):
    assert check.problems(site(bad)) == [f"index.html: {problem}"]


def test_a_style_that_fetches_from_elsewhere_is_a_problem(site):
    folder = site("")
    (folder / "a.css").write_text("body { background: url(local.png) }")
    assert check.problems(folder) == []
    (folder / "b.css").write_text('@import "https://fonts.example.org/css";')
    assert check.problems(folder) == ["b.css: fetches from elsewhere"]


def test_linked_files_become_pages_or_stay_what_they_are():
    found = dict(sources.pages(ROOT, {"benchmarks/results", "benchmarks/run.py", "README.md", "docs/data.md"}))
    assert "](speed.json)" in found["source/benchmarks/results/index.md"]
    assert found["source/benchmarks/results/speed.json"].startswith(b"{")
    assert "````python\n" in found["source/benchmarks/run.py.md"]
    assert not any("README" in name or "docs" in name for name in found)
