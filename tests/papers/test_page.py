"""What the reproductions of papers share: the page, its files, the command."""

import json

from offdiag.cli import main
from offdiag.papers import claims, mianjy2018, page
from offdiag.papers.claims import Chapter, Reproduction
from offdiag.plots import papers


def reproduction(numbers=None, **changes):
    chapter = Chapter("mianjy2018", "First", "Why?", numbers or {})
    chapter.claim("Theorem <1>", "1 < 2", True, says="a & b", correction='"quoted"', code="lab.x")
    chapter.draw("one", "A <caption>", papers.panels(1, 2)[0])
    parts = {
        "paper": "mianjy2018", "title": "A <title>", "authors": "Nobody", "size": "small", "seed": 3,
        "summary": "One.\n\nTwo.", "chapters": [chapter], "data": "invented", "folders": [], "seconds": 1.5,
    }  # fmt: skip
    return Reproduction(**(parts | changes))


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
    saved = json.loads((tmp_path / "out" / "numbers.json").read_text())
    assert saved["claims"][0]["verdict"] == "holds when corrected"
    assert saved["seed"] == 3
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_the_page_shows_the_command_with_the_folders_it_was_given():
    plain, given = (page.page(reproduction(folders=names), {"one": b""}) for names in ([], ["mnist", "cifar10"]))
    assert "offdiag reproduce mianjy2018 --size small --seed 3<" in plain
    assert "--seed 3 --mnist FOLDER --cifar10 FOLDER<" in given


def test_the_command_reports_mistakes_and_a_number_that_is_not_met(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "mianjy2018", "--size", "huge"]) == 2
    assert "--size must be small or paper, received 'huge'" in capsys.readouterr().err
    assert main(["reproduce", "nobody1900"]) == 2
    assert "mianjy2018" in capsys.readouterr().err
    assert main(["reproduce", "pal2020", "--size", "small", "--mnist", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

    name, bound = next((n, b) for n, b in claims.expected("mianjy2018", "small").items() if "at_most" in b)
    monkeypatch.setattr(mianjy2018, "run", lambda **_: reproduction(numbers={name: bound["at_most"] + 1}))
    assert main(["reproduce", "mianjy2018", "--size", "small", "--json"]) == 1
    said = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert said[name]["met"] == "NO"
    assert {check["met"] for other, check in said.items() if other != name} == {"not run"}
    assert main(["reproduce", "mianjy2018", "--size", "small"]) == 1
    assert "NO" in capsys.readouterr().out
