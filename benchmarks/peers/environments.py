"""A virtual environment per package, made when it is missing. What cannot be installed is a result, not an error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TORCH = ["torch==2.13.0"]  # first and pinned: a plain `torch` pulls gigabytes for GPUs
NEEDS: dict[str, list[list[str]]] = {  # package: what pip installs, call by call
    "irspack": [["irspack"]],
    "implicit": [["implicit"]],
    "cornac": [["cornac"]],
    "rectools": [["rectools"]],
    "recpack": [TORCH, ["recpack"]],
    "lenskit": [TORCH, ["lenskit"]],
    "recbole": [TORCH, ["recbole", "numpy<2", "scipy<1.12", "pandas<2.3"]],  # later ones lack names that it uses
    "sansa": [["scikit-sparse==0.4.16"], ["sansa"]],  # later ones need SuiteSparse 7, which distributions of 2023 lack
}
SHOWN = ("numpy", "scipy", "torch", "numba")


def python(package: str, work: Path) -> tuple[str | None, dict[str, Any]]:
    """The interpreter that has the package, None if it cannot be installed, and the versions or the reason."""
    if package not in NEEDS:
        return sys.executable, {"versions": _versions(sys.executable, package)}
    folder = work / "venvs" / package
    interpreter, told = str(folder / "bin" / "python"), folder / "environment.json"
    if not told.exists():
        reason = None if _has(interpreter, package) else _install(package, folder)
        told.write_text(json.dumps({"reason": reason} if reason else {"versions": _versions(interpreter, package)}))
    found: dict[str, Any] = json.loads(told.read_text())
    return (None if "reason" in found else interpreter), found


def _has(interpreter: str, package: str) -> bool:
    return Path(interpreter).exists() and bool(_versions(interpreter, package).get(package))


def _install(package: str, folder: Path) -> str | None:
    """Why the installation failed, or None."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for names in NEEDS[package]:
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *names]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line.strip() for line in (done.stderr + done.stdout).splitlines()]
            return _reason([line for line in lines if "error" in line.lower()])
    return None


def _reason(lines: list[str]) -> str:
    """What a compiler missed, else the last error of pip; without folders."""
    for line in lines:
        if "fatal error: " in line:
            return f"a dependency has no wheel and could not be compiled: {line.partition('fatal error: ')[2]}"
    return lines[-1].removeprefix("ERROR: ") if lines else "pip failed without a message"


def _versions(interpreter: str, package: str) -> dict[str, str]:
    code = (
        "import sys, json\nfrom importlib.metadata import version, PackageNotFoundError\nout = {}\n"
        "for name in sys.argv[1:]:\n    try: out[name] = version(name)\n    except PackageNotFoundError: pass\n"
        "out['python'] = '.'.join(map(str, sys.version_info[:3]))\nprint(json.dumps(out))"
    )
    done = subprocess.run([interpreter, "-c", code, package, *SHOWN], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
