"""The ids of items and the catalogue of products as the tensors of a model file, and back, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.data.catalogue import Catalogue
from offdiag.data.features import Features
from offdiag.data.ids import MAX_LENGTH
from offdiag.data.product_cells import NAMES
from offdiag.data.texts import Texts
from offdiag.errors import OffdiagError


def encode_ids(ids: NDArray[Any], name: str) -> tuple[dict[str, NDArray[Any]], str]:
    """Item ids as tensors of this name, and the dtype to restore them with."""
    if ids.dtype.kind in "iu":
        return {name: ids}, ids.dtype.newbyteorder("=").name
    texts = ids.tolist()
    if ids.ndim != 1 or not all(isinstance(text, str) for text in texts):
        raise OffdiagError(f"cannot save item ids of type {ids.dtype}: expected whole numbers or text")
    width = ids.dtype.itemsize // 4 if ids.dtype.kind == "U" else max(map(len, texts), default=1)
    return _text_tensors(name, Texts.of(texts)), f"U{max(width, 1)}"


def decode_ids(tensors: dict[str, NDArray[Any]], name: str, dtype: str, n: int) -> NDArray[Any]:
    if name in tensors:
        ids = tensors[name].astype(dtype)  # a copy: ids are used on every call
    else:
        column = Texts(tensors[f"{name}.offsets"], tensors[f"{name}.utf8"])
        column.check(n, name)
        texts = column.to_list()
        ids = np.array(texts, dtype=_text_type(dtype, texts))
    if ids.ndim != 1 or ids.dtype.kind not in "iuU" or len(ids) != n:
        raise ValueError("the item ids do not fit the model")
    return ids


def encode_catalogue(
    catalogue: Catalogue | None, kept_as: str = "catalogue"
) -> tuple[dict[str, NDArray[Any]], dict[str, Any] | None]:
    """The products as tensors whose names begin with ``kept_as``, and what the header says about them."""
    if catalogue is None:
        return {}, None
    tensors, ids_dtype = encode_ids(catalogue.items, f"{kept_as}.items")
    for name, column in catalogue.data.items():
        tensor = f"{kept_as}.{name}"
        tensors |= _text_tensors(tensor, column) if isinstance(column, Texts) else {tensor: column}
    return tensors, {"n_rows": len(catalogue), "columns": list(catalogue.columns), "ids_dtype": ids_dtype}


def decode_catalogue(
    tensors: dict[str, NDArray[Any]], about: dict[str, Any] | None, kept_as: str = "catalogue"
) -> Catalogue | None:
    """The products; their texts stay in the file until they are read."""
    if about is None:
        return None
    n = about["n_rows"]
    items = decode_ids(tensors, f"{kept_as}.items", about["ids_dtype"], n)
    if np.any(items[1:] <= items[:-1]):
        raise ValueError("the items of the catalogue are not in ascending order")
    data: dict[str, Texts | NDArray[np.float64]] = {}
    for name in (name for name in NAMES if name in about["columns"]):
        tensor = f"{kept_as}.{name}"
        if tensor in tensors:
            if name != "price" or tensors[tensor].shape != (n,) or tensors[tensor].dtype != np.float64:
                raise ValueError(f"the column {name} does not fit the catalogue")
            data[name] = tensors[tensor]
            continue
        texts = Texts(tensors[f"{tensor}.offsets"], tensors[f"{tensor}.utf8"])
        texts.check(n, tensor)
        data[name] = texts
    found = Catalogue(items, data)
    if found.too_long() is not None:
        raise ValueError(f"the texts of {kept_as}.{found.too_long()} are too long")
    return found


def encode_features(features: Features | None) -> tuple[dict[str, NDArray[Any]], dict[str, Any] | None]:
    """What is known about items as tensors, and what the header says about them."""
    if features is None:
        return {}, None
    return {f"features.{name}": array for name, array in features.arrays().items()}, features.about()


def decode_features(tensors: dict[str, NDArray[Any]], about: dict[str, Any] | None) -> Features | None:
    if about is None:
        return None
    own = {name.removeprefix("features."): array for name, array in tensors.items() if name.startswith("features.")}
    return Features.from_arrays(own, about)


def _text_tensors(name: str, texts: Texts) -> dict[str, NDArray[Any]]:
    return {f"{name}.offsets": texts.offsets, f"{name}.utf8": texts.utf8}


def _text_type(name: str, texts: list[str]) -> np.dtype[Any]:
    """The dtype of text ids; its stated width is the memory per id, so it is checked."""
    dtype = np.dtype(name)
    longest = max(map(len, texts), default=1)
    if dtype.kind != "U" or not 1 <= dtype.itemsize // 4 <= max(longest, MAX_LENGTH):
        raise ValueError(f"the item ids cannot be of type {str(name)[:40]!r}")
    memory.require(len(texts) * dtype.itemsize, f"the ids of {len(texts):,} items", "use shorter ids")
    return dtype
