"""Pages for people: the front page from its files, and the reference made from the OpenAPI description, offline."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

SAFE = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font-size: .9em } pre { overflow: auto; padding: .75rem; border: 1px solid #8886; border-radius: 6px }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top }
"""


class Static(StaticFiles):
    """The files of the page, always whole; asked for again each time, so that old and new ones are never mixed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [field for field in scope["headers"] if field[0] != b"range"]  # may be ignored [RFC 9110, 14.2]
        await super().__call__({**scope, "headers": headers}, receive, send)

    def file_response(self, *args: Any, **words: Any) -> Response:
        response = super().file_response(*args, **words)
        response.headers.update(SAFE)
        return response


def front(static: Path) -> Response:
    index = static / "index.html"
    if index.is_file():
        return HTMLResponse(index.read_bytes(), headers=SAFE)
    text = (
        '<!doctype html><meta charset="utf-8"><title>offdiag</title>'
        '<p>offdiag serves here: <a href="/docs">what it answers</a>.'
    )
    return HTMLResponse(text, headers=SAFE)


def reference(openapi: dict[str, Any]) -> str:
    """What can be asked, in plain HTML. The machine-readable description is at /openapi.json."""
    parts = []
    for path, methods in openapi["paths"].items():
        for method, about in methods.items():
            parts.append(_operation(path, method, about))
    title = f"{escape(openapi['info']['title'])} {escape(openapi['info']['version'])}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style><h1>{title}</h1><p>{escape(openapi['info']['description'])} "
        f'<a href="/openapi.json">OpenAPI</a> · <a href="/">page</a></p>{"".join(parts)}</html>'
    )


def _operation(path: str, method: str, about: dict[str, Any]) -> str:
    import json

    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(about.get('description', ''))}</p>"]
    rows = [
        (parameter["name"], parameter.get("schema", {}), parameter.get("required", False))
        for parameter in about.get("parameters", [])
    ]
    if "requestBody" in about:
        content = about["requestBody"]["content"]["application/json"]
        needed = content["schema"].get("required", [])
        rows += [(name, part, name in needed) for name, part in content["schema"]["properties"].items()]
        parts.append(f"<pre>{escape(json.dumps(content['example']))}</pre>")
    if rows:
        cells = "".join(
            f"<tr><td><code>{escape(name)}</code><td>{'needed' if needed else _default(part)}"
            f"<td>{escape(part.get('description', ''))}"
            for name, part, needed in rows
        )
        parts.append(f"<table>{cells}</table>")
    statuses = "".join(
        f"<tr><td>{escape(status)}<td>{escape(answer.get('description', ''))}"
        for status, answer in sorted(about.get("responses", {}).items())
    )
    parts.append(f"<details><summary>statuses</summary><table>{statuses}</table></details>")
    return "".join(parts)


def _default(part: dict[str, Any]) -> str:
    import json

    return escape(json.dumps(part["default"])) if "default" in part else "optional"
