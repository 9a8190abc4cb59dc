"""Which model `offdiag fit` and `offdiag tune` learn, with which settings, and what became of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from offdiag.errors import OffdiagError

MODELS = {
    "edlae": "EDLAE",
    "dlae": "DLAE",
    "ease": "EASE",
    "rdlae": "RDLAE",
    "sparse": "SparseEDLAE",
    "low-rank-edlae": "LowRankEDLAE",
    "low-rank-dlae": "LowRankDLAE",
    "zero-diagonal": "ZeroDiagonalLAE",
    "weight-decay": "WeightDecayLAE",
    "spectral": "Spectral",
    "emphasized-dae": "EmphasizedDAE",
    "wmf": "WMF",
    "cdae": "CDAE",
    "mult-dae": "MultDAE",
    "mult-vae": "MultVAE",
    "popularity": "Popularity",
    "slim": "SLIM",
    "item-knn": "ItemKNN",
}


def model_class(name: str) -> Any:
    """The class of that name."""
    import offdiag as od

    if name.lower() not in MODELS:
        raise OffdiagError(f"--model takes {', '.join(MODELS)}, received {name!r}")
    return getattr(od, MODELS[name.lower()])


def new_model(name: str, given: Mapping[str, Any], seed: int) -> Any:
    """The model of that name with the settings that were given (not None); the seed goes to those that draw."""
    model = model_class(name)()
    known = model.get_params()
    settings = {setting: value for setting, value in given.items() if value is not None}
    for setting in settings:
        if setting not in known:
            has = ", ".join(f"--{s.replace('_', '-')}" if s in given else f"--set {s}=…" for s in known)
            raise OffdiagError(f"{name} does not take --{setting.replace('_', '-')}; it takes {has or 'no settings'}")
    return model.set_params(**settings, **({"seed": seed} if "seed" in known else {}))


def check_named(name: str, settings: Iterable[str]) -> None:
    """That the model of that name has every one of the settings."""
    known = [setting for setting in model_class(name)().get_params() if setting != "seed"]
    for setting in settings:
        if setting not in known:
            raise OffdiagError(f"{name} has no setting {setting!r}; it has {', '.join(known) or 'none'}")


def assignments(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """name=value, several times: the names with underscores, the values as they were typed."""
    out: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name or not value.strip():
            raise OffdiagError(f"--{option} takes NAME=VALUE, for example l2=100, received {text!r}")
        if name == "seed":
            raise OffdiagError(f"--{option} does not take the seed; use --seed")
        if name in out:
            raise OffdiagError(f"--{option} {name} was given twice; give it once")
        out[name] = value.strip()
    return out


def typed(text: str) -> Any:
    """A value as typed: a whole number, a number, true or false, or a word such as auto."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def with_more(given: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the options and those of --set; a setting has one value."""
    for name in more:
        if given.get(name) is not None:
            raise OffdiagError(f"{name} was given by --{name.replace('_', '-')} and by --set; give it once")
    return {**given, **{name: typed(value) for name, value in more.items()}}


def check_target(out: str, data: str, option: str = "out", example: str = "model.od") -> None:
    """Say now, not after a long fit, that the file cannot be written there."""
    folder = Path(out).resolve().parent
    if Path(out).is_dir():
        raise OffdiagError(f"--{option} takes a file name, received the folder {out!r}; add a name such as {example}")
    if not folder.is_dir():
        raise OffdiagError(f"cannot save to {out!r}: the folder {str(folder)!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OffdiagError(f"cannot save to {out!r}: no permission to write in {str(folder)!r}; choose another folder")
    from offdiag.data import sql

    file = sql.file_of(data) or data
    if os.path.exists(out) and os.path.exists(file) and os.path.samefile(out, file):
        raise OffdiagError(f"--{option} is the file {str(file)!r} itself, which is read; choose another name")


def outcome(learned: Mapping[str, Any]) -> dict[str, Any]:
    """How an iterative fit ended, from the attributes of the model or from its file; nothing for the other models."""
    if "best_epoch_" in learned:
        return {"epochs": learned["epochs_"], "best_epoch": learned["best_epoch_"]}
    if "gap_" in learned:
        return {name: learned[f"{name}_"] for name in ("objective", "gap")}
    if "stopped_" not in learned:
        return {}
    found = {name: learned[f"{name}_"] for name in ("objective", "stopped")}
    found["iterations"] = len(learned["objectives_"]) - 1  # the first is that of the start
    if learned.get("kkt_residual_") is not None:
        found["kkt_residual"] = learned["kkt_residual_"]
    return found


def outcome_pairs(found: Mapping[str, Any]) -> dict[str, str]:
    """The same for a person."""
    if not found:
        return {}
    if "epochs" in found:
        return {"epochs": f"{found['epochs']:,}, the weights are those after {found['best_epoch']:,}"}
    if "gap" in found:
        return {"objective": f"{found['objective']:.8g}, within {found['gap']:.2g} of its minimum in every column"}
    ended = "stopped" if found["stopped"] == "iterations" else found["stopped"]
    after = "" if ended in ("closed form", "full rank") else f" after {found['iterations']:,} iterations"
    pairs = {"objective": f"{found['objective']:.8g}, {ended}{after}"}
    if "kkt_residual" in found:
        pairs["KKT residual"] = f"{found['kkt_residual']:.3g}"
    return pairs
