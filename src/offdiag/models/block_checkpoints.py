"""A long fit on disk, block by block: a folder that says what the fit is, and one file for each finished block."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import container
from offdiag.errors import OffdiagError

_ABOUT = "fit.od"


def data_facts(matrix: sparse.csr_array, item_ids: NDArray[Any]) -> dict[str, Any]:
    """What tells one table of interactions from another."""
    digest = hashlib.sha256()
    for part, kind in ((matrix.indptr, np.int64), (matrix.indices, np.int32), (matrix.data, np.float64)):
        for lo in range(0, len(part), 1 << 24):  # a copy of the wider type only in pieces
            digest.update(np.ascontiguousarray(part[lo : lo + (1 << 24)], dtype=kind).data)
    digest.update(repr(item_ids.dtype).encode() + np.ascontiguousarray(item_ids).tobytes())
    n, m = matrix.shape
    return {"users": n, "items": m, "interactions": int(matrix.nnz), "contents": digest.hexdigest()[:16]}


class BlockCheckpoints:
    """The folder of one fit. Every file is written whole or not at all, so a kill leaves only finished blocks."""

    def __init__(self, folder: str | os.PathLike[str], settings: dict[str, Any], facts: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self._settings, self._facts = settings, facts
        self._stage = ""
        if self.folder.exists() and not self.folder.is_dir():
            raise OffdiagError(f"checkpoint takes a folder, received the file {str(folder)!r}; choose another name")
        target = self.folder / _ABOUT
        if target.exists():
            self._check(target)
            return
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise OffdiagError(
                f"the folder {str(folder)!r} holds other files and no checkpoint; choose an empty or a new folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with container.replacing(target) as file:
            container.write(file, {"model": "checkpoint", "settings": settings, "data": facts}, {}, None)

    def stage(self, name: str) -> BlockCheckpoints:
        """The same folder for another pass over the columns."""
        self._stage = name
        return self

    def restored(self, block: int, items: NDArray[np.int32]) -> dict[str, NDArray[Any]] | None:
        """What was found for these columns, or None if they are still to be done: also if the file is damaged."""
        path = self._path(block)
        if not path.exists():
            return None
        try:
            with container.opened(path) as file:
                header = container.read_header(path, file)
                mapped = container.mapped(file, header)
            container.verify(path, mapped, header, True)
            found = {name: container.array(mapped, header, name).copy() for name in header.tensors}
        except OffdiagError:
            return None
        return (
            found if np.array_equal(found.pop("items", np.empty(0)), items) else None
        )  # else it was cut into other blocks

    def store(self, block: int, items: NDArray[np.int32], found: dict[str, NDArray[Any]]) -> None:
        tensors = sorted((found | {"items": items}).items(), key=lambda pair: -pair[1].itemsize)  # so all are aligned
        with container.replacing(self._path(block)) as file:
            container.write(file, {"model": "checkpoint"}, dict(tensors), None)

    @staticmethod
    def clear(folder: str | os.PathLike[str]) -> None:
        """Delete the files of a fit that has been saved, and the folder if nothing else is in it."""
        for path in [*Path(folder).glob("*-block-*.od"), Path(folder) / _ABOUT]:
            path.unlink(missing_ok=True)
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()

    def _path(self, block: int) -> Path:
        return self.folder / f"{self._stage}-block-{block:06d}.od"

    def _check(self, target: Path) -> None:
        with container.opened(target) as file:
            about = container.read_header(target, file).about
        if about.get("model") != "checkpoint" or not isinstance(about.get("settings"), dict):
            raise OffdiagError(f"expected a checkpoint, received {str(target)!r}; choose another folder")
        differences = [
            f"{name}={theirs.get(name)!r} instead of {value!r}"
            for theirs, ours in ((about["settings"], self._settings), (about.get("data") or {}, self._facts))
            for name, value in ours.items()
            if theirs.get(name) != value
        ]
        if differences:
            raise OffdiagError(
                f"the checkpoint {str(self.folder)!r} is of another fit: {', '.join(differences)}; give the same data "
                "and settings to continue it, or another folder to start anew"
            )
