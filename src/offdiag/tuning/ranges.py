"""Which settings of a model are searched, and between which bounds: scaled by the data, none set by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag import checks
from offdiag.errors import OffdiagError

POWER_STEP = 0.25  # of user_power: each value needs a Gram of its own


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, both possible."""

    low: float
    high: float
    log: bool = False
    whole: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Scale:
    """What of the data the bounds depend on."""

    n_items: int
    n_interactions: int
    mean_history: float
    l2: float  # at which EASE would best predict a user it has not seen (``models.auto``)


Space = dict[str, Range | tuple[Any, ...]]

_LINEAR = ("dropout", "l2", "user_power")
_SEARCHED: dict[str, tuple[str, ...]] = {
    "EASE": ("l2", "user_power"),
    "DLAE": _LINEAR,
    "EDLAE": _LINEAR,
    "RDLAE": (*_LINEAR, "max_diagonal"),
    "SparseEDLAE": ("neighbours", *_LINEAR, "weight_power"),
    "LowRankDLAE": ("rank", *_LINEAR),
    "LowRankEDLAE": ("rank", *_LINEAR),
    "ZeroDiagonalLAE": ("rank", *_LINEAR),
    "WeightDecayLAE": ("rank", "l2", "user_power"),
    "Spectral": ("rank", "item_power", "user_power"),
    "SLIM": ("l1", "l2", "user_power"),
    "ItemKNN": ("neighbours", "balance", "user_power"),
    "WMF": ("rank", "alpha", "l2"),
    "CDAE": ("dropout", "positive_weight", "learning_rate"),
    "MultDAE": ("dropout", "l2", "learning_rate"),
    "MultVAE": ("depth", "dropout", "beta", "learning_rate"),
    "EmphasizedDAE": ("dropout", "kept_weight", "learning_rate"),
    "Popularity": (),
}


def given_bounds(cls: type, given: Mapping[str, Any] | None, fixed: Mapping[str, Any]) -> Space:
    """The bounds a caller gave, checked."""
    if given is not None and not isinstance(given, Mapping):
        raise OffdiagError(f"space must map settings to bounds, received {type(given).__name__}")
    for setting in [*fixed, *(given or {})]:
        check_setting(cls, setting)
    bounds: Space = {}
    for setting, wanted in (given or {}).items():
        if setting in fixed:
            raise OffdiagError(f"{setting} is both held fixed and given bounds; leave one of the two out")
        default = cls.__dataclass_fields__[setting].default  # type: ignore[attr-defined]
        bounds[setting] = parsed(setting, wanted, whole=checks.is_whole(default))
    return bounds


def space_of(cls: type, scale: Scale, fixed: Mapping[str, Any], given: Space) -> Space:
    """The searched settings of a model class with their bounds; ``given`` replaces or adds some."""
    name = cls.__name__
    if name not in _SEARCHED and not given:
        raise OffdiagError(
            f"expected one of {', '.join(_SEARCHED)} or a space for {name}, received none; "
            "pass space={'setting': (low, high), …}"
        )
    bounds = _bounds(name, scale)
    space: Space = {setting: bounds[setting] for setting in _SEARCHED.get(name, ())} | given
    return {setting: what for setting, what in space.items() if setting not in fixed}


def _bounds(name: str, scale: Scale) -> Space:
    most = max(2, min(1000, scale.n_items // 2))
    bounds: Space = {
        "l2": Range(scale.l2 / 30, 30 * scale.l2, log=True),
        "dropout": Range(0.0, 0.95),
        "user_power": Range(0.0, 1.0, step=POWER_STEP),
        "max_diagonal": Range(0.0, 0.5),
        "rank": Range(min(16, most), most, log=True, whole=True),
        "item_power": Range(0.0, 1.0),
        "kept_weight": Range(0.0, 1.0),
        "propensity_power": Range(-0.2, 0.5),
        "weight_power": Range(1.0, 1.4),
        "l1": Range(scale.l2 / 1000, scale.l2, log=True),
        "neighbours": Range(min(10, most), most, log=True, whole=True),
        "shrink": Range(scale.mean_history / 10, 100 * scale.mean_history, log=True),
        "balance": Range(0.0, 1.0),
        "depth": Range(0, 1, whole=True),
        "beta": Range(0.05, 1.0, log=True),
        "positive_weight": Range(1.0, 30.0, log=True),
        "learning_rate": Range(3e-4, 5e-3, log=True),
    }
    return bounds | _own_bounds(name, scale, most)


def _own_bounds(name: str, scale: Scale, most: int) -> Space:
    """Where a setting of that name means something else, or more, in one model."""
    if name in ("WeightDecayLAE", "LowRankDLAE"):
        # Without dropout, and the more so at low rank, l2 has all of the regularisation to do.
        return {"l2": Range(scale.l2 / 30, 300 * scale.l2, log=True)}
    if name == "SparseEDLAE":
        # A trial on a large catalogue takes long, so the bounds are narrow. No Gram is kept: any user_power will do.
        return {
            "neighbours": Range(min(100, most), min(800, most), log=True, whole=True),
            "dropout": Range(0.3, 0.9),
            "l2": Range(scale.l2 / 6, 6 * scale.l2, log=True),
            "user_power": Range(0.0, 0.8, step=0.1),
        }
    if name == "WMF":
        alpha = 0.1 * scale.n_items / scale.mean_history  # all observed pairs weigh a tenth of the others together
        return {
            "alpha": Range(alpha / 10, 10 * alpha, log=True),
            "l2": Range(5e-4, 0.1, log=True),
            "rank": Range(min(32, most), min(512, most), log=True, whole=True),
        }
    if name in ("CDAE", "MultDAE", "MultVAE", "EmphasizedDAE"):
        return {"l2": Range(1e-7, 1e-3, log=True), "dropout": Range(0.2, 0.9)}
    return {}


def parsed(name: str, wanted: Any, *, whole: bool = False) -> Range | tuple[Any, ...]:
    """(low, high), (low, high, "log"), or a list of choices; whole numbers where the setting is one."""
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


def inside(settings: Mapping[str, Any], bounds: Space) -> dict[str, Any]:
    """The settings with those that have bounds moved into them; of choices the nearest number, or the first."""
    out = dict(settings)
    for name, what in bounds.items():
        value: Any = settings.get(name)
        number = checks.is_number(value)
        if isinstance(what, Range):
            moved = min(max(float(value), what.low), what.high) if number else what.low
            out[name] = round(moved) if what.whole else float(moved)
        elif value not in what:
            choices: list[Any] = [choice for choice in what if isinstance(choice, int | float)]
            out[name] = _closest(choices, value) if number and choices else what[0]
    return out


def _closest(choices: list[Any], value: Any) -> Any:
    return min(choices, key=lambda choice: abs(float(choice) - float(value)))


def nearest(settings: Mapping[str, Any], space: Space) -> dict[str, Any] | None:
    """The point of the space next to some settings, for the sampler to learn from; None where there is none."""
    out: dict[str, Any] = {}
    for name, what in space.items():
        value = settings.get(name)
        if isinstance(what, Range):
            if not isinstance(value, int | float):
                return None
            clipped = min(max(value, what.low), what.high)
            if what.step:
                clipped = what.low + round((clipped - what.low) / what.step) * what.step
            out[name] = round(clipped) if what.whole else float(clipped)
        elif value in what:
            out[name] = value
        else:
            return None
    return out


def check_setting(cls: type, name: str) -> None:
    fields = getattr(cls, "__dataclass_fields__", {})
    if name not in fields:
        raise OffdiagError(f"{cls.__name__} has no setting {name!r}; it has {', '.join(fields) or 'none'}")


def searched(cls: type) -> tuple[str, ...]:
    """The settings that are searched when nothing is said."""
    return _SEARCHED.get(cls.__name__, ())


def bounds_of(model: str) -> str:
    """The searched settings of a model and their bounds on data of a fixed scale: changes when the search does."""
    bounds = _bounds(model, Scale(n_items=10_000, n_interactions=10**6, mean_history=100.0, l2=100.0))
    return ", ".join(f"{name} {bounds[name]}" for name in _SEARCHED.get(model, ()))
