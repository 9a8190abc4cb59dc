"""HTML pages: the files of the web page, and the reference generated offline from the OpenAPI description."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from offdiag.report import page

SAFE = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Static(StaticFiles):
    """The files of the page, always sent whole and revalidated each time, so that old and new ones are never mixed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [field for field in scope["headers"] if field[0] != b"range"]  # may be ignored [RFC 9110, 14.2]
        await super().__call__({**scope, "headers": headers}, receive, send)

    def file_response(self, *args: Any, **words: Any) -> Response:
        response = super().file_response(*args, **words)
        response.headers.update(SAFE)
        return response


def reference(openapi: dict[str, Any]) -> str:
    """The API reference in plain HTML. The machine-readable description is at /openapi.json."""
    operations = [
        {"path": path, "method": method.upper(), "about": about, **_input(about)}
        for path, methods in openapi["paths"].items()
        for method, about in methods.items()
    ]
    return page.html("offdiag.server", "reference.html", info=openapi["info"], operations=operations)


def _input(about: dict[str, Any]) -> dict[str, Any]:
    """Name, "needed" or the default, and the description of each parameter or field of the body; and its example."""
    rows = [(p["name"], p.get("schema", {}), p.get("required", False)) for p in about.get("parameters", [])]
    body = about.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        needed = body["schema"].get("required", [])
        rows += [(name, part, name in needed) for name, part in body["schema"]["properties"].items()]
    defaults = [json.dumps(part["default"]) if "default" in part else "optional" for _, part, _ in rows]
    fields = [
        (name, "needed" if need else default, part.get("description", ""))
        for (name, part, need), default in zip(rows, defaults, strict=True)
    ]
    return {"fields": fields, "example": None if body is None else json.dumps(body["example"])}
