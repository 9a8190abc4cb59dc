"""Read any table of products as a Catalogue: find its columns, clean its cells, and count what is left out."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offdiag import checks
from offdiag.data import formats
from offdiag.data.catalogue import Catalogue
from offdiag.data.columns import Column, Options
from offdiag.data.failures import polars_failures
from offdiag.data.frames import ALIASES, folded
from offdiag.data.ids import text_array
from offdiag.data.product_cells import ADDRESSES, CONTROL, LONGEST, NAMES, is_address
from offdiag.data.whole_table import blank_is_null, item_ids, read_whole
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

_LOG = logging.getLogger("offdiag")
# Common names in lower case without separators, the more certain first: where "product" and "id" are there, the product
# is a title.
_IDS = ("itemid", "item", *(name for name in ALIASES["item"] if name.endswith(("id", "sku", "asin", "isbn"))))
USUAL = {
    "item": (*_IDS, "id", "ean", "gtin", "articlenumber", "code", *ALIASES["item"]),
    "title": (
        "title", "name", "producttitle", "productname", "itemtitle", "itemname", "movietitle", "displayname", "label",
        "headline", "movie", "film", "song", "product", "book", "game",
    ),
    "category": (
        "category", "genre", "categories", "genres", "categoryname", "productcategory", "itemcategory", "department",
    ),
    "image": (
        "image", "imageurl", "img", "imgurl", "imagelink", "imageaddress", "picture", "pictureurl", "photo", "photourl",
        "thumbnail", "thumbnailurl", "thumb", "cover", "coverurl", "poster", "posterurl", "images",
    ),
    "price": ("price", "saleprice", "unitprice", "listprice", "cost"),
    "link": ("link", "url", "href", "producturl", "productlink", "itemurl", "permalink", "website"),
    "group": (
        "group", "groupid", "itemgroup", "itemgroupid", "parent", "parentid", "parentsku", "parentasin", "series",
        "family",
    ),
}  # fmt: skip
_SPACES = r"[\s\x00-\x1f\x7f-\x9f]+"


def read_catalogue(
    source: Any,
    item: Column | None = None,
    title: Column | None = None,
    category: Column | None = None,
    image: Column | None = None,
    price: Column | None = None,
    link: Column | None = None,
    group: Column | None = None,
    *,
    format: formats.Name | None = None,  # noqa: A002 - the word of od.read
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    query: str | None = None,
    table: str | None = None,
) -> Catalogue:
    """Read the products of a shop: what is shown with the items of a model.

    ``source`` is any table that ``od.read`` takes, and the options are those of ``od.read``. The arguments name
    columns or give their positions from 0; columns that are not named are found by their usual names (item_id, sku,
    name, genre, image_url, …), and ``notes`` says which. Ids are whole numbers if all of them are, as in ``od.read``,
    but 7 and "7" are the same item.

    Rows without an id and all but the first row of an item are left out; texts are cut at 500 characters; an address
    that is not http, https or relative is left out. Each is counted in ``notes`` and logged (logger "offdiag").

    Example:
        >>> import offdiag as od
        >>> with open("products.csv", "w") as file:
        ...     _ = file.write("sku,name,price,stock\\n7,Alien,9.50,3\\n8,Brazil,,0\\n8,Brasil,4,0\\n")
        >>> shop = od.read_catalogue("products.csv")
        >>> shop.to_dicts()[0]
        {'item': 7, 'title': 'Alien', 'price': 9.5}
        >>> for note in shop.notes:
        ...     print(note)
        columns found: item='sku', title='name', price='price'; not used: stock
        1 row repeats an item: the first row was kept
    """
    given = dict(zip(("item", *NAMES), (item, title, category, image, price, link, group), strict=True))
    named = {role: column for role, column in given.items() if column is not None}
    options = Options(format, separator, header, False, encoding, query, table)
    with polars_failures("a table of plain columns", "other content", "convert the columns to numbers or text"):
        frame, where, notes = read_whole(source, options, tuple(named.values()))
        roles, found = _find(list(frame.columns), named, where)
        notes += found
        catalogue = _build(frame, roles, where, notes)
    for note in catalogue.notes:
        _LOG.info("%s: %s", where, note)
    return catalogue


def _find(names: list[str], named: Mapping[str, Column], where: str) -> tuple[dict[str, str], list[str]]:
    """The column of each role, and a note about those that were guessed."""
    roles: dict[str, str] = {}
    for role, column in named.items():
        if checks.is_whole(column) and 0 <= int(column) < len(names):
            roles[role] = names[int(column)]
        elif column in names:
            roles[role] = str(column)
        else:
            raise OffdiagError(
                f"expected {role}={column!r} among the columns of {where}, received {_listed(names)}; name another"
            )
    guessed: dict[str, str] = {}
    for role, usual in USUAL.items():
        free = {folded(name): name for name in reversed(names) if name not in (*roles.values(), *guessed.values())}
        if role not in roles and (fitting := next((free[name] for name in usual if name in free), None)) is not None:
            guessed[role] = fitting
    if "item" not in roles | guessed:
        raise OffdiagError(
            f"expected a column of item ids in {where}, received {_listed(names)}; name it with item=…, or give its "
            "position from 0"
        )
    all_roles = {role: (roles | guessed)[role] for role in ("item", *NAMES) if role in roles | guessed}
    if len(all_roles) == 1:
        raise OffdiagError(
            f"expected a title or another column of products in {where}, received {_listed(names)}; name one with "
            "title=…"
        )
    unused = [name for name in names if name not in all_roles.values()]
    if not guessed or (not unused and all(role == column for role, column in guessed.items())):
        return all_roles, []  # nothing to doubt
    shown = ", ".join(f"{role}={column!r}" for role, column in all_roles.items())
    return all_roles, [f"columns found: {shown}" + (f"; not used: {_listed(unused)}" if unused else "")]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "") or "none"


def _build(frame: pl.DataFrame, roles: Mapping[str, str], where: str, notes: list[str]) -> Catalogue:
    import polars as pl

    ids = item_ids(frame[roles["item"]], where)
    rows = pl.DataFrame({"item": ids}).with_row_index("row").filter(ids.is_not_null())
    if lacking := ids.len() - rows.height:
        notes.append(f"{_rows(lacking)} without an item id {'was' if lacking == 1 else 'were'} left out")
    distinct = rows.unique("item", keep="first", maintain_order=True)
    if repeated := rows.height - distinct.height:
        what = "row repeats an item" if repeated == 1 else "rows repeat an item"
        notes.append(f"{repeated:,} {what}: the first row was kept")
    if not distinct.height:
        raise OffdiagError(f"expected at least one product, received none in {where}; is the file complete?")
    chosen = frame[distinct["row"]]
    columns = {role: _cells(chosen[column], role, notes).to_list() for role, column in roles.items() if role != "item"}
    kept = distinct["item"]
    numbered = text_array(kept.to_list()) if kept.dtype == pl.String else kept.to_numpy()
    return Catalogue.of(numbered, columns, notes, roles)


def _cells(column: pl.Series, role: str, notes: list[str]) -> pl.Series:
    """Clean cells: numbers for prices if possible, otherwise text of bounded length on one line."""
    import polars as pl

    if column.dtype.is_float():
        column = column.fill_nan(None)
    if role == "price":
        numbers = column.cast(pl.Float64, strict=False) if not column.dtype.is_nested() else column
        if numbers.dtype == pl.Float64 and numbers.null_count() == _blank(column).null_count():
            return numbers.set(~numbers.is_finite(), None)
    text = _text(column, first=role in ADDRESSES)
    clean = blank_is_null(text.str.replace_all(_SPACES, " ").str.strip_chars())
    if changed := int(text.str.strip_chars().str.contains(CONTROL.pattern).fill_null(False).sum()):
        notes.append(f"control characters were removed from the {role} of {_rows(changed)}")
    most = LONGEST[role]
    if role in ADDRESSES:
        bad = pl.Series([cell is not None and not is_address(cell) for cell in clean.to_list()], dtype=pl.Boolean)
        if bad.any():
            first = clean.filter(bad)[0]
            notes.append(
                f"the {role} of {_rows(int(bad.sum()))} is no address (http, https or relative) and was left out, "
                f"such as {first[:60]!r}"
            )
        return clean.set(bad, None)
    long = (clean.str.len_chars() > most).fill_null(False)
    if long.any():
        notes.append(f"the {role} of {_rows(int(long.sum()))} was cut at {most:,} characters")
        clean = (clean.str.head(most - 1) + "…").zip_with(long, clean)
    return clean


def _text(column: pl.Series, *, first: bool) -> pl.Series:
    """A cell of several values, such as the genres of a film, has commas between them; or only the `first` is used."""
    import polars as pl

    if isinstance(column.dtype, (pl.List, pl.Array)):
        parts = column.cast(pl.List(pl.String)).list
        return parts.first() if first else parts.join(", ", ignore_nulls=True)
    if column.dtype == pl.Object or column.dtype == pl.Struct:
        return pl.Series([None if cell is None else str(cell) for cell in column.to_list()], dtype=pl.String)
    if column.dtype.is_float():  # whole numbers with gaps, such as years, are not shown as 1979.0
        known = column.drop_nulls()
        if ((known.floor() == known) & (known.abs() < 2.0**53)).all():
            column = column.cast(pl.Int64)
    return column.cast(pl.String)


def _blank(column: pl.Series) -> pl.Series:
    import polars as pl

    return blank_is_null(column.str.strip_chars()) if column.dtype == pl.String else column


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def parse_columns(text: str) -> dict[str, Column]:
    """``title=name,price=3``: the columns of a catalogue, as the command line takes them."""
    found: dict[str, Column] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        role, mark, column = (word.strip() for word in part.partition("="))
        if not mark or not column or role not in ("item", *NAMES):
            raise OffdiagError(
                f"expected NAME=COLUMN separated by commas with names among item, {', '.join(NAMES)}, received {part!r}"
            )
        if role in found:
            raise OffdiagError(f"expected each name once, received {role!r} twice; leave one out")
        found[role] = int(column) if re.fullmatch(r"[0-9]+", column) else column
    return found
