"""Append-only lines of JSON, from which a stopped run resumes: a kill loses at most the line that was being written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from offdiag.errors import OffdiagError
from offdiag.wording import cut

T = TypeVar("T")


def read(path: Path) -> list[dict[str, Any]]:
    """The lines, without a truncated last one, which is removed from the file; ValueError if one is no JSON object."""
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in whole.decode("utf-8", "replace").splitlines()]
    if not all(isinstance(line, dict) for line in lines):
        raise ValueError("a line that is not an object")
    if len(whole) < len(text):
        os.truncate(path, len(whole))
    return lines


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line; it is on the disk when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def resume(path: Path, header: dict[str, Any], run: str, parse: Callable[[dict[str, Any]], T]) -> list[T]:
    """What the file of a ``run`` ("study") holds after its header; a new file begins with it.

    The file of a run with another header is rejected, and so is a line for which ``parse`` raises an error.
    """
    if (path.exists() and not path.is_file()) or not path.resolve().parent.is_dir():
        raise OffdiagError(f"expected a file name in a folder that exists for the {run}, received {str(path)!r}")
    if not path.exists() or not path.stat().st_size:
        append(path, header)
        return []
    ours = json.loads(json.dumps(header))
    try:
        first, *lines = read(path)
        if first.get("format") != header["format"]:
            raise ValueError("another format")
        differing = [
            f"{key} {cut(str(first.get(key)), 40)} there and {cut(str(value), 40)} here"
            for key, value in ours.items()
            if first.get(key) != value
        ]
        found = [] if differing else [parse(line) for line in lines]  # those of another run may not be readable here
    except (ValueError, TypeError) as error:
        raise OffdiagError(
            f"expected a {run} written by offdiag in {str(path)!r}, received something else ({error}); "
            "choose another file, or delete this one"
        ) from None
    if differing:
        raise OffdiagError(
            f"the {run} in {str(path)!r} is of something else: {', '.join(differing)}; choose another file"
        )
    return found
