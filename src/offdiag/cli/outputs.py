"""What several commands do with their results: check where files go, and describe models, fits and metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offdiag import wording
from offdiag.cli import console
from offdiag.data import sql
from offdiag.errors import OffdiagError
from offdiag.files import atomic, keys, switch
from offdiag.report.writer import setting_text


def check_file(out: str, data: str, option: str = "out", example: str = "model.od") -> None:
    """Raise now, not after a long fit, if the file cannot be written."""
    folder = Path(out).resolve().parent
    if Path(out).is_dir():
        raise OffdiagError(f"--{option} takes a file name, received the folder {out!r}; add a name such as {example}")
    if not folder.is_dir():
        raise OffdiagError(f"cannot save to {out!r}: the folder {str(folder)!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OffdiagError(f"cannot save to {out!r}: no permission to write in {str(folder)!r}; choose another folder")
    file = sql.file_of(data) or data
    if os.path.exists(out) and os.path.exists(file) and os.path.samefile(out, file):
        raise OffdiagError(f"--{option} is the file {str(file)!r} itself, which is read; choose another name")


def check_folder(folder: Path, *files: str) -> None:
    """Raise now, not after the work, if the files cannot be written to the folder."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not place.is_dir():
        raise OffdiagError(f"--out takes a folder, received {str(folder)!r}, but {str(place)!r} is a file")
    if not os.access(place, os.W_OK):
        raise OffdiagError(f"cannot write to {str(folder)!r}: no permission in {str(place)!r}; choose another folder")
    for file in files:
        atomic.check_replaceable(folder / file)


def saved_text(target: str) -> str:
    return f"{target} ({wording.size(os.path.getsize(target))})"


def settings_text(settings: dict[str, Any], params: dict[str, Any]) -> str:
    """Settings as used; those chosen by the library are marked."""
    marks = {name: " (auto)" for name, value in params.items() if value == "auto"}
    return ", ".join(f"{name} {setting_text(v)}{marks.get(name, '')}" for name, v in settings.items()) or "none"


def outcome(learned: Mapping[str, Any]) -> dict[str, Any]:
    """How an iterative fit ended, from the attributes of the model or from its file; empty for other models."""
    if "best_epoch_" in learned:
        return {"epochs": learned["epochs_"], "best_epoch": learned["best_epoch_"]}
    if "gap_" in learned:
        return {name: learned[f"{name}_"] for name in ("objective", "gap")}
    if "stopped_" not in learned:
        return {}
    found = {name: learned[f"{name}_"] for name in ("objective", "stopped")}
    found["iterations"] = len(learned["objectives_"]) - 1  # the first is the starting value
    if learned.get("kkt_residual_") is not None:
        found["kkt_residual"] = learned["kkt_residual_"]
    return found


def outcome_pairs(found: Mapping[str, Any]) -> dict[str, str]:
    """The same as text."""
    if "epochs" in found:
        return {"epochs": f"{found['epochs']:,}, the weights are those after {found['best_epoch']:,}"}
    if "gap" in found:
        return {"objective": f"{found['objective']:.8g}, within {found['gap']:.2g} of its minimum in every column"}
    if not found:
        return {}
    ended = "stopped" if found["stopped"] == "iterations" else found["stopped"]
    after = "" if ended in ("closed form", "full rank") else f" after {found['iterations']:,} iterations"
    pairs = {"objective": f"{found['objective']:.8g}, {ended}{after}"}
    if "kkt_residual" in found:
        pairs["KKT residual"] = f"{found['kkt_residual']:.3g}"
    return pairs


def key_pairs(out: str, key_file: str | None) -> dict[str, str]:
    """Where the key of a model's living state is kept; a lost key cannot be replaced."""
    if not switch.living_path(Path(os.path.realpath(out))).exists():
        return {}
    known = keys.keys_of(key_file)
    where = f"the variable {keys.KEY}" if known.given else str(known.path)
    return {"key": f"in {where}: keep a copy, apart from the model"}


def show_metrics(text: str, metrics: dict[str, Any]) -> None:
    """A table from `Result.to_dict()`, which is also stored in model files."""
    console.say(f"\n{text}:")
    rows = [[name, number(mean), number(metrics["sem"].get(name))] for name, mean in metrics["mean"].items()]
    console.show_table(["metric", ">mean", ">standard error"], rows)


def number(value: float | None, digits: str = ".4f") -> str:
    return "-" if value is None or value != value else format(value, digits)
