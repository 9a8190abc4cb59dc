"""The tree means something: a file imports only from earlier groups, nothing heavy loads early, tags resolve."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import offdiag as od
from offdiag import catalogue
from offdiag.weights import KINDS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offdiag"
GROUPS = [
    {"errors", "catalogue", "checks", "progress", "memory", "wording", "files", "gramian.layout"},
    {"metrics", "weights", "protocols", "_kernels"},
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
    "jinja2",
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


# Files that may check a model's shape of weights: what they compute exists for that shape only.
KNOW_A_SHAPE = {
    "living/full_rank.py": "Woodbury changes the packed inverse itself",
    "living/sparse.py": "columns are replaced in the stored rows themselves",
    "tuning/trial_runner.py": "the errors of users left out are read from the packed inverse",
}


@cache
def modules():
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@cache
def parsed(path):
    return ast.parse(path.read_text())


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
        return  # the top may use the public interface
    for name in imported(parsed(path)):
        if not name.startswith("offdiag."):
            continue
        other = name.removeprefix("offdiag.")
        assert group_of(other) is not None, f"{own} imports {name}, which has no group"
        # a model saves itself through persist: the one upward call, made inside the method
        if (own.partition(".")[0], other) == ("models", "persist"):
            continue
        assert group_of(other) <= group_of(own), f"{own} must not import {other}"


def group_of(module):
    """The rank of the longest listed name."""
    parts = module.split(".")
    return next((RANK[name] for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in RANK), None)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_only_where_they_are_needed(path):
    if path.relative_to(SOURCE).parts[0] in ("_kernels", "cli", "server"):
        return  # loaded on first use themselves
    top = [n for n in parsed(path).body if isinstance(n, ast.Import | ast.ImportFrom)]
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


def asks_for_a_shape(tree):
    """Whether a file distinguishes shapes of weights, by their class or by their kind."""
    shapes = {shape.__name__ for shape in KINDS.values()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            asked = shapes & {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node)}
        elif isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "kind":
            asked = KINDS.keys() & {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
        else:
            continue
        if asked:
            return True
    return False


def test_weights_are_asked_what_they_can_do_not_which_shape_they_have():
    found = {path.relative_to(SOURCE).as_posix() for path in modules() if asks_for_a_shape(parsed(path))}
    assert {path for path in found if not path.startswith("weights/")} <= KNOW_A_SHAPE.keys()


@pytest.mark.parametrize(
    "text", ["isinstance(W, Packed | Dense)", "isinstance(W, weights.Sparse)", 'W.kind == "network"']
)
def test_a_question_for_the_shape_is_seen(text):
    assert asks_for_a_shape(ast.parse(text))
    assert not asks_for_a_shape(ast.parse("isinstance(G, SparseGram) and W.linear"))


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
        tree = parsed(path)
        calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert "print" not in calls, path.name
        assert "pickle" not in {m.split(".")[0] for m in imported(tree)}, path.name


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(tree):
    """Private names of other modules of offdiag, imported or reached through their module."""
    found, known = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "offdiag":
            for alias in node.names:
                if find_module(f"{node.module}.{alias.name}"):
                    known[alias.asname or alias.name] = alias.name
                elif is_private(alias.name):
                    found.add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        through = (
            known.get(node.value.id) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None
        )
        if through and is_private(node.attr):
            found.add(f"{through}.{node.attr}")
    return found


def find_module(name):
    place = SOURCE.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_private_name_is_used_across_modules(path):
    assert not private_names(parsed(path))


def test_the_search_for_private_names_finds_them():
    code = "from offdiag import memory\nfrom offdiag.ranking import _listed\nmemory._LIMITS\nmemory.available()"
    assert private_names(ast.parse(code)) == {"offdiag.ranking._listed", "memory._LIMITS"}
    assert private_names(ast.parse("from offdiag._kernels import topk\ntopk.best")) == set()


# Modules without a test file of their own, and the file that tests them: through what a user calls, or because it is
# about several of them. A name that ends in / stands for a whole package. May only get shorter.
TESTED_IN = {
    "_kernels/": "_kernels/test_kernels.py",  # each kernel against its twin in Python
    "baselines/": "laws/test_contract.py",
    "cli/": "cli/test_commands.py",
    "data/columns.py": "living/test_events.py",
    "protocols.py": "test_evaluation.py",  # types only
    "cluster/": "cluster/test_cluster.py",  # all need workers, which one fixture starts once
    "data/_sets/archive.py": "data/test_datasets.py",
    "data/failures.py": "data/test_bad_tables.py",
    "data/invented_titles.py": "data/test_synthetic.py",
    "data/sparse_rows.py": "data/test_interactions.py",
    "errors.py": "test_architecture.py",  # nothing but names
    "files/container.py": "test_persist.py",
    "lab/checks.py": "lab/test_montecarlo.py",
    "lab/dropout_steps.py": "lab/test_dropout.py",
    "lab/resnet.py": "papers/test_pal2020.py",
    "living/": "living/test_exact_change.py",
    "models/": "laws/test_contract.py",
    "papers/": "papers/test_page.py",
    "plots/": "plots/test_results.py",
    "report/": "report/test_writer.py",
    "server/": "server/test_app.py",
    "solvers/als.py": "baselines/test_wmf.py",
    "solvers/alternating.py": "models/test_low_rank.py",
    "solvers/elastic_net.py": "baselines/test_slim.py",
    "solvers/gram_rows.py": "models/test_sparse.py",
    "solvers/gram_supports.py": "models/test_sparse.py",
    "solvers/lapack.py": "solvers/test_cholesky.py",
    "solvers/leave_one_out.py": "models/test_auto.py",
    "solvers/low_pass.py": "weights/test_sparse_low_rank.py",
    "solvers/low_rank.py": "models/test_low_rank.py",
    "solvers/neighbours.py": "baselines/test_item_knn.py",
    "solvers/popularity_order.py": "models/test_sparse.py",
    "solvers/precision.py": "laws/test_extreme_penalties.py",
    "solvers/pruning.py": "models/test_compression.py",
    "solvers/shrinkage.py": "models/test_spectral.py",
    "solvers/spectral.py": "models/test_spectral.py",
    "solvers/subspace.py": "models/test_low_rank.py",
    "solvers/support.py": "models/test_sparse.py",
    "tuning/": "tuning/test_search.py",
    "weights/": "weights/test_sparse.py",
}


def mirror(module):
    """data/_sets/archive.py → tests/data/_sets/test_archive.py."""
    place = ROOT / "tests" / module
    return place.with_name(f"test_{place.name}")


def test_every_module_has_a_mirrored_test_file():
    names = [path.relative_to(SOURCE).as_posix() for path in modules() if not path.name.startswith("__")]
    rooms = tuple(name for name in TESTED_IN if name.endswith("/"))
    missing = [name for name in names if not mirror(name).is_file()]
    assert [name for name in missing if name not in TESTED_IN and not name.startswith(rooms)] == []
    # The list only shrinks: it names modules that exist and lack a test file, and files that exist.
    assert [name for name in TESTED_IN if name not in missing and name not in rooms] == []
    assert [test for test in TESTED_IN.values() if not (ROOT / "tests" / test).is_file()] == []


def tables_of_models(tree):
    """The models that each literal collection of a file names, where it names at least three."""
    models = {name: name for name in catalogue.MODELS} | catalogue.COMMANDS
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set):
            parts = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
            named = {models.get(part.value) for part in parts if isinstance(part, ast.Constant)} - {None}
            if len(named) >= 3:
                yield sorted(named)


def test_the_models_stand_in_one_table():
    for path in modules():
        if path.name == "catalogue.py" or "papers" in path.parts:  # a paper's rows are a table of its own
            continue
        assert not list(tables_of_models(parsed(path))), f"{path.name}: take them from the catalogue"


def test_solvers_take_numbers_and_no_bag_of_settings():
    for path in (SOURCE / "solvers").rglob("*.py"):
        assert "settings[" not in path.read_text(), f"{path.name}: give it plain arguments"


def test_the_command_line_starts_without_the_models():
    code = "import sys; from offdiag import cli; cli.main(['--help']); print('offdiag.models' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


MARKUP = re.compile(
    r"<(?:!doctype|html|head|body|main|header|footer|section|article|div|span|p|a|b|i|h[1-6]|ul|ol|li|table|tr|td|th"
    r"|pre|code|small|figure|details|style|script|svg)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_html_is_written_in_templates_only(path):
    if path.relative_to(SOURCE).as_posix() == "plots/svg.py":
        return  # the SVG kit, which escapes what it writes
    texts = [n.value for n in ast.walk(parsed(path)) if isinstance(n, ast.Constant)]
    assert [text for text in texts if isinstance(text, str) and MARKUP.search(text)] == []


def untyped_models(tree):
    """Parameters and variables called model that are annotated Any."""
    named = [node for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign)]
    names = [
        (node.arg if isinstance(node, ast.arg) else getattr(node.target, "id", ""), node.annotation) for node in named
    ]
    return [name for name, kind in names if name == "model" and getattr(kind, "id", "") == "Any"]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_model_has_a_type(path):
    assert untyped_models(parsed(path)) == [], "see protocols.py"


def test_an_untyped_model_is_seen():
    assert untyped_models(ast.parse("def fit(model: Any): ...\nmodel: Any = 1")) == ["model", "model"]
    assert untyped_models(ast.parse("def fit(model: Fitted, X: Any): ...")) == []


def test_names_of_tests_are_short_sentences():
    found = re.compile(r"^\s*def (test_\w{66,})\(", re.M)
    long = {p.name: names for p in (ROOT / "tests").rglob("test_*.py") if (names := found.findall(p.read_text()))}
    assert long == {}, "at most 70 characters"


def test_no_test_module_imports_from_another():
    """Code that tests share is in tests/fixtures, tests/laws or a conftest."""
    pattern = re.compile(r"^\s*(?:from tests\.(?:\w+\.)*test_\w+ import|from tests(?:\.\w+)* import test_)", re.M)
    found = {str(p.relative_to(ROOT)): pattern.findall(p.read_text()) for p in (ROOT / "tests").rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


# Words that read as translated, with what to write instead (the style guide of the project).
TRANSLATED = {
    r"\btold\b": "reported, printed",
    r"\bwhat came\b": "what was received",
    r"\bgoes on\b": "continues",
    r"\banew\b": "again",
    r"\breckon": "estimate",
    r"\bbeside\b": "next to, compared with",
    r"\bso many beginnings\b": "the number of random starts",
    r"\bwhich is none\b": "is not a …",
    r"\bsame face\b": "same interface",
}


def test_no_line_uses_words_that_read_as_translated():
    generated = {"results.md", "cluster-arithmetic.md"}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in generated]
    for path in [*modules(), *pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word, instead in TRANSLATED.items():
                assert not re.search(word, line), f"{path.name}:{number} write {instead}: {line.strip()}"
