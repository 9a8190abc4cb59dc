"""The tree means something: a file imports only from earlier groups, nothing heavy loads early, tags resolve."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import offdiag as od
from offdiag import model_list
from offdiag.weights import KINDS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offdiag"
GROUPS = [
    {
        "errors",
        "model_list",
        "checks",
        "progress",
        "memory",
        "wording",
        "files",
        "gramian.layout",
        "tables",
        "notebook",
        "title_search",
    },
    {"metrics", "weights", "protocols", "_kernels"},
    {"data", "gramian", "solvers"},
    {
        "ranking",
        "recommendations",
        "reasons",
        "rerank",
        "pair_filter",
        "list_files",
        "evaluation",
        "measured",
        "metric_names",
        "popularity_bands",
        "lab",
    },
    {"models", "baselines", "living"},
    {"cross_validation", "over_time", "reranked", "persist", "stored_items", "cluster"},
    {"tuning", "diagnostics", "export"},
    {"autopilot"},
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
    "faiss",
    "fastapi",
    "implicit",
    "jinja2",
    "matplotlib",
    "mlflow",
    "numba",
    "onnx",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "qdrant_client",
    "rich",
    "safetensors",
    "sklearn",
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
    "models/new_items.py": "items that were added are known to the grown weights alone",
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


def problems(find):
    """What a search finds in the files of the library, without those where it finds nothing."""
    found = {path.relative_to(SOURCE).as_posix(): find(path) for path in modules()}
    return {name: wrong for name, wrong in found.items() if wrong}


def imported_from_later_groups(path):
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
        if group_of(other) > group_of(own):
            yield other


def test_a_file_imports_only_from_its_own_or_earlier_groups():
    assert problems(lambda path: list(imported_from_later_groups(path))) == {}


def group_of(module):
    """The rank of the longest listed name."""
    parts = module.split(".")
    return next((RANK[name] for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in RANK), None)


def heavy_imports(path):
    if path.relative_to(SOURCE).parts[0] in ("_kernels", "cli", "server"):
        return set()  # loaded on first use themselves
    top = [n for n in parsed(path).body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {
        (n.module or "").split(".")[0] if isinstance(n, ast.ImportFrom) else n.names[0].name.split(".")[0] for n in top
    }
    return names & HEAVY


def test_heavy_libraries_are_imported_only_where_they_are_needed():
    assert problems(heavy_imports) == {}


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


def test_no_private_name_is_used_across_modules():
    assert problems(lambda path: private_names(parsed(path))) == {}


def test_the_search_for_private_names_finds_them():
    code = "from offdiag import memory\nfrom offdiag.ranking import _listed\nmemory._LIMITS\nmemory.available()"
    assert private_names(ast.parse(code)) == {"offdiag.ranking._listed", "memory._LIMITS"}
    assert private_names(ast.parse("from offdiag._kernels import topk\ntopk.best")) == set()


# Modules without a test file of their own, and the file that tests them through what a user calls; sorted.
# May only get shorter.
TESTED_IN = {
    "_kernels/als.py": "baselines/test_wmf.py",
    "_kernels/coded_rows.py": "weights/test_stored_rows.py",
    "_kernels/column_layout.py": "solvers/test_gram_rows.py",
    "_kernels/column_solves.py": "solvers/test_support.py",
    "_kernels/column_supports.py": "solvers/test_support.py",
    "_kernels/draws.py": "data/test_synthetic.py",
    "_kernels/elastic_net.py": "baselines/test_slim.py",
    "_kernels/embeddings.py": "solvers/test_products.py",
    "_kernels/exact_sums.py": "gramian/test_exact.py",
    "_kernels/gram_tiles.py": "cluster/test_full_rank.py",
    "_kernels/grouped_rows.py": "weights/test_protocol.py",
    "_kernels/neighbour_lists.py": "baselines/test_item_knn.py",
    "_kernels/order_rows.py": "solvers/test_order_supports.py",
    "_kernels/pair_counts.py": "gramian/test_packed.py",
    "_kernels/session_neighbours.py": "baselines/test_session_knn.py",
    "_kernels/shared_columns.py": "solvers/test_shared_columns.py",
    "_kernels/sparse_gram_rows.py": "gramian/test_sparse.py",
    "_kernels/sparse_rows.py": "weights/test_stored_rows.py",
    "autopilot/outcome.py": "autopilot/test_pilot.py",
    "baselines/nets/net_fields.py": "baselines/nets/test_fitting.py",
    "baselines/popularity.py": "laws/test_contract.py",
    "cli/reproduce.py": "papers/test_page.py",
    "cli/serve.py": "server/test_process.py",
    "cli/steck2020.py": "papers/steck2020/test_figure1.py",
    "cluster/placement.py": "cluster/test_counting.py",
    "cluster/tiles.py": "cluster/test_full_rank.py",
    "data/_sets/archive.py": "data/_sets/test_parsers.py",
    "data/columns.py": "living/test_events.py",
    "data/invented_titles.py": "data/test_synthetic.py",
    "errors.py": "test_api_page.py",
    "files/container.py": "test_persist.py",
    "lab/checks.py": "lab/test_montecarlo.py",
    "lab/dropout_steps.py": "lab/test_dropout_sgd.py",
    "living/log_rows.py": "living/test_events.py",
    "living/state.py": "living/test_past.py",
    "measured.py": "test_evaluation.py",
    "metric_names.py": "test_evaluation.py",
    "models/blended_parts.py": "models/test_blend.py",
    "models/ordered.py": "models/test_next_item.py",
    "models/recommender.py": "laws/test_contract.py",
    "models/sparse_from_gram.py": "models/test_sparse.py",
    "papers/driver.py": "papers/mianjy2018/test_chapters.py",
    "papers/mianjy2018/figures.py": "papers/mianjy2018/test_chapters.py",
    "papers/mianjy2018/optimum_chapters.py": "papers/mianjy2018/test_chapters.py",
    "papers/mianjy2018/sizes.py": "papers/mianjy2018/test_chapters.py",
    "papers/mianjy2018/surface.py": "papers/mianjy2018/test_measure.py",
    "papers/mianjy2018/training_chapters.py": "papers/mianjy2018/test_chapters.py",
    "papers/pal2020/deep.py": "papers/pal2020/test_chapters.py",
    "papers/pal2020/dropblock_chapters.py": "papers/pal2020/test_chapters.py",
    "papers/pal2020/extension_chapters.py": "papers/pal2020/test_chapters.py",
    "papers/pal2020/figures.py": "papers/pal2020/test_chapters.py",
    "papers/pal2020/measure.py": "papers/pal2020/test_chapters.py",
    "papers/pal2020/sizes.py": "papers/pal2020/test_chapters.py",
    "papers/pretorius2018/curve_chapters.py": "papers/pretorius2018/test_chapters.py",
    "papers/pretorius2018/end_chapters.py": "papers/pretorius2018/test_chapters.py",
    "papers/pretorius2018/figures.py": "papers/pretorius2018/test_chapters.py",
    "papers/steck2020/figure1_page.py": "papers/steck2020/test_figure1.py",
    "protocols.py": "test_evaluation.py",
    "report/page.py": "report/test_writer.py",
    "solvers/als.py": "baselines/test_wmf.py",
    "solvers/elastic_net.py": "baselines/test_slim.py",
    "solvers/lapack.py": "solvers/test_cholesky.py",
    "solvers/neighbours.py": "baselines/test_item_knn.py",
    "solvers/popularity_order.py": "solvers/test_gram_rows.py",
    "solvers/precision.py": "laws/test_extreme_penalties.py",
    "weights/compressed.py": "weights/test_stored_rows.py",
    "weights/constant.py": "weights/test_protocol.py",
    "weights/dense.py": "weights/test_protocol.py",
    "weights/grouped.py": "weights/test_protocol.py",
    "weights/implicit_factors.py": "weights/test_protocol.py",
    "weights/matrices.py": "weights/test_protocol.py",
    "weights/packed.py": "weights/test_protocol.py",
    "weights/sessions.py": "baselines/test_session_knn.py",
    "weights/signed.py": "weights/test_protocol.py",
    "weights/sparse.py": "weights/test_stored_rows.py",
    "weights/symmetric.py": "weights/test_protocol.py",
    "weights/tiles.py": "weights/test_protocol.py",
}


def mirror(module):
    """data/_sets/archive.py → tests/data/_sets/test_archive.py."""
    place = ROOT / "tests" / module
    return place.with_name(f"test_{place.name}")


def test_every_module_has_a_mirrored_test_file():
    names = [path.relative_to(SOURCE).as_posix() for path in modules() if not path.name.startswith("__")]
    assert [name for name in names if not mirror(name).is_file()] == list(
        TESTED_IN
    )  # in order, so that it only shrinks
    assert [test for test in TESTED_IN.values() if not (ROOT / "tests" / test).is_file()] == []


def tables_of_models(tree):
    """The models that each literal collection of a file names, where it names at least three."""
    models = {name: name for name in model_list.MODELS} | model_list.COMMANDS
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set):
            parts = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
            named = {models.get(part.value) for part in parts if isinstance(part, ast.Constant)} - {None}
            if len(named) >= 3:
                yield sorted(named)


def test_the_models_stand_in_one_table():
    for path in modules():
        if path.name == "model_list.py" or "papers" in path.parts:  # a paper's rows are a table of its own
            continue
        assert not list(tables_of_models(parsed(path))), f"{path.name}: take them from model_list"


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


def markup(path):
    texts = [n.value for n in ast.walk(parsed(path)) if isinstance(n, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and MARKUP.search(text)]


def test_html_is_written_in_templates_only():
    assert problems(markup).keys() == {"plots/svg.py"}, "the SVG kit escapes what it writes"


def untyped_models(tree):
    """Parameters and variables called model that are annotated Any."""
    named = [node for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign)]
    names = [
        (node.arg if isinstance(node, ast.arg) else getattr(node.target, "id", ""), node.annotation) for node in named
    ]
    return [name for name, kind in names if name == "model" and getattr(kind, "id", "") == "Any"]


def test_a_model_has_a_type():
    assert problems(lambda path: untyped_models(parsed(path))) == {}, "see protocols.py"


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
