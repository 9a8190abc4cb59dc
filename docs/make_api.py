"""Writes what is made from the code: docs/api.md, the settings in docs/cli.md, and src/offdiag/__init__.pyi.

Run from the root of the tree: python -m docs.make_api
"""

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import offdiag as od
from offdiag import model_list
from offdiag.cli import model_options
from offdiag.models.estimator import Estimator
from offdiag.models.lists import Lists
from offdiag.models.recommender import Recommender
from offdiag.models.scores import Scores
from offdiag.tables import Tabular

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = {
    "full rank": "Full-rank models",
    "sparse": "Sparse models",
    "order": "Models that know the order",
    "low rank": "Low-rank models",
    "blends": "Blends",
    "baselines": "Baselines",
    "nets": "Nets",
}
BEGIN, END = "<!-- settings: made by docs/make_api.py -->", "<!-- end of settings -->"
HEAD = """# API

Every public name with the text of its docstring, as `help(od.EDLAE)` prints it; made by `python -m docs.make_api`.
The guides say more: [models](models.md), [data](data.md), [evaluation](evaluation.md), [tuning](tuning.md),
[living models](living.md), [scikit-learn](scikit-learn.md).
"""


def files() -> dict[Path, str]:
    """The contents of every file that is made."""
    guide = ROOT / "docs" / "cli.md"
    before, _, rest = guide.read_text().partition(BEGIN)
    return {
        ROOT / "docs" / "api.md": page(),
        guide: f"{before}{BEGIN}\n{settings_table()}{END}{rest.partition(END)[2]}",
        ROOT / "src" / "offdiag" / "__init__.pyi": stub(),
    }


def page() -> str:
    parts = [HEAD]
    for family, title in FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [
            entry(f"od.{name}", getattr(od, name)) for name, one in model_list.MODELS.items() if one.family == family
        ]
    shared = [line for cls in (Recommender, Estimator, Scores, Lists) for line in methods("model", cls) if line]
    parts += ["## What every model can do\n", *dict.fromkeys(shared), ""]
    parts += ["## Tables\n", "Interactions, splits, lists, results, explanations and studies are also tables.\n"]
    parts += methods("result", Tabular)
    parts += ["## Data, evaluation, tuning\n", *(entry(f"od.{name}", getattr(od, name)) for name in others())]
    for name in od._MODULES:
        module = getattr(od, name)
        parts += [f"## od.{name}\n", f"{text_of(module)}\n", *(entry(*member) for member in members(name, module))]
    return "\n".join(parts)


def others() -> list[str]:
    return [name for name in od._HOMES if name not in model_list.MODELS]


def entry(title: str, value: Any) -> str:
    """A heading, the call, the docstring; for classes the methods that are their own."""
    if isinstance(value, ModuleType):
        return f"### {title}\n\n{text_of(value)}\n"
    # A model lists its settings in the docstring, which is more than their names.
    call = "" if inspect.isclass(value) and issubclass(value, Recommender | Exception) else signature(value)
    own = "\n".join(methods(title.rpartition(".")[2], value)) if inspect.isclass(value) else ""
    head = f"{title}{call}\n\n" if call else ""
    return f"### {title}\n\n```text\n{head}{text_of(value)}\n```\n" + (f"\n{own}" if own else "")


def methods(title: str, cls: type) -> list[str]:
    found = []
    for name, value in vars(cls).items():
        value = value.fget if isinstance(value, property) else inspect.unwrap(getattr(value, "__func__", value))
        if name.startswith("_") or not inspect.isfunction(value) or not inspect.getdoc(value):
            continue
        call = signature(value) if not isinstance(vars(cls)[name], property) else ""
        about = re.sub(r"\s+", " ", text_of(value).partition("\n\n")[0])
        found.append(f"- `{title}.{name}{call}`: {about}")
    return [*found, ""] if found else []


def members(name: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module."""
    listed = getattr(module, "__all__", None)
    for member in listed or [one for one in vars(module) if not one.startswith("_")]:
        if member in model_list.MODELS:  # it stands above
            continue
        value = getattr(module, member)
        shown = inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)
        if shown and (listed or getattr(value, "__module__", None) == module.__name__):
            yield f"od.{name}.{member}", value


def signature(value: Any) -> str:
    """As it is called. Types are left out: how they print depends on the versions of Python and NumPy."""
    words, star = [], False
    for word in inspect.signature(value).parameters.values():
        if word.kind is word.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        if word.name not in ("self", "cls"):
            words.append(word.name if word.default is word.empty else f"{word.name}={word.default!r}")
    return f"({', '.join(words)})"


def text_of(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def settings_table() -> str:
    """The options of settings of `offdiag fit`."""
    rows = ["| setting | takes | meaning |", "|---|---|---|"]
    for name, known in model_options.settings().items():
        takes = {one.values().replace('"', "`"): None for one in known.values()}
        about = model_options.help_text(known).replace("|", "\\|")
        rows.append(f"| `{model_options.option_name(name)}` | {'; '.join(takes)} | {about} |")
    return "\n".join(rows) + "\n"


def import_line(module: str, names: list[str]) -> str:
    """As ruff formats it."""
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= 120 else f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def stub() -> str:
    homes = sorted((module, name) for name, module in od._HOMES.items())
    homes += [(module.rpartition(".")[0], name) for name, module in od._MODULES.items()]
    lines = [
        import_line(module, [name for _, name in group])
        for module, group in groupby(sorted(homes), key=lambda home: home[0])
    ]
    names = "".join(f'    "{name}",\n' for name in od.__all__)
    return (
        '"""The public names, for editors and mypy; made by docs/make_api.py."""\n\n'
        + "\n".join(lines)
        + f"\n\n__version__: str\n__all__ = [  # noqa: RUF022 - the order of dir(offdiag)\n{names}]\n"
    )


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
