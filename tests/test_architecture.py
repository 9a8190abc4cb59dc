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
    {"errors", "checks", "progress", "memory", "wording", "files", "gramian.layout"},
    {"metrics", "weights", "_kernels"},
    {"data", "gramian", "solvers"},
    {"ranking", "recommendations", "reasons", "cluster", "lab"},
    {"models", "baselines", "living"},
    {"evaluation", "persist"},
    {"tuning", "diagnostics"},
    {"plots", "report"},
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
            yield from (f"{node.module}.{a.name}" for a in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_from_its_own_or_earlier_groups(path):
    own = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
    assert group_of(own) is not None, f"{own} has no group: see docs/architecture.md"
    if own.startswith("cli"):
        return  # the top may use the public face
    for name in imported(ast.parse(path.read_text())):
        if not name.startswith("offdiag."):
            continue
        other = name.removeprefix("offdiag.")
        assert group_of(other) is not None, f"{own} imports {name}, which has no group"
        # a model saves itself through persist: the one upward call, made inside the method
        if (own.partition(".")[0], other) == ("models", "persist"):
            continue
        assert group_of(other) <= group_of(own), f"{own} must not import {other}"


def group_of(module):
    """The rank of the longest name that is listed."""
    parts = module.split(".")
    return next((RANK[name] for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in RANK), None)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_only_where_they_are_needed(path):
    if path.relative_to(SOURCE).parts[0] in ("_kernels", "cli", "server"):
        return  # loaded on first use themselves
    top = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {
        (n.module or "").split(".")[0] if isinstance(n, ast.ImportFrom) else n.names[0].name.split(".")[0] for n in top
    }
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


def test_no_test_module_imports_from_another():
    """What tests share stands in tests/fixtures, tests/laws or a conftest."""
    pattern = re.compile(r"^\s*(?:from tests\.(?:\w+\.)*test_\w+ import|from tests(?:\.\w+)* import test_)", re.M)
    found = {str(p.relative_to(ROOT)): pattern.findall(p.read_text()) for p in (ROOT / "tests").rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}
