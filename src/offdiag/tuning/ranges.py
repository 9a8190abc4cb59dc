"""The space that od.tune searches: the ranges from the fields of a model, scaled by the data, and the caller's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from offdiag import checks, model_list
from offdiag.errors import OffdiagError
from offdiag.models.fields import Range, Scale, settings_of

__all__ = ["Range", "Scale", "Space"]

Space = dict[str, Range | tuple[Any, ...]]


def given_bounds(cls: type, given: Mapping[str, Any] | None, fixed: Mapping[str, Any]) -> Space:
    """The caller's bounds, checked."""
    if given is not None and not isinstance(given, Mapping):
        raise OffdiagError(f"space must map settings to bounds, received {type(given).__name__}")
    for setting in [*fixed, *(given or {})]:
        check_setting(cls, setting)
    if both := sorted(replaced(cls, given or {}) & {*fixed, *(given or {})}):
        raise OffdiagError(f"{both[0]} is not used where its replacement has bounds; leave one of the two out")
    bounds: Space = {}
    for setting, wanted in (given or {}).items():
        if setting in fixed:
            raise OffdiagError(f"{setting} is both held fixed and given bounds; leave one of the two out")
        known, default = settings_of(cls).get(setting), cls.__dataclass_fields__[setting].default  # type: ignore[attr-defined]
        whole = checks.is_whole(default) if known is None else known.whole
        bounds[setting] = parse_bounds(setting, wanted, whole=whole)
    return bounds


def space_of(cls: type, scale: Scale, fixed: Mapping[str, Any], given: Space) -> Space:
    """The searched settings of a model class with their bounds; ``given`` replaces or adds some.

    A setting that another one replaces, held or searched, is left out.
    """
    if not given and not settings_of(cls) and dataclasses.fields(cls):
        raise OffdiagError(
            f"expected one of {', '.join(model_list.MODELS)} or a space for {cls.__name__}, received none; "
            "pass space={'setting': (low, high), …}"
        )
    space: Space = _bounds(cls, scale) | given
    without = {*fixed, *replaced(cls, {**fixed, **given})}
    return {setting: what for setting, what in space.items() if setting not in without}


def _bounds(cls: Any, scale: Scale) -> Space:
    found = {name: known.range_for(scale) for name, known in settings_of(cls).items()}
    return {name: what for name, what in found.items() if what is not None}


def parse_bounds(name: str, wanted: Any, *, whole: bool = False) -> Range | tuple[Any, ...]:
    """(low, high), (low, high, "log"), or a list of choices; whole numbers if the setting takes them."""
    if isinstance(wanted, list):
        if not wanted:
            raise OffdiagError(f"expected at least one choice for {name}, received an empty list")
        return tuple(wanted)
    numbers = isinstance(wanted, tuple) and all(checks.is_number(v) for v in wanted[:2])
    if not numbers or len(wanted) not in (2, 3) or wanted[2:] not in ((), ("log",)):
        raise OffdiagError(
            f"expected (low, high), (low, high, 'log') or a list of choices for {name}, received {wanted!r}"
        )
    low, high = wanted[:2]
    if not (np.isfinite([low, high]).all() and low < high) or (wanted[2:] and low <= 0):
        raise OffdiagError(f"expected low < high (and above 0 for 'log') for {name}, received {wanted!r}")
    if whole and not (isinstance(low, int) and isinstance(high, int)):
        raise OffdiagError(f"expected whole numbers for {name}, received {wanted!r}")
    return Range(low, high, log=bool(wanted[2:]), whole=whole)


def distributions(space: Space) -> dict[str, Any]:
    """The same for Optuna."""
    from optuna import distributions as kinds

    out: dict[str, Any] = {}
    for name, what in space.items():
        if not isinstance(what, Range):
            out[name] = kinds.CategoricalDistribution(what)
        elif what.whole:
            out[name] = kinds.IntDistribution(int(what.low), int(what.high), log=what.log)
        else:
            out[name] = kinds.FloatDistribution(what.low, what.high, log=what.log, step=what.step)
    return out


def move_inside(settings: Mapping[str, Any], bounds: Space) -> dict[str, Any]:
    """The settings, moved into their bounds; for choices the nearest number, or else the first choice."""
    out = dict(settings)
    for name, what in bounds.items():
        value: Any = settings.get(name)
        number = checks.is_number(value)
        if isinstance(what, Range):
            out[name] = _clip(value if number else what.low, what)
        elif value not in what:
            choices = [choice for choice in what if isinstance(choice, int | float)] if number else []
            out[name] = min(choices, key=lambda choice: abs(choice - value)) if choices else what[0]
    return out


def _clip(value: float, what: Range) -> float:
    clipped = min(max(value, what.low), what.high)
    if what.step:
        clipped = what.low + round((clipped - what.low) / what.step) * what.step
    return round(clipped) if what.whole else float(clipped)


def nearest(settings: Mapping[str, Any], space: Space) -> dict[str, Any] | None:
    """The point of the space nearest to some settings, for the sampler to learn from; None if there is no such one."""
    out: dict[str, Any] = {}
    for name, what in space.items():
        value = settings.get(name)
        if isinstance(what, Range):
            if not isinstance(value, int | float):
                return None
            out[name] = _clip(value, what)
        elif value in what:
            out[name] = value
        else:
            return None
    return out


def check_setting(cls: type, name: str) -> None:
    fields = getattr(cls, "__dataclass_fields__", {})
    if name not in fields:
        raise OffdiagError(f"{cls.__name__} has no setting {name!r}; it has {', '.join(fields) or 'none'}")


def replaced(cls: Any, given: Mapping[str, Any]) -> set[str]:
    """The settings that one of the given settings replaces, unless that one is None."""
    known = settings_of(cls)
    return {known[name].replaces for name, value in given.items() if name in known and value is not None} - {""}


def searched(cls: Any) -> tuple[str, ...]:
    """The settings that are searched unless the caller says otherwise."""
    return tuple(name for name, known in settings_of(cls).items() if known.search is not None)


def bounds_of(model: str | type) -> str:
    """The searched settings of a model and their bounds on data of a fixed scale, to detect changes of the search."""
    cls = model_list.model_class(model) if isinstance(model, str) else model
    bounds = _bounds(cls, Scale(n_items=10_000, n_interactions=10**6, mean_history=100.0, l2=100.0))
    return ", ".join(f"{name} {what}" for name, what in bounds.items())
