"""Groups of items that are variants of one thing: sizes, colours, episodes. Read from any form, checked, numbered."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import wording
from offdiag.data.catalogue import Catalogue
from offdiag.data.columns import Column, Options
from offdiag.data.frames import is_frame
from offdiag.data.ids import is_whole_text, of_type
from offdiag.data.product_cells import LONGEST
from offdiag.data.read_catalogue import build_catalogue, find_product_columns
from offdiag.data.whole_table import read_whole
from offdiag.errors import OffdiagError

_LOG = logging.getLogger("offdiag")


def read_groups(groups: Any, item_ids: NDArray[Any], column: Column | None = None) -> Catalogue:
    """The group of each item that has one, as a catalogue of groups alone; rows of unknown items are kept.

    ``groups`` is a dict or a pandas Series of item id to group, a sequence with a group for each item in their order, a
    Catalogue with groups, or a table or file that ``od.read_catalogue`` could read, where ``column`` names the one of
    groups. None, NaN and "" are no group.
    """
    found = _any_form(groups, item_ids, column)
    labelled = np.array([label is not None for label in found.column("group", found.items)], dtype=np.bool_)
    found = Catalogue.of(found.items[labelled], {"group": found.column("group", found.items[labelled])})
    known = found.places(item_ids) >= 0
    if not known.any():
        shown = wording.shorten(found.items[:3].tolist()) if len(found) else "no item in any group"
        raise OffdiagError(
            f"expected groups of the items of the data, such as {wording.shorten(item_ids[:3].tolist())}, received "
            f"{shown}; check the ids, or leave groups out"
        )
    if len(item_ids) > 1 and len(np.unique(group_numbers(found, item_ids))) == 1:
        raise OffdiagError(
            f"expected several groups, received one with all {len(item_ids):,} items: no item could explain another, "
            "and every weight would be 0; give finer groups"
        )
    if (strangers := len(found) - int(known.sum())) > 0:
        _LOG.info("%d items of the groups are not in the data; an update may bring them", strangers)
    return found


def group_numbers(groups: Catalogue, item_ids: NDArray[Any]) -> NDArray[np.int64]:
    """The group of each item, numbered from 0 in the order of the items; an item without one is alone."""
    numbers: dict[Any, int] = {}
    labels = groups.column("group", item_ids)
    # The number of an item that is alone is its own place: no label is a whole number.
    listed = [numbers.setdefault(place if label is None else label, len(numbers)) for place, label in enumerate(labels)]
    return np.array(listed, dtype=np.int64)


def _any_form(groups: Any, item_ids: NDArray[Any], column: Column | None) -> Catalogue:
    if isinstance(groups, Catalogue):
        if "group" not in groups.columns:
            raise OffdiagError(
                f"expected a catalogue with groups, received one with {', '.join(groups.columns)}; name the column: "
                "od.read_catalogue(source, group=…)"
            )
        return groups
    if isinstance(groups, Mapping) and not {"group", "item"} <= groups.keys():
        return _of_pairs(list(groups), groups.values())
    if isinstance(groups, str | os.PathLike | Mapping) or is_frame(groups):
        return _of_table(groups, column)
    if hasattr(groups, "index") and hasattr(groups, "to_list") and not isinstance(groups, Sequence):  # pandas
        return _of_pairs(list(groups.index), groups.to_list())
    if isinstance(groups, set | frozenset) or not isinstance(groups, Iterable):
        raise OffdiagError(
            f"expected groups as a dict of item id to group, a group for each item, or a table, received "
            f"{type(groups).__name__}; write groups={{item: group, …}}"
        )
    labels = list(groups)
    if len(labels) != len(item_ids):
        raise OffdiagError(
            f"expected a group for each of the {len(item_ids):,} items, None for none, received {len(labels):,}; give "
            "a dict of item id to group to name only some"
        )
    return _of_pairs(item_ids.tolist(), labels)


def _of_table(source: Any, column: Column | None) -> Catalogue:
    named = {} if column is None else {"group": column}
    frame, where, notes = read_whole(source, Options(), tuple(named.values()))
    roles, found = find_product_columns(list(frame.columns), named, where)
    if "group" not in roles:
        raise OffdiagError(
            f"expected a column of groups in {where}, received {', '.join(frame.columns)}; call it group, or name it: "
            "od.read_catalogue(source, group=…)"
        )
    columns = {role: roles[role] for role in ("item", "group")}
    catalogue = build_catalogue(frame, columns, where, notes + found)
    first = dict(zip(catalogue.items.tolist(), catalogue.column("group", catalogue.items), strict=True))
    # A row that repeats an item may repeat its group, but not contradict it.
    _of_pairs([*first, *frame[columns["item"]]], [*first.values(), *frame[columns["group"]]])
    for note in catalogue.notes:
        _LOG.info("%s: %s", where, note)
    return catalogue


def _of_pairs(items: list[Any], labels: Iterable[Any]) -> Catalogue:
    plain = [item.item() if isinstance(item, np.generic) else item for item in items]
    for item in plain:
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise OffdiagError(f"expected item ids that are whole numbers or text, received {item!r} in groups; fix it")
    whole = all(isinstance(item, int) or is_whole_text(item) for item in plain)
    found: dict[Any, str] = {}
    for item, label in zip(plain, labels, strict=True):
        text, same = _label(label, item), of_type(item, whole)
        if text is not None and found.setdefault(same, text) != text:
            _in_two_groups((same, found[same]), (same, text))
    return Catalogue.of(list(found), {"group": list(found.values())})


def _label(label: Any, item: Any) -> str | None:
    """A group as text, as a table would have it: 7, "7" and 7.0 are the same one."""
    label = label.item() if isinstance(label, np.generic) else label
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    if not isinstance(label, str | int | float):
        raise OffdiagError(
            f"expected one group for each item, a number or text, received {label!r} for {item!r}; an item can be in "
            "one group only"
        )
    text = str(int(label) if isinstance(label, float) and label.is_integer() else label).strip()
    if len(text) > LONGEST["group"] or not text.isprintable():
        raise OffdiagError(
            f"expected groups of at most {LONGEST['group']} printable characters, received {text[:40]!r} for {item!r}"
        )
    return text or None


def _in_two_groups(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    raise OffdiagError(
        f"expected each item in one group, received {first[0]!r} in {first[1]!r} and in {second[1]!r}; leave one out"
    )
