"""The reference of the command line: every command with its usage, help, arguments, options and examples."""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from docs.api_pages import cell
from offdiag import cli
from offdiag.cli import help_page

HEAD = """<!-- made by python -m docs.make_api -->
# Every command and option

What `offdiag COMMAND --help` prints. The [guide](cli.md) shows each command at work and says more.
"""


def text() -> str:
    app = typer.main.get_command(cli.application())
    return "\n".join([HEAD, *sections(app, typer.Context(app, info_name="offdiag"))])


def sections(group: Any, context: Any) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = typer.Context(command, info_name=name, parent=context)
        yield section(command, inner)
        if hasattr(command, "commands"):
            yield from sections(command, inner)


def section(command: Any, context: Any) -> str:
    given = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    arguments = [one for one in given if one.param_type_name == "argument"]
    families = {"Arguments": [(help_page.placeholder(one), help_page.about(one)) for one in arguments]}
    families |= help_page.families(one for one in given if one not in arguments and "--help" not in one.opts)
    name = context.command_path.removeprefix("offdiag ")
    parts = [f"## {name}\n", f"```text\n{help_page.usage(command, context, given)}\n```\n"]
    parts.append(f"{inspect.cleandoc(command.help or '')}\n")
    parts += [table(family, rows) for family, rows in families.items() if rows]
    if examples := (command.epilog or "").splitlines()[1:]:
        parts.append("```text\n" + "\n".join(f"$ {line.strip()}" for line in examples) + "\n```\n")
    return "\n".join(parts)


def table(family: str, rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {family} | |", "|---|---|", *(f"| `{cell(name)}` | {cell(about)} |" for name, about in rows)]
    return "\n".join(lines) + "\n"
