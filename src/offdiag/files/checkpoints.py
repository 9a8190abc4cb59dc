"""Shared by all checkpoints: a file names its run, is rejected by any other run, and stays whole after a kill."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from offdiag.errors import OffdiagError
from offdiag.files import atomic, container

PIECE = 1 << 24  # numbers converted at once


def write(path: Path, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """A file that is written whole or not at all."""
    with atomic.replacing(path) as file:
        container.write(file, {"model": "checkpoint"} | about, arrays, None)


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The file's description and its arrays, all verified; the arrays are views of the file: copy them."""
    with container.opened(path) as file:
        header = container.read_header(path, file)
        mapped = container.mapped(file, header)
    container.verify(path, mapped, header, True)
    return header.about, {name: container.array(mapped, header, name) for name in header.tensors}


def differences(theirs: dict[str, Any], ours: dict[str, Any], but: Collection[str] = ()) -> list[str]:
    """The settings in which the run of a checkpoint differs from this one."""
    return [
        f"{name}={theirs.get(name)!r} instead of {value!r}"
        for name, value in ours.items()
        if name not in but and theirs.get(name) != value
    ]


def other_run(path: Path, run: str, differing: list[str], place: str) -> OffdiagError:
    """The error for a checkpoint of another ``run`` ("fit", "run") in this ``place`` ("folder", "path")."""
    return OffdiagError(
        f"the checkpoint {str(path)!r} is of another {run}: {', '.join(differing)}; give the same data and settings to "
        f"continue it, or another {place} to start again"
    )


def add_matrix(digest: Any, matrix: Any, *kinds: DTypeLike) -> None:
    """Row pointers, columns and values of a CSR matrix, hashed as numbers of these types."""
    for array, kind in zip((matrix.indptr, matrix.indices, matrix.data), kinds, strict=True):
        for lo in range(0, len(array), PIECE):  # convert piece by piece to save memory
            digest.update(np.ascontiguousarray(array[lo : lo + PIECE], dtype=kind).data)
