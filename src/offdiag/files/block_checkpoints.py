"""A long fit on disk, block by block: a folder with a description of the fit and one file for each finished block."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.files import checkpoints

_ABOUT = "fit.od"
_BLOCK = re.compile(r"(all|pruned)-block-\d{6}\.od")
_UNFINISHED = re.compile(r"\.offdiag-[0-9a-f]+\.tmp")  # a file left incomplete by a kill


def data_facts(matrix: sparse.csr_array, item_ids: NDArray[Any]) -> dict[str, Any]:
    """Properties that distinguish one table of interactions from another."""
    digest = hashlib.sha256()
    checkpoints.add_matrix(digest, matrix, np.int64, np.int32, np.float64)
    digest.update(repr(item_ids.dtype).encode() + np.ascontiguousarray(item_ids).tobytes())
    n, m = matrix.shape
    return {"users": n, "items": m, "interactions": int(matrix.nnz), "contents": digest.hexdigest()[:16]}


class BlockCheckpoints:
    """The folder of one fit. Every file is written whole or not at all, so a kill leaves only finished blocks."""

    def __init__(self, folder: str | os.PathLike[str], settings: dict[str, Any], facts: dict[str, Any]) -> None:
        import offdiag

        self.folder = Path(folder)
        self._settings = settings | {"offdiag": offdiag.__version__}  # another version may differ in the last bits
        self._facts = facts
        self._mark = hashlib.sha256(json.dumps([self._settings, facts], sort_keys=True).encode()).hexdigest()
        self._stage = ""
        if self.folder.exists() and not self.folder.is_dir():
            raise OffdiagError(f"checkpoint takes a folder, received the file {str(folder)!r}; choose another name")
        target = self.folder / _ABOUT
        try:
            if target.exists():
                self._check(target)
                return
            if self.folder.is_dir() and any(not _UNFINISHED.fullmatch(path.name) for path in self.folder.iterdir()):
                raise OffdiagError(
                    f"the folder {str(folder)!r} holds other files and no checkpoint; choose an empty or a new folder"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OffdiagError(
                f"cannot keep a checkpoint in {str(folder)!r}: {error.strerror}; choose another"
            ) from None
        checkpoints.write(target, {"settings": self._settings, "data": facts}, {})

    def stage(self, name: str) -> BlockCheckpoints:
        """The same folder for another pass over the columns."""
        self._stage = name
        return self

    def restore(self, block: int, items: NDArray[np.int32]) -> dict[str, NDArray[Any]] | None:
        """The results for these columns, or None if they are still to be computed or the file is damaged."""
        path = self._path(block)
        if not path.exists():
            return None
        try:
            about, arrays = checkpoints.read(path)
        except OffdiagError:
            return None
        found = {name: array.copy() for name, array in arrays.items()}
        ours = about.get("fit") == self._mark and np.array_equal(found.pop("items", np.empty(0)), items)
        return found if ours else None  # else it is from another fit in this folder, or from other block limits

    def store(self, block: int, items: NDArray[np.int32], found: dict[str, NDArray[Any]]) -> None:
        tensors = sorted((found | {"items": items}).items(), key=lambda pair: -pair[1].itemsize)  # so all are aligned
        checkpoints.write(self._path(block), {"fit": self._mark}, dict(tensors))

    @staticmethod
    def clear(folder: str | os.PathLike[str]) -> None:
        """Delete the files of a fit that has been saved, and the folder if nothing else is in it."""
        with suppress(OSError):  # files that cannot be deleted stay: the model is safe
            for path in Path(folder).iterdir():
                if path.name == _ABOUT or _BLOCK.fullmatch(path.name) or _UNFINISHED.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            if not any(Path(folder).iterdir()):
                Path(folder).rmdir()

    @staticmethod
    def refuse(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
        """Refuse to write the model into the checkpoint folder, which is emptied once the model is saved."""
        if Path(out).resolve().parent == Path(folder).resolve():
            raise OffdiagError(f"{str(out)!r} lies in the checkpoint folder, which is emptied; save it elsewhere")

    def _path(self, block: int) -> Path:
        return self.folder / f"{self._stage}-block-{block:06d}.od"

    def _check(self, target: Path) -> None:
        about, _ = checkpoints.read(target)
        if about.get("model") != "checkpoint" or not isinstance(about.get("settings"), dict):
            raise OffdiagError(f"expected a checkpoint, received {str(target)!r}; choose another folder")
        differing = checkpoints.differences(about["settings"] | (about.get("data") or {}), self._settings | self._facts)
        if differing:
            raise checkpoints.other_run(self.folder, "fit", differing, "folder")
