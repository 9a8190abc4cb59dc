"""Which model `offdiag fit` learns, with which settings, and what became of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offdiag.errors import OffdiagError

MODELS = {
    "edlae": "EDLAE",
    "dlae": "DLAE",
    "ease": "EASE",
    "rdlae": "RDLAE",
    "low-rank-edlae": "LowRankEDLAE",
    "low-rank-dlae": "LowRankDLAE",
    "zero-diagonal": "ZeroDiagonalLAE",
    "weight-decay": "WeightDecayLAE",
    "spectral": "Spectral",
    "emphasized-dae": "EmphasizedDAE",
    "popularity": "Popularity",
}


def new_model(name: str, given: Mapping[str, Any], seed: int) -> Any:
    """The model of that name with the settings that were given (not None); the seed goes to those that draw."""
    import offdiag as od

    if name.lower() not in MODELS:
        raise OffdiagError(f"--model takes {', '.join(MODELS)}, received {name!r}")
    model: Any = getattr(od, MODELS[name.lower()])()
    known = model.get_params()
    settings = {setting: value for setting, value in given.items() if value is not None}
    for setting in settings:
        if setting not in known:
            has = ", ".join(f"--{s.replace('_', '-')}" for s in known) or "no settings"
            raise OffdiagError(f"{name} does not take --{setting.replace('_', '-')}; it takes {has}")
    return model.set_params(**settings, **({"seed": seed} if "seed" in known else {}))


def check_target(out: str, data: str) -> None:
    """Say now, not after a long fit, that the model cannot be written there."""
    folder = Path(out).resolve().parent
    if Path(out).is_dir():
        raise OffdiagError(f"--out takes a file name, received the folder {out!r}; add a name such as model.od")
    if not folder.is_dir():
        raise OffdiagError(f"cannot save to {out!r}: the folder {str(folder)!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OffdiagError(f"cannot save to {out!r}: no permission to write in {str(folder)!r}; choose another folder")
    if os.path.exists(out) and os.path.exists(data) and os.path.samefile(out, data):
        raise OffdiagError(f"--out is the data file {data!r} itself; choose another name")


def outcome(learned: Mapping[str, Any]) -> dict[str, Any]:
    """How a low-rank fit ended, from the attributes of the model or from its file; nothing for the other models."""
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
    ended = "stopped" if found["stopped"] == "iterations" else found["stopped"]
    after = "" if ended in ("closed form", "full rank") else f" after {found['iterations']:,} iterations"
    pairs = {"objective": f"{found['objective']:.8g}, {ended}{after}"}
    if "kkt_residual" in found:
        pairs["KKT residual"] = f"{found['kkt_residual']:.3g}"
    return pairs
