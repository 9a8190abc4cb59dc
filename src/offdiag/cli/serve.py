"""`offdiag serve`: saved models behind HTTP."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from offdiag.cli import console
from offdiag.errors import OffdiagError

EXAMPLE = (
    "Examples: `offdiag serve films.od --titles films.csv`, "
    "`offdiag serve new.od old.od --port 9000 --workers 2 --access-log -`"
)


def serve(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="One or more model files.")],
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 picks a free port and prints it.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Also answer requests to this name; repeatable."),
    ] = None,
    titles: Annotated[
        str | None, typer.Option("--titles", metavar="FILE", help="A table of ids and titles: CSV, TSV or Parquet.")
    ] = None,
    id_column: Annotated[str, typer.Option("--id-column", help="Its column of ids, by name or position.")] = "item",
    title_column: Annotated[str, typer.Option("--title-column", help="Its column of titles.")] = "title",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes; they share the mapped models.")] = 1,
    token_env: Annotated[
        str | None,
        typer.Option("--token-env", metavar="NAME", help="Ask for the bearer token in this environment variable."),
    ] = None,
    max_k: Annotated[int, typer.Option("--max-k", min=1, help="Items in one list, at most.")] = 1000,
    max_history: Annotated[int, typer.Option("--max-history", min=1, help="Ids in one history, at most.")] = 5000,
    max_filter: Annotated[
        int, typer.Option("--max-filter", min=1, help="Ids in one list of allowed or blocked items, at most.")
    ] = 20_000,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="Bytes of one request, at most.")] = 1 << 20,
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=1, help="Connections of one process, at most.")
    ] = 1024,
    max_per_address: Annotated[
        int, typer.Option("--max-per-address", min=1, help="Of them from one address; behind a proxy, all are.")
    ] = 512,
    timeout: Annotated[float, typer.Option("--timeout", min=0.01, help="Seconds for one request, at most.")] = 10.0,
    reload_every: Annotated[
        float, typer.Option("--reload-every", min=0, help="Look for new files at this interval in seconds; 0: never.")
    ] = 2.0,
    access_log: Annotated[
        str | None, typer.Option("--access-log", metavar="FILE", help="A line of JSON per request; - is stdout.")
    ] = None,
) -> None:
    """Serve models over HTTP, with a page at /, until Ctrl-C. New model files are loaded without a pause."""
    from offdiag.server import process
    from offdiag.server.limits import Limits

    _check_log(access_log, [*models, *([titles] if titles else [])])
    token = _token(token_env)
    service = process.Service(
        tuple(models), host, port, titles, (id_column, title_column), workers, token,
        Limits(
            k=max_k, history=max_history, filter=max_filter, body=max_body, seconds=timeout,
            connections=max_connections, per_address=max_per_address,
        ), reload_every, access_log,
        tuple(map(_host, allow_host or ())),
    )  # fmt: skip
    process.serve(service, console.message)


def _check_log(log: str | None, read: list[str]) -> None:
    """Check that the log is not written to a file that is served."""
    for name in read if log is not None and os.path.exists(log) else []:
        if os.path.exists(name) and os.path.samefile(str(log), name):
            raise OffdiagError(
                f"--access-log {log!r} is a file that is served, and would be spoilt; choose another name"
            )


def _host(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|[0-9a-fA-F:]*:[0-9a-fA-F:.]*", name):
        raise OffdiagError(
            f"--allow-host takes a name such as shop.example.org, without a port or https://, received {name!r}"
        )
    return name


def _token(name: str | None) -> str | None:
    if name is None:
        return None
    token = os.environ.get(name, "").strip()
    if not token:
        raise OffdiagError(f"expected a token in the environment variable {name}, received nothing; set it first")
    if not token.isascii():
        raise OffdiagError(f"expected a token of ASCII characters in {name}: browsers cannot send others")
    return token
