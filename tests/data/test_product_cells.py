"""Addresses that could run code and characters that could affect a terminal are not shown."""

import numpy as np
import pytest

from offdiag.data.catalogue import Catalogue
from offdiag.data.product_cells import is_address, shown_text
from offdiag.data.texts import Texts


@pytest.mark.parametrize("text", ["https://a.example/b?c=d", "HTTP://a", "/x.png", "x.png", "//cdn.example/x", "a b"])
def test_addresses_of_the_web_and_relative_ones_are_shown(text):
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)",
        "java\tscript:x", "\x01javascript:x", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "mailto:a@b",
        "x" * 3000, "https://a/\u202egnp.exe",
    ],
)  # fmt: skip
def test_other_addresses_are_not_shown(text):
    assert not is_address(text)
    column = Texts.of([text])  # as a file could hold it
    assert Catalogue(np.array([7]), {"link": column, "image": column}).row(7) == {}


def test_only_control_characters_are_taken_out_of_text():
    assert shown_text("\x1b[31mred\x07") == "[31mred"
    for text in ("plain", " spaces ", "zero\u200bwidth", "no\u00a0break", "🎬👨\u200d👩"):
        assert shown_text(text) == text
