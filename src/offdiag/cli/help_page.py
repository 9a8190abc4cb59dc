"""The layout of help: options by family, hanging indents, one example per line, in the width of the terminal."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from offdiag.cli import console, layout

WIDEST = 100
INDENT = 2
NAMES = 24  # columns of the names of options; a longer name has a line of its own
OPTIONS, OTHER = "Options", "Other"
FAMILIES = {
    "Model": ("--model", "--set", "--groups", "--group-column", "--features", "--feature-columns"),
    "Search": ("--trials", "--seconds", "--study", "--fixed", "--range", "--held-out"),
    "Measuring": ("--metric", "--validate", "--targets", "--fold-in"),
    "Lists": (
        "--history", "--disliked", "--histories", "--history-decay", "--history-half-life", "--times",
        "--only-users", "--k", "--allow", "--block", "--block-pairs", "--include-seen",
        "--diversity", "--at-most", "--categories", "--per", "--one-per-group", "--new-places", "--reasons",
        "--strict", "--all", "--space", "--titles", "--id-column", "--title-column",
    ),
    "Size": ("--cluster", "--keep", "--checkpoint", "--storage", "--max-bytes"),
    "Updates": ("--updatable", "--event", "--key-file", "--prove", "--certificate", "--rotate-key"),
    "Address": ("--host", "--port", "--allow-host", "--token-env", "--workers"),
    "Limits": (
        "--max-k", "--max-history", "--max-filter", "--max-body", "--max-connections", "--max-per-address", "--timeout",
    ),
    "Data": (),
    "Cleaning": (
        "--where", "--missing", "--negative", "--decimal", "--date-format", "--normalise-users", "--action",
        "--weights", "--duplicates", "--text-ids", "--dislike-below", "--at-least", "--min-users", "--min-items",
    ),
    "Output": ("--out", "--rows-per-file", "--to", "--plot", "--access-log", "--json"),
    OTHER: ("--seed", "--version", "--install-completion", "--show-completion", "--help"),
}  # fmt: skip
FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
NUMBERS = {"int": "N", "integer": "N", "integer range": "N", "float": "NUMBER", "float range": "NUMBER", "Path": "FILE"}


def epilog(examples: Sequence[str]) -> str:
    """The end of a help text: one example per line."""
    return "\n".join([f"Example{'s' * (len(examples) > 1)}:", *examples])


def text(command: Any, context: Any) -> str:
    """The help of a command or of a group of commands."""
    width = min(console.width_of(sys.stdout), WIDEST) if sys.stdout.isatty() else console.columns(80)
    parameters = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    lines = layout.fill(f"Usage: {usage(command, context, parameters)}", width, 7)
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += ["", *layout.fill(_plain(paragraph), width)]
    given = [(placeholder(one), about(one)) for one in parameters if one.param_type_name == "argument"]
    options = {"Arguments": given} | families(one for one in parameters if one.param_type_name != "argument")
    below = _commands(command, context) if hasattr(command, "commands") else {}
    names = [name for rows in (below or options).values() for name, _ in rows]
    room = max(len("-h, --help"), *(len(name) for name in names if len(name) <= NAMES))
    for family, rows in (below | options).items():
        if rows:
            lines += ["", console.styled(f"{family}:", "bold"), *layout.pairs(rows, width, INDENT, room, room)]
    head, *examples = (command.epilog or "").splitlines() or [""]
    lines += ["", console.styled(head, "bold"), *(" " * INDENT + line.strip() for line in examples)] if head else []
    return "\n".join([*lines, ""])


def usage(command: Any, context: Any, parameters: Sequence[Any]) -> str:
    if hasattr(command, "commands"):
        return f"{context.command_path} COMMAND …"
    words = [context.command_path]
    for one in parameters:
        if one.param_type_name == "argument":
            name = placeholder(one)
            words.append(name if one.required else f"[{name}]")
    words += [f"{max(one.opts, key=len)} {placeholder(one)}" for one in parameters if _is_needed(one)]
    return " ".join([*words, "[OPTIONS]"])


def _is_needed(parameter: Any) -> bool:
    return bool(parameter.required) and parameter.param_type_name != "argument"


def families(options: Iterable[Any]) -> dict[str, list[tuple[str, str]]]:
    """The options of each family, families in the order of the table; those of a model's settings follow the model."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in options:
        found.setdefault(_family(one), []).append((_names(one), about(one)))
    known = [OPTIONS, "Model", *(family for family in found if family not in (OPTIONS, *FAMILIES)), *FAMILIES]
    return {family: found[family] for family in dict.fromkeys(known) if family in found}


def _family(option: Any) -> str:
    name = max(option.opts, key=len)
    panel = getattr(option, "rich_help_panel", None)
    if panel is None or FAMILY.get(name) == "Cleaning":
        return FAMILY.get(name, OPTIONS)
    return str(panel)


def _names(option: Any) -> str:
    """`-o, --out FILE`; a flag has no placeholder."""
    names = ", ".join([*sorted(option.opts, key=len), *option.secondary_opts])
    return names if getattr(option, "is_flag", False) else f"{names} {placeholder(option)}"


def placeholder(parameter: Any) -> str:
    if parameter.metavar:
        name = str(parameter.metavar)
    elif parameter.param_type_name == "argument":
        name = str(parameter.name).upper()
    else:
        # `bare_type` is of typer from 0.20 on
        kind = parameter.bare_type() if hasattr(parameter, "bare_type") else getattr(parameter.type, "name", "")
        name = next((shown for part, shown in NUMBERS.items() if str(kind).startswith(part)), "TEXT")
    return f"{name} …" if parameter.param_type_name == "argument" and parameter.nargs != 1 else name


def about(parameter: Any) -> str:
    words = _plain(parameter.help or "")
    default = parameter.default
    if _is_needed(parameter):
        return f"{words} Required."
    shown = parameter.show_default and not isinstance(default, bool) and not callable(default)
    if default is None or not shown or "default" in words.lower():
        return words
    return f"{words} Default:{layout.NO_BREAK}{f'{default:g}' if isinstance(default, float) else default}."


def _plain(words: str) -> str:
    return " ".join(words.replace("`", "").split())


def _commands(group: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        summary = _plain(inspect.cleandoc(command.help or "").partition("\n\n")[0])
        found.setdefault(str(getattr(command, "rich_help_panel", None) or "Commands"), []).append((name, summary))
    return found
