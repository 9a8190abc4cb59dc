"""A linear model as an ONNX graph: positions of items in, ranked lists out, without Python or offdiag."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks, memory, reasons
from offdiag.errors import OffdiagError
from offdiag.export.arrays import linear_weights, matrices
from offdiag.files import atomic

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender
    from offdiag.weights import Weights

OPSET = 18  # ScatterElements that adds, ReduceSum with axes as an input
_LARGEST = 2**31 - 1  # bytes: protobuf cannot hold more in one file


def write_onnx(model: Recommender, path: str | os.PathLike[str], *, k: int = 10) -> None:
    """Write a linear model as one ONNX file that ranks items.

    Input ``history`` (int64, users × length) holds positions of items in ``model.item_ids_``, filled up with the number
    of items. Outputs are ``items`` (ids, users × k), ``positions`` and ``scores``; items of the history are left out,
    an empty history gets the popular items. Where fewer than k items are left, the score is −∞.

    Needs the package onnx (``pip install 'offdiag[export]'``).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.export.write_onnx(od.EASE(l2=10.0).fit(X), "ease.onnx", k=5)
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise OffdiagError("write_onnx needs onnx, which is not installed; pip install 'offdiag[export]'") from None

    if model.reads_order:
        raise OffdiagError(
            f"the ONNX graph takes a history as a set, but {type(model).__name__} weighs it by its order; export its "
            "weights with od.export.write_arrays, or another model"
        )
    weights = linear_weights(model)
    m = weights.shape[0]
    k = checks.whole("k", k, 1, m)
    ids = np.asarray(model.item_ids_)
    constants, nodes = _scores(weights, helper)
    constants |= {
        "ids": ids if ids.dtype.kind != "U" else ids.astype(object),
        "popular": reasons.shares_of(model.popularity_).astype(np.float32)[None],
        "nothing": np.array(-np.inf, dtype=np.float32),
        "m": np.array([m], dtype=np.int64),
        "zero": np.array([0], dtype=np.int64),
        "one": np.array([1], dtype=np.int64),
        "k": np.array([k], dtype=np.int64),
    }
    nodes += [
        helper.make_node("Equal", ["history", "m"], ["padding"]),
        helper.make_node("Cast", ["padding"], ["padding_number"], to=TensorProto.INT64),
        helper.make_node("ReduceMin", ["padding_number", "one"], ["empty_number"]),
        helper.make_node("Cast", ["empty_number"], ["empty"], to=TensorProto.BOOL),
        helper.make_node("Where", ["empty", "popular", "linear"], ["unmasked"]),
        # seen items get −∞; the column after the last takes the padding and is cut off
        helper.make_node("Pad", ["unmasked", "pads"], ["wide"]),
        helper.make_node("Shape", ["history"], ["size"]),
        helper.make_node("Expand", ["nothing", "size"], ["updates"]),
        helper.make_node("ScatterElements", ["wide", "history", "updates"], ["masked"], axis=1),
        helper.make_node("Slice", ["masked", "zero", "m", "one"], ["unseen"]),
        helper.make_node("TopK", ["unseen", "k"], ["scores", "positions"], axis=1),
        helper.make_node("Gather", ["ids", "positions"], ["items"], axis=0),
    ]
    constants["pads"] = np.array([0, 0, 0, 1], dtype=np.int64)
    _check_size(constants)
    text = ids.dtype.kind == "U"
    graph = helper.make_graph(
        nodes, "offdiag",
        [helper.make_tensor_value_info("history", TensorProto.INT64, ["users", "length"])],
        [
            helper.make_tensor_value_info("items", TensorProto.STRING if text else TensorProto.INT64, ["users", k]),
            helper.make_tensor_value_info("positions", TensorProto.INT64, ["users", k]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["users", k]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    about = {"model": type(model).__name__, "settings": json.dumps(model.settings_, default=str)}
    helper.set_model_props(made, about | {"padding": str(m)})
    checker.check_model(made)
    with atomic.replacing(Path(os.path.realpath(path))) as file:
        file.write(made.SerializeToString())


def _scores(weights: Weights, helper: Any) -> tuple[dict[str, NDArray[Any]], list[Any]]:
    """Constants and nodes that make ``linear`` (users × items) from ``history``; the last row of a table is padding."""
    found = matrices(weights)
    if "U" in found:
        constants = {"U": _padded(found["U"]), "Vt": np.ascontiguousarray(found["V"].T.astype(np.float32))}
        return constants, [
            helper.make_node("Gather", ["U", "history"], ["encoded"], axis=0),
            helper.make_node("ReduceSum", ["encoded", "one"], ["code"], keepdims=0),
            helper.make_node("MatMul", ["code", "Vt"], ["linear"]),
        ]
    if "W" not in found:
        m = weights.shape[0]
        memory.require(4 * m * m, f"a dense matrix of {m:,} items", "choose a low-rank model for ONNX")
        found = {"W": weights.toarray()}
    return {"W": _padded(found["W"])}, [
        helper.make_node("Gather", ["W", "history"], ["rows"], axis=0),
        helper.make_node("ReduceSum", ["rows", "one"], ["linear"], keepdims=0),
    ]


def _padded(table: NDArray[Any]) -> NDArray[np.float32]:
    """One more row of zeros, which the padding of a history reads."""
    return np.concatenate([table.astype(np.float32), np.zeros((1, table.shape[1]), np.float32)])


def _check_size(constants: dict[str, NDArray[Any]]) -> None:
    n_bytes = sum(value.nbytes for value in constants.values())
    if n_bytes > _LARGEST:
        raise OffdiagError(
            f"expected a model of at most 2 GB, the limit of an ONNX file, received {n_bytes / 1e9:.1f} GB; "
            "export a low-rank model"
        )
