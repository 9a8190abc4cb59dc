"""Runs the cells of the notebooks in docs/notebooks, in order, and writes what they showed into the files.

Run from the root of the tree: python -m docs.make_notebooks
"""

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
KINDS = {"image/svg+xml": "_repr_svg_", "text/html": "_repr_html_"}


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook with new outputs; it runs in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = run("".join(cell["source"]), names, count)
            cell = cell | {"execution_count": count, "outputs": outputs}
        cells.append(cell)
    return notebook | {"cells": cells}


def run(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, and what its last line is if that is an expression."""
    tree, value = ast.parse(source), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {count}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(text)})
    if value is not None:
        data = {kind: lines(getattr(value, method)()) for kind, method in KINDS.items() if hasattr(value, method)}
        data["text/plain"] = lines(f"<{type(value).__name__}>" if data else repr(value))
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def text_of(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            found = executed(json.loads(path.read_text()))
        path.write_text(text_of(found))
        print(os.path.relpath(path))
