"""ONNX files give the lists of the library under onnxruntime."""

import sys

import numpy as np
import pytest

import offdiag as od
from tests.export.conftest import MAKE, assert_same_lists

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow


def positions(model, histories):
    m, place = len(model.item_ids_), {item: at for at, item in enumerate(model.item_ids_.tolist())}
    width = max(map(len, histories))
    return np.array([[place[i] for i in h] + [m] * (width - len(h)) for h in histories], dtype=np.int64)


def run(path, history):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["items", "positions", "scores"], {"history": history})


@pytest.mark.parametrize("name", MAKE)
def test_the_graph_ranks_as_the_library_does(fitted, histories, tmp_path, name):
    model = fitted[name]
    od.export.write_onnx(model, tmp_path / "m.onnx", k=10)
    items, places, scores = run(tmp_path / "m.onnx", positions(model, histories))
    assert_same_lists(model, histories, items.tolist(), scores)
    assert model.item_ids_[places].tolist() == items.tolist()


def test_one_short_history_and_lists_of_all_items(fitted, histories, tmp_path):
    model = fitted["EASE"]
    m = len(model.item_ids_)
    od.export.write_onnx(model, tmp_path / "m.onnx", k=m)
    items, _, scores = run(tmp_path / "m.onnx", positions(model, [histories[0][:1]]))
    assert sorted(items[0].tolist()) == sorted(model.item_ids_.tolist())
    assert np.isneginf(scores).sum() == 1
    assert items[0, -1] == histories[0][0]


def test_mistakes_of_an_export_are_one_line(fitted, tmp_path, monkeypatch):
    with pytest.raises(od.OffdiagError, match="k must be a whole number from 1 to 60"):
        od.export.write_onnx(fitted["EASE"], tmp_path / "m.onnx", k=61)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(od.OffdiagError, match=r"pip install 'offdiag\[export\]'"):
        od.export.write_onnx(fitted["EASE"], tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_beyond_the_limit_of_a_file_is_refused(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("offdiag.export.onnx_graph._LARGEST", 1000)
    with pytest.raises(od.OffdiagError, match="at most 2 GB, the limit of an ONNX file"):
        od.export.write_onnx(fitted["EASE"], tmp_path / "m.onnx")
