"""The pages of the Python reference, from signatures and docstrings: one section for each public name and method."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import offdiag as od
from offdiag import model_list
from offdiag.models.estimator import Estimator
from offdiag.models.lists import Lists
from offdiag.models.new_items import Growing
from offdiag.models.recommender import Recommender
from offdiag.models.scores import Scores
from offdiag.tables import Tabular

FAMILIES = {
    "full rank": "Full-rank models",
    "sparse": "Sparse models",
    "order": "Models that know the order",
    "low rank": "Low-rank models",
    "blends": "Blends",
    "baselines": "Baselines",
    "nets": "Nets",
}
MADE = "<!-- made by python -m docs.make_api -->"
HEAD = f"""{MADE}
# API

Every public name, with its signature, its docstring as `help(od.EDLAE)` prints it, and an example that the tests run.
The guides say more: [models](models.md), [data](data.md), [evaluation](evaluation.md), [tuning](tuning.md),
[living models](living.md), [scikit-learn](scikit-learn.md).
"""
SECTIONS = {"Settings", "Example"}
SHARED = (Lists, Scores, Estimator, Growing, Recommender)  # what every model has


@dataclass
class Page:
    """A page: its file, its title, the text below it, and its names with their values."""

    file: str
    title: str
    about: str
    names: list[tuple[str, Any]]

    def text(self) -> str:
        values = [one for one in self.names if is_short(one[1])]
        seen: dict[Any, str] = {}
        sections = [section(*one, seen) for one in self.names if one not in values]
        parts = (MADE, f"# {self.title}\n", self.about, values_table(values), *sections)
        return "\n".join(part for part in parts if part)


def pages() -> Iterator[Page]:
    for family, title in FAMILIES.items():
        names = [(f"od.{name}", getattr(od, name)) for name, one in model_list.MODELS.items() if one.family == family]
        yield Page(
            family.replace(" ", "-"), title, "Their methods are those of [every model](every-model.md).\n", names
        )
    shared: dict[str, Any] = {}
    for cls in SHARED:  # the last one that describes a name is the first to be asked
        shared |= methods("model", cls)
    yield Page("every-model", "What every model can do", "", list(shared.items()))
    about = "Interactions, splits, lists, results, explanations and studies are also [tables](#tables).\n"
    library = [(f"od.{name}", getattr(od, name)) for name in od._HOMES if name not in model_list.MODELS]
    yield Page("library", "Data, evaluation, tuning", about, [*library, ("Tables", Tabular)])
    for name in od._MODULES:
        module = getattr(od, name)
        yield Page(name, f"od.{name}", described(module), list(members(name, module)))


def index() -> str:
    """Every name, its first sentence, and the link to its section."""
    parts = [HEAD]
    for page in pages():
        parts += [f"## [{page.title}](api/{page.file}.md)\n", "| | |", "|---|---|"]
        for name, value in page.names:
            link = f"api/{page.file}.md" + f"#{anchor(title_of(name, value))}" * (not is_short(value))
            parts.append(f"| [`{name}`]({link}) | {cell(first_sentence(value))} |")
        parts.append("")
    return "\n".join(parts)


def section(name: str, value: Any, seen: dict[Any, str], level: int = 2) -> str:
    """A heading, the call, the docstring; then the methods of a class, or the members of a module.

    ``seen`` holds the methods that are on the page, and with which class; they are not repeated.
    """
    head = f"{'#' * level} {title_of(name, value)}\n"
    call = f"```python\n{name}{signature(value)}\n```\n" if has_call(value) else ""
    inner = list(inside(name, value))
    repeated = [one for one in inner if one[1] in seen]
    inner = [one for one in inner if one not in repeated]
    seen.update((one, name) for _, one in inner if not inspect.isclass(one))
    values = [one for one in inner if is_short(one[1])]
    sections = [section(*one, seen, level + 1) for one in inner if one not in values]
    parts = (head, call, described(value), repetition(repeated, seen), values_table(values), *sections)
    return "\n".join(part for part in parts if part)


def repetition(repeated: list[tuple[str, Any]], seen: dict[Any, str]) -> str:
    """Where methods that several classes share are described."""
    homes: dict[str, list[str]] = {}
    for name, value in repeated:
        homes.setdefault(seen[value], []).append(f"`{title_of(name.rpartition('.')[2], value)}`")
    lines = [f"As in [{home}](#{anchor(home)}): {', '.join(names)}.\n" for home, names in homes.items()]
    return "\n".join(lines)


def is_short(value: Any) -> bool:
    """Whether a row of a table holds all that a property has to say."""
    return isinstance(value, property) and not re.search(r"\n\n|>>> ", doc(value))


def values_table(values: list[tuple[str, Any]]) -> str:
    if not values:
        return ""
    rows = [f"| `{name}` | {cell(prose(doc(value)))} |" for name, value in values]
    return "\n".join(["| value | |", "|---|---|", *rows]) + "\n"


def cell(words: str) -> str:
    """Text in a table."""
    return " ".join(words.split()).replace("|", "\\|")


def inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if inspect.ismodule(value):
        yield from members(name.removeprefix("od."), value)
    elif inspect.isclass(value):
        yield from methods("result" if value is Tabular else name.rpartition(".")[2], value)


def doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def title_of(name: str, value: Any) -> str:
    return f"{name}()" if callable(value) and not inspect.isclass(value) else name


def has_call(value: Any) -> bool:
    """A model lists its settings in the docstring, which is more than their names."""
    if inspect.isclass(value):
        return value is not Tabular and not issubclass(value, Recommender | Exception)
    return callable(value)


def methods(owner: str, cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class with a docstring; not those that every model or every table has."""
    elsewhere = () if cls in (*SHARED, Tabular) else (*SHARED, Tabular)
    bases = [base for base in cls.__mro__ if base not in elsewhere] if elsewhere else [cls]
    names = dict.fromkeys(name for base in bases for name in vars(base) if not name.startswith("_"))
    for name in names:
        value = next(vars(base)[name] for base in bases if name in vars(base))
        if not isinstance(value, property):
            value = inspect.unwrap(getattr(value, "__func__", value))
        ours = getattr(value.fget if isinstance(value, property) else value, "__module__", "") or ""
        if (inspect.isfunction(value) or isinstance(value, property)) and value.__doc__ and ours.startswith("offdiag"):
            yield f"{owner}.{name}", value


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
            stars = {word.VAR_POSITIONAL: "*", word.VAR_KEYWORD: "**"}.get(word.kind, "")
            shown = re.sub(r"<(.*)>", r"\1", repr(word.default)).replace("'", '"')
            words.append(f"{stars}{word.name}" if word.default is word.empty else f"{word.name}={shown}")
    line = f"({', '.join(words)})"
    return line if len(line) < 90 else "(\n" + "".join(f"    {word},\n" for word in words) + ")"


def first_sentence(value: Any) -> str:
    text = " ".join(doc(value).partition("\n\n")[0].split())
    return re.split(r"(?<=[.?]) (?=[A-Z])", text)[0]


def anchor(title: str) -> str:
    """As a forge and the site make it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def described(value: Any) -> str:
    """A docstring as Markdown: settings as a table, formulas and examples as blocks."""
    parts = []
    for title, body in split_sections(doc(value)):
        if title == "Settings":
            parts.append(settings_table(body))
        elif title == "Example":
            parts.append(f"```pycon\n{body.rstrip()}\n```\n")
        else:
            parts += [f"{prose(paragraph)}\n" for paragraph in re.split(r"\n{2,}", body.strip()) if paragraph]
    return "\n".join(parts)


def split_sections(text: str) -> Iterator[tuple[str, str]]:
    """The title and the unindented text of each section; the title of the first is empty."""
    title, lines = "", []
    for line in text.splitlines():
        if line.endswith(":") and line[:-1] in SECTIONS:
            yield title, inspect.cleandoc("\n".join(lines))
            title, lines = line[:-1], []
        else:
            lines.append(line)
    yield title, inspect.cleandoc("\n".join(["", *lines]))


def prose(paragraph: str) -> str:
    if paragraph.startswith("min "):
        return f"```text\n{paragraph}\n```"
    paragraph = re.sub(r"^([^-\s].*\n)(?=- )", r"\1\n", paragraph, flags=re.M)  # a list needs an empty line before it
    return re.sub(r"\bdocs/([\w/-]+\.md(?:#[\w-]+)?)", r"[docs/\1](../\1)", paragraph)


def settings_table(body: str) -> str:
    rows = ["| setting | values | default | meaning |", "|---|---|---|---|"]
    for name, values, default, about in re.findall(r"^(\w+): (.*); default (.*)\n((?:    .*\n?)+)", body, re.M):
        rows.append(f"| `{name}` | {cell(values)} | `{default}` | {cell(prose(about))} |")
    return "\n".join(rows) + "\n"
