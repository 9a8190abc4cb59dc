"""Running a command: exit codes, errors as one line, and the note about compiling."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer

from offdiag import wording
from offdiag._kernels import machine_code
from offdiag.cli import console
from offdiag.errors import InterruptedFitWarning, NoMinimiserWarning, OffdiagError, UnknownItemsWarning

INTERRUPTED = 130
BROKEN_PIPE = 141

# typer bundles its own copy of click from 0.16 on and needs click before; this is the usage error of either.
_UsageError: Any = typer.BadParameter.__mro__[1]
_ClickError: Any = typer.BadParameter.__mro__[2]


def run(app: typer.Typer, argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for a user error, 130 after Ctrl-C."""
    console.hide(sys.argv[1:] if argv is None else argv)
    machine_code.announce(_note_compiling if sys.stderr.isatty() else None)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an id that the terminal cannot show must not fail
    try:
        with warnings.catch_warnings():
            # the commands print these themselves
            for category in (UnknownItemsWarning, InterruptedFitWarning, NoMinimiserWarning):
                warnings.simplefilter("ignore", category)
            command = typer.main.get_command(app)
            code = command.main(args=None if argv is None else list(argv), prog_name="offdiag", standalone_mode=False)
        sys.stdout.flush()
    except OffdiagError as error:
        return _mistake(console.as_options(str(error)))
    except _ClickError as error:
        return _mistake(_usage(error))
    except (BrokenPipeError, SystemExit) as end:
        if isinstance(end, SystemExit) and not end.code:
            return 0  # completion, which the shell asks for
        # The reader has closed the pipe; typer exits by itself in that case.
        # Python flushes stdout once more at exit: send that to /dev/null.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is None and error.strerror is None:
            raise
        place = f"{str(error.filename)!r}: " if error.filename is not None else ""
        return _mistake(f"{place}{error.strerror or error}")
    except MemoryError as error:
        return _mistake(f"not enough memory ({error or 'no detail'}); use fewer items, float32 or packed storage")
    except RuntimeError as error:
        if "can't start new thread" not in str(error):  # CPython has no class of its own for this
            raise
        return _mistake(
            "not enough memory, or too low a limit of the system, to start a thread; raise it (ulimit -u, -v)"
        )
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        console.message("interrupted; what was there before is kept")
    return code if isinstance(code, int) else 0


def _note_compiling() -> None:
    if machine_code.is_kept():
        console.note(
            "compiling, once: this takes a while, and later runs are faster; offdiag warm-up compiles everything"
        )
    else:
        console.note(
            "compiling at every start, because no folder is writable for the machine code; set NUMBA_CACHE_DIR"
        )


def _mistake(text: str) -> int:
    console.message(text)
    return 2


def _usage(error: Any) -> str:
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if isinstance(error, _UsageError) and context is not None else "offdiag"
    if option := getattr(error, "option_name", None) if hasattr(error, "possibilities") else None:
        parameters = [one for one in context.command.get_params(context) if one.param_type_name == "option"]
        known = [name for one in parameters for name in (*one.opts, *one.secondary_opts)]
        near = wording.suggestion(option, known)
        return f"{path} has no option {option}{near.replace(chr(39), '') or f'; see {path} --help'}"
    text = error.format_message().rstrip(". ")
    return f"{text[:1].lower()}{text[1:]}; see {path} --help"
