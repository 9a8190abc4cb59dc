"""The tree means something: a file imports only from earlier groups, nothing heavy loads early, tags resolve."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import offdiag as od

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offdiag"
GROUPS = [
    {"errors", "progress", "memory", "packed", "atomic", "lock", "keys", "container", "sealed", "switch"},
    {"metrics", "weights", "kernels"},
    {"data", "gramian", "gramian_sparse", "solvers", "exact"},
    {"ranking", "recommendations", "reasons", "cluster", "lab"},
    {"models", "baselines"},
    {"evaluation", "living_state", "persist"},
    {"tuning", "diagnostics"},
    {"plots", "plots_lab", "plots_low_rank", "plots_tuning", "report"},
    {"papers"},
    {"server"},
    {"cli", "__main__"},
]
RANK = {name: rank for rank, names in enumerate(GROUPS) for name in names}
HEAVY = {
    "adbc_driver_duckdb",
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "adbc_driver_sqlite",
    "cryptography",
    "dask",
    "distributed",
    "duckdb",
    "fastapi",
    "implicit",
    "matplotlib",
    "numba",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "rich",
    "safetensors",
    "sqlalchemy",
    "starlette",
    "torch",
    "typer",
    "uvicorn",
}


def modules():
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


def imported(tree):
    """Every offdiag module imported anywhere in the file, and whether at run time."""
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names] if node.module == "offdiag" else [node.module]
            yield from names
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_from_its_own_or_earlier_groups(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    own = "kernels" if own.startswith("kernels_") else own
    assert own in RANK, f"{own} has no group: see docs/architecture.md"
    if own == "cli":
        return  # the top may use the public face
    for name in imported(ast.parse(path.read_text())):
        parts = name.split(".")
        if parts[0] != "offdiag" or len(parts) < 2:
            continue
        parts[1] = "kernels" if parts[1].startswith("kernels_") else parts[1]
        assert parts[1] in RANK, f"{own} imports offdiag.{parts[1]}, which has no group"
        # a model saves itself through persist: the one upward call, made inside the method
        if (own, parts[1]) == ("models", "persist"):
            continue
        assert RANK[parts[1]] <= RANK[own], f"{own} must not import {parts[1]}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_only_where_they_are_needed(path):
    if path.name.startswith("kernels") or path.parent.name in ("cli", "server"):
        return  # loaded on first use themselves
    top = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {
        (n.module or "").split(".")[0] if isinstance(n, ast.ImportFrom) else n.names[0].name.split(".")[0] for n in top
    }
    if path.relative_to(SOURCE).parts[0] == "data" and "numba" in names:
        assert "njit" in path.read_text(), "a compiled kernel file"
        names -= {"numba"}
    assert not names & HEAVY


def test_importing_offdiag_is_silent_and_loads_nothing_heavy():
    heavy = sorted(HEAVY | {"numpy", "scipy"})
    code = f"import sys, offdiag; print([m for m in sys.modules if m.split('.')[0] in {heavy}])"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert ran.stderr == ""


def test_every_public_name_resolves_and_the_list_is_sorted():
    assert list(od.__all__) == sorted(od.__all__)
    for name in od.__all__:
        assert getattr(od, name) is not None
    assert dir(od) == od.__all__
    with pytest.raises(AttributeError, match="nonsense"):
        od.nonsense  # noqa: B018


def test_every_equation_tag_names_a_known_reference():
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.M))
    assert keys
    for path in modules():
        for tag in re.findall(r"\[([A-Z][A-Za-z]+\d\d(?:-S)?)\b[^\]]*\]", path.read_text()):
            assert tag.removesuffix("-S") in keys or tag.replace("-", "") in keys, f"{path.name}: [{tag}]"


def test_no_file_prints_or_uses_pickle_in_the_library():
    for path in modules():
        if path.parent.name == "cli":
            continue
        tree = ast.parse(path.read_text())
        calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert "print" not in calls, path.name
        assert "pickle" not in {m.split(".")[0] for m in imported(tree)}, path.name
