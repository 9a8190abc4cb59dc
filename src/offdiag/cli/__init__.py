"""The command line, the only package that prints: results to stdout, messages to stderr. One file per command."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

FAMILIES = {
    "Learn": ("demo", "auto", "fit", "tune", "catalogue", "add-items", "compress"),
    "Ask": ("recommend", "similar", "explain", "serve"),
    "Check": ("evaluate", "info", "datasets"),
    "Keep up to date": ("update", "forget"),
    "Set up": ("warm-up",),
}
COMMANDS = tuple(name for names in FAMILIES.values() for name in names)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point: run one command and return the exit code."""
    try:
        from offdiag.cli import runner

        app = application()
    except KeyboardInterrupt:  # while the libraries load
        sys.stderr.write("offdiag: interrupted; what was there before is kept\n")
        return 130
    return runner.run(app, argv)


@functools.cache
def application() -> typer.Typer:
    """Every command with its example, in the order of the help."""
    from offdiag.cli import commands, help_page, inputs, model_options, reproduce

    app = commands.new_application()
    for family, names in FAMILIES.items():
        for name in names:
            function = name.replace("-", "_")
            module = import_module(f"offdiag.cli.{function}")
            command = getattr(module, function)
            kind = model_options.SettingsCommand if name == "fit" else commands.Command
            reads = "columns" in command.__annotations__
            add = app.command(name, cls=kind, epilog=help_page.epilog(module.EXAMPLES), rich_help_panel=family)
            add(inputs.reads_data(command) if reads else command)
    app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Papers")
    return app
