"""What a cell of a catalogue may hold: bounded text, and addresses that cannot run code."""

from __future__ import annotations

import re

NAMES = ("title", "category", "image", "price", "link", "group")  # in the order in which they are shown
ADDRESSES = ("image", "link")
CARD = ("image", "title", "price", "link")  # shown with lists in a notebook
LONGEST = {"title": 500, "category": 500, "group": 500, "price": 50, "image": 2_000, "link": 2_000}  # characters
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")  # could affect a terminal
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def shown_text(text: str) -> str:
    """A text without control characters, which could affect a terminal."""
    return CONTROL.sub(" ", text).strip() if not text.isprintable() and CONTROL.search(text) else text


def is_address(text: str) -> bool:
    """Whether a text may be shown as a link or an image: http, https or relative; never javascript: or data:."""
    if not text or len(text) > LONGEST["link"] or not text.isprintable() or text != text.strip():
        return False  # browsers ignore control characters within "java\nscript:", and white space before it
    scheme = _SCHEME.match(text)
    return scheme is None or scheme[1].lower() in ("http", "https")
