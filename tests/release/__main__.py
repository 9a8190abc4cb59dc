from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST_WHEEL = 1_500_000
SLOW_EXTRAS = {"dev", "bench", "neural"}  # resolved by `make test`, which installs them


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def oldest(requirements: list[str]) -> list[str]:
    """Each requirement at its lower bound: `numpy>=2.0` is `numpy==2.0`."""
    return [re.sub(r">=([\w.]+).*$", r"==\1", one) for one in requirements]


def pythons() -> dict[str, str]:
    """Interpreters by version: on the path, or of pyenv."""
    found = {}
    for version in PYTHONS:
        places = [
            shutil.which(f"python{version}"),
            *map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python")),
        ]
        for place in filter(None, places):
            ran = subprocess.run(
                [place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
            )
            if ran.stdout.strip() == version:
                found[version] = place
                break
    return found


def environment(python: str, folder: Path, *requirements: str) -> Path:
    """A new environment with these packages; returns its Python."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = folder / "bin" / "python"
    command = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*command, *requirements], check=True)
    return inside


def build(folder: Path) -> Path:
    """Wheel and sdist; the wheel is built from the sdist, so nothing is missing there."""
    inside = environment(sys.executable, folder / "build", "build")
    subprocess.run([inside, "-m", "build", "--outdir", folder / "dist", ROOT], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert wheel.stat().st_size < LARGEST_WHEEL, f"the wheel has {wheel.stat().st_size:,} bytes"
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("offdiag/", "offdiag-")) for name in names)
    assert not [name for name in names if "__pycache__" in name or name.endswith((".nbi", ".nbc"))]
    print(f"built {wheel.name}, {wheel.stat().st_size:,} bytes, {len(names)} files")
    return wheel


def check(name: str, python: str, folder: Path, *requirements: str) -> bool:
    try:
        inside = environment(python, folder, *requirements)
        ran = subprocess.run([inside, SMOKE], cwd=folder, capture_output=True, text=True)
    except subprocess.CalledProcessError:
        print(f"{name}: cannot be installed")
        return False
    print(f"{name}: {ran.stdout.strip() if ran.returncode == 0 else ran.stderr[-1500:]}", flush=True)
    return ran.returncode == 0


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.release")
    options.add_argument("--wheel", type=Path, help="check this one instead of building it")
    options.add_argument("--no-extras", action="store_true")
    chosen = options.parse_args()
    about, found, passed = project(), pythons(), []
    with tempfile.TemporaryDirectory(prefix="offdiag-release-") as place:
        folder = Path(place)
        wheel = (chosen.wheel or build(folder)).resolve()
        for version, python in found.items():
            passed.append(check(f"Python {version}, newest", python, folder / f"newest-{version}", str(wheel)))
        first = next(iter(found))
        pins = oldest(about["dependencies"])
        passed.append(check(f"Python {first}, oldest", found[first], folder / "oldest", str(wheel), *pins))
        for extra in () if chosen.no_extras else sorted(set(about["optional-dependencies"]) - SLOW_EXTRAS):
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--disable-pip-version-check"]
            ran = subprocess.run([*words, f"{wheel}[{extra}]"], capture_output=True, text=True)
            print(f"extra {extra}: {'resolves' if ran.returncode == 0 else ran.stderr[-500:]}", flush=True)
            passed.append(ran.returncode == 0)
    if absent := [version for version in PYTHONS if version not in found]:
        print(f"not tested, because not installed here: Python {', '.join(absent)}")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
