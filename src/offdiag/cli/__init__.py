"""The command line, the only room that prints: results on stdout, messages on stderr."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point: runs one command and returns the exit code."""
    try:
        from offdiag.cli import commands, console
    except KeyboardInterrupt:  # while the libraries load
        sys.stderr.write("offdiag: interrupted; what was there before is kept\n")
        return 130
    return console.run(commands.app, argv)
