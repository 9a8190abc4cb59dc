"""The notebooks of the site: they run, and show what they showed when they were written."""

import json
import re

import pytest

from docs import make_notebooks
from docs.site import notebook_page


def comparable(outputs):
    """Printed text as it is; of pictures and cards all but their numbers, whose last digits depend on the BLAS."""
    for output in outputs:
        if output["output_type"] == "stream":
            yield "".join(output["text"])
        else:
            data = output["data"]
            yield {kind: re.sub(r"-?[\d.,]+", "#", "".join(text)) for kind, text in data.items()}


@pytest.mark.slow
@pytest.mark.parametrize("path", make_notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_showed(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = json.loads(path.read_text())
    found = make_notebooks.executed(kept)
    for before, after in zip(kept["cells"], found["cells"], strict=True):
        assert list(comparable(after.get("outputs", []))) == list(comparable(before.get("outputs", [])))


def test_a_cell_prints_and_shows_its_last_line():
    class Card:
        def _repr_html_(self):
            return "<b>7</b>"

    printed, shown = make_notebooks.run("print(x)\ny = x\nCard()", {"x": 7, "Card": Card}, 3)
    assert printed["text"] == ["7\n"]
    assert shown["data"] == {"text/html": ["<b>7</b>"], "text/plain": ["<Card>"]}
    assert shown["execution_count"] == 3
    assert make_notebooks.run("y = 1", {}, 1) == []


def test_a_notebook_becomes_a_page_with_its_outputs():
    page = notebook_page.markdown(make_notebooks.NOTEBOOKS[0])
    assert page.startswith("# ")
    assert "```python\nimport offdiag as od" in page
    assert "<svg" in page
    assert '<div class="notebook-output">\n<' in page
    for block in re.findall(r'<div class="notebook-output">.*?\n</div>\n', page, re.S):
        assert "\n\n" not in block, "an empty line ends the HTML"
