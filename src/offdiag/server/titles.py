"""Item titles from a table, for models without a catalogue."""

from __future__ import annotations

import os

from offdiag.data.read_catalogue import read_catalogue


def read(path: str | os.PathLike[str], item: str = "item", title: str = "title") -> dict[str, str]:
    """Titles by id, both as text, from any table; columns by name or position from 0."""
    positions = item.isdecimal() and title.isdecimal()
    columns = {"item": int(item), "title": int(title)} if positions else {"item": item, "title": title}
    products = read_catalogue(os.fspath(path), **columns)
    titles = products.column("title", products.items)
    return {str(one): str(text) for one, text in zip(products.items.tolist(), titles, strict=True) if text is not None}
