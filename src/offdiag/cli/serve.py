"""`offdiag serve`: saved models behind HTTP."""

from __future__ import annotations

import os
import re
from typing import Annotated

from typer import Option

from offdiag.cli import console
from offdiag.cli.commands import ModelFiles
from offdiag.errors import OffdiagError

EXAMPLES = (
    "offdiag serve films.od --titles films.csv",
    "offdiag serve new.od old.od --port 9000 --workers 2 --access-log -",
)


def serve(
    models: ModelFiles,
    host: Annotated[str, Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 picks a free one and prints it.")] = 8000,
    allow_host: Annotated[
        list[str] | None, Option(metavar="NAME", help="Also answer requests to this name; repeatable.")
    ] = None,
    titles: Annotated[
        str | None, Option(metavar="FILE", help="A table of ids and titles: CSV, TSV or Parquet.")
    ] = None,
    id_column: Annotated[str, Option(help="Column of ids in --titles: its name or position.")] = "item",
    title_column: Annotated[str, Option(help="Column of titles in --titles.")] = "title",
    workers: Annotated[int, Option(min=1, help="Processes, which share the mapped models.")] = 1,
    token_env: Annotated[
        str | None, Option(metavar="NAME", help="Require the bearer token in this environment variable.")
    ] = None,
    max_k: Annotated[int, Option(min=1, help="Items in one list, at most.")] = 1000,
    max_history: Annotated[int, Option(min=1, help="Ids in one history, at most.")] = 5000,
    max_filter: Annotated[int, Option(min=1, help="Ids in one list of allowed or blocked items, at most.")] = 20_000,
    max_body: Annotated[int, Option(min=1, help="Bytes of one request, at most.")] = 1 << 20,
    max_connections: Annotated[int, Option(min=1, help="Connections of one process, at most.")] = 1024,
    max_per_address: Annotated[
        int, Option(min=1, help="Connections from one address, at most; a proxy is one address.")
    ] = 512,
    timeout: Annotated[float, Option(min=0.01, help="Seconds for one request, at most.")] = 10.0,
    reload_every: Annotated[float, Option(min=0, help="Seconds between checks for new model files; 0: never.")] = 2.0,
    access_log: Annotated[str | None, Option(metavar="FILE", help="A line of JSON per request; - is stdout.")] = None,
) -> None:
    """Serve models over HTTP until Ctrl-C, with a page at /.

    New model files are loaded without a pause.
    """
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
