"""What the reproductions of papers share: the check of numbers, the page, the figures, the command."""

import json
import math

import numpy as np
import pytest

import offdiag as od
from offdiag.cli import main
from offdiag.papers import claims, page
from offdiag.papers.claims import Chapter, Reproduction
from offdiag.plots import papers

PAPERS = ("mianjy2018", "pal2020", "pretorius2018")


def figure():
    drawn, axes = papers.panels(1, 2)
    papers.lines(axes[0, 0], [1, 2, 3], {"one": [1, 2, 3], "two": [3, 2, 1]})
    return drawn


def reproduction(numbers=None, **changes):
    chapter = Chapter("First", "Why?", numbers or {})
    chapter.claim("Theorem <1>", "a & b", "1 < 2", "holds when corrected", erratum='"quoted"', code="lab.x")
    chapter.draw("one", "A <caption>", figure())
    parts = {
        "paper": "mianjy2018", "title": "A <title>", "authors": "Nobody", "size": "small", "seed": 3,
        "summary": "One.\n\nTwo.", "chapters": [chapter], "data": "invented", "seconds": 1.5,
    }  # fmt: skip
    return Reproduction(**(parts | changes))


@pytest.mark.parametrize(
    ("bound", "inside", "outside"),
    [
        ({"value": 2.0, "tolerance": 0.5}, [1.5, 2.5, 2.0], [1.49, 2.51, math.nan, math.inf]),
        ({"at_most": 1.0}, [1.0, -5.0], [1.001, math.nan, -math.inf]),
        ({"at_least": 1.0}, [1.0, 7.0], [0.999, math.nan, math.inf]),
    ],
)
def test_a_number_is_met_inside_its_bound_only(bound, inside, outside):
    bounds = {"x": {"why": "because"} | bound}
    assert all(claims.check({"x": value}, bounds)[0].ok for value in inside)
    assert not any(claims.check({"x": value}, bounds)[0].ok for value in outside)


def test_a_number_that_nobody_expects_is_an_error():
    with pytest.raises(od.OffdiagError, match="no expectation is written down for other"):
        claims.check({"other": 1.0}, {})


def test_a_number_that_was_not_computed_is_told_as_not_run():
    (check,) = claims.check({}, {"x": {"why": "because", "at_most": 1.0}})
    assert (check.verdict, check.shown, check.value) == ("not run", "–", None)
    assert claims.check({"x": 2.0}, {"x": {"why": "because", "at_most": 1.0}})[0].verdict == "NO"


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("size", ["small", "paper"])
def test_every_expectation_says_what_and_why(paper, size):
    bounds = claims.expected(paper, size)
    assert len(bounds) > 5
    for name, bound in bounds.items():
        assert len(bound["why"]) >= 8, name
        kinds = [set(bound) >= {"value", "tolerance"}, "at_most" in bound, "at_least" in bound]
        assert sum(kinds) == 1, name


def test_the_page_holds_everything_escaped_and_nothing_from_outside(tmp_path):
    files = page.write(reproduction(), tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text()
    for said in (
        "A &lt;title&gt;",
        "Theorem &lt;1&gt;",
        "a &amp; b",
        "&#34;quoted&#34;",
        "A &lt;caption&gt;",
        "1 hold when corrected",
    ):
        assert said in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert sorted(p.split("/")[-1] for p in files) == ["index.html", "numbers.json", "one.png", "one.svg"]
    assert (tmp_path / "out" / "figures" / "one.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "out" / "figures" / "one.svg").read_bytes()
    told = json.loads((tmp_path / "out" / "numbers.json").read_text())
    assert told["claims"][0]["verdict"] == "holds when corrected"
    assert told["seed"] == 3
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_the_page_tells_the_command_with_the_folders_that_were_given():
    plain = page.page(reproduction(data="synthetic images in the shape of MNIST"), {"one": b""})
    given = page.page(reproduction(data="100 pictures of MNIST; 100 pictures of CIFAR-10"), {"one": b""})
    assert "offdiag reproduce mianjy2018 --size small --seed 3<" in plain
    assert "--seed 3 --mnist FOLDER --cifar10 FOLDER<" in given


def test_the_same_figure_gives_the_same_file():
    one, other = (papers.rendered(figure(), "svg") for _ in range(2))
    assert one == other
    assert papers.rendered(figure(), "png") == papers.rendered(figure(), "png")


def test_figures_without_matplotlib_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(od.OffdiagError, match=r"pip install 'offdiag\[plot\]'"):
        papers.panels(1, 1)


def test_the_figure_of_shrinkages_shows_each_of_them():
    model = od.Spectral(rank=5).fit((np.random.default_rng(0).random((40, 9)) < 0.4).astype(np.float32))
    drawn = papers.shrinkages(model, ["hard", "ridge", "early-stop"])
    lines = drawn.axes[0].get_lines()
    assert [line.get_label().split()[0] for line in lines] == ["hard", "ridge", "early-stop"]
    np.testing.assert_array_equal(lines[1].get_ydata(), model.with_shrink("ridge").weights_.shrink)


def test_the_command_tells_mistakes_and_a_number_that_is_not_met(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "mianjy2018", "--size", "huge"]) == 2
    assert "--size must be small or paper, received 'huge'" in capsys.readouterr().err
    assert main(["reproduce", "nobody1900"]) == 2
    assert "mianjy2018" in capsys.readouterr().err
    assert main(["reproduce", "pal2020", "--size", "small", "--mnist", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

    name, bound = next((n, b) for n, b in claims.expected("mianjy2018", "small").items() if "at_most" in b)
    from offdiag.papers import mianjy2018

    monkeypatch.setattr(mianjy2018, "run", lambda **_: reproduction(numbers={name: bound["at_most"] + 1}))
    assert main(["reproduce", "mianjy2018", "--size", "small", "--json"]) == 1
    said = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert said[name]["met"] == "NO"
    assert {check["met"] for other, check in said.items() if other != name} == {"not run"}
    assert main(["reproduce", "mianjy2018", "--size", "small"]) == 1
    assert "NO" in capsys.readouterr().out
