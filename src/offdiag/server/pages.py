"""HTML pages: the files of the web page, and the reference generated offline from the OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Iterator
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


def headers(pictured: bool) -> dict[str, str]:
    """Of the page: pictures of other hosts may be shown only if a catalogue names some."""
    if not pictured:
        return SAFE
    policy = SAFE["content-security-policy"].replace("img-src 'self'", "img-src 'self' https:")
    return SAFE | {"content-security-policy": policy}


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
    schemas = openapi["components"]["schemas"]
    operations = [
        {"path": path, "method": method.upper(), "id": path.strip("/"), "about": about}
        | {"fields": _fields(about), "example": _example(about), "answer": _answer(about, schemas)}
        for path, methods in openapi["paths"].items()
        for method, about in methods.items()
    ]
    operations.sort(key=lambda operation: operation["method"] != "POST")  # questions first
    return page.html("offdiag.server", "reference.html", info=openapi["info"], operations=operations)


def _fields(about: dict[str, Any]) -> list[dict[str, str]]:
    """Every parameter or field of the body."""
    rows = [
        (given["name"], given.get("schema", {}) | {"description": given.get("description", "")}, given.get("required"))
        for given in about.get("parameters", [])
    ]
    if (body := _body(about)) is not None:
        schema = body["schema"]
        rows += [(name, part, name in schema.get("required", [])) for name, part in schema["properties"].items()]
    return [_field(name, _without_null(part)) | {"default": _default(part, need)} for name, part, need in rows]


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """In a request, null is the same as leaving the field out."""
    return part | {"anyOf": [form for form in part["anyOf"] if form != {"type": "null"}]} if "anyOf" in part else part


def _body(about: dict[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = about.get("requestBody", {}).get("content", {}).get("application/json")
    return found


def _example(about: dict[str, Any]) -> str | None:
    body = _body(about)
    return None if body is None else json.dumps(body["example"])


def _field(name: str, part: dict[str, Any]) -> dict[str, str]:
    return {"name": name, "kind": kind_of(part), "description": part.get("description", "")}


def _default(part: dict[str, Any], needed: bool | None) -> str:
    if needed:
        return "needed"
    return json.dumps(part["default"]) if part.get("default") is not None else "–"


def _answer(about: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, str]]:
    """Every field of the answer, those of nested objects as items[].id."""
    content = about.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    return list(_nested("", content.get("schema", {}), schemas))


def _nested(prefix: str, part: dict[str, Any], schemas: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The fields below a schema; ours are not recursive."""
    for form in part.get("anyOf", [part]):
        if "items" in form:
            yield from _nested(f"{prefix}[]", form["items"], schemas)
        elif "$ref" in form:
            for name, field in schemas[form["$ref"].rpartition("/")[2]].get("properties", {}).items():
                path = f"{prefix}.{name}" if prefix else name
                yield _field(path, field)
                yield from _nested(path, field, schemas)


_WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}


def kind_of(part: dict[str, Any]) -> str:
    """What a field may hold, with its limits, in a few words."""
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(kind_of(form) for form in part["anyOf"]))
    if "enum" in part or "const" in part:
        return " or ".join(json.dumps(value) for value in part.get("enum", [part.get("const")]))
    if "$ref" in part:
        return "object"
    if part.get("type") == "array":
        inner = kind_of(part["items"])
        each = "ids" if inner == "whole number or text" else f"({inner})" if " " in inner else f"{inner}s"
        return f"list of {each}" + (f", at most {part['maxItems']:,}" if "maxItems" in part else "")
    low, high = part.get("minimum"), part.get("maximum")
    limits = "" if low is None else f" from {low:,.0f}" if high is None else f" from {low:,.0f} to {high:,.0f}"
    return _WORDS.get(part.get("type", ""), "object") + limits
