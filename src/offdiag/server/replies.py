"""Answers as bytes: JSON, and one-line errors."""

from __future__ import annotations

import http
import json
from collections.abc import Sequence
from typing import Any

import pydantic_core
from starlette.responses import Response


def _status_line(status: int) -> bytes:
    phrase = http.HTTPStatus(status).phrase if status in http.HTTPStatus.__members__.values() else "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")


status_line = {status: _status_line(status) for status in range(100, 600)}.__getitem__


def json_bytes(value: Any) -> bytes:
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, UnicodeError):  # an id with a lone surrogate: escaped
        return json.dumps(value).encode("ascii")


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        json_bytes(value), status, {"x-content-type-options": "nosniff"} | (headers or {}), "application/json"
    )


def error(status: int, text: str, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return json_reply({"error": " ".join(text.split())}, status, named)


def one_line(details: Sequence[Any]) -> str:
    """The first validation errors of pydantic, without the input."""
    parts = []
    for detail in details[:3]:
        place = ".".join(str(step) for step in detail["loc"] if step not in ("body", "query"))
        parts.append(f"{place[:100]}: {detail['msg']}" if place else str(detail["msg"]))
    more = f" (and {len(details) - 3} more)" if len(details) > 3 else ""
    return "; ".join(dict.fromkeys(parts)) + more
