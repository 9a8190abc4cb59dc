"""What all checkpoints share; the fits and trainings that use them have their own tests."""

import hashlib

import numpy as np
import pytest
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.files import checkpoints


def test_a_checkpoint_reads_back_what_was_written(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros(0, np.int32)}
    checkpoints.write(tmp_path / "run.od", {"epoch": 3}, arrays)
    about, found = checkpoints.read(tmp_path / "run.od")
    assert about == {"model": "checkpoint", "epoch": 3}
    assert {name: array.tolist() for name, array in found.items()} == {"a": [[0, 1, 2], [3, 4, 5]], "b": []}


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.od"
    checkpoints.write(path, {}, {"a": np.arange(100.0)})
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(OffdiagError, match="damaged"):
        checkpoints.read(path)


def test_another_run_is_refused_by_its_differences(tmp_path):
    differing = checkpoints.differences({"l2": 1.0, "epochs": 3}, {"l2": 2.0, "epochs": 5, "seed": 0}, but=("epochs",))
    assert differing == ["l2=1.0 instead of 2.0", "seed=None instead of 0"]
    error = checkpoints.other_run(tmp_path, "fit", differing, "folder")
    assert "is of another fit: l2=1.0 instead of 2.0, seed=None instead of 0; give the same data" in str(error)


def test_the_digest_of_a_matrix_does_not_depend_on_types_or_pieces(monkeypatch):
    X = sparse.random_array((30, 20), density=0.3, rng=0, format="csr")

    def digest(matrix):
        found = hashlib.sha256()
        checkpoints.add_matrix(found, matrix, np.int64, np.int32, np.float64)
        return found.hexdigest()

    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    whole = digest(X)
    assert digest(wide) == whole
    monkeypatch.setattr(checkpoints, "PIECE", 7)
    assert digest(X) == whole
    X.data[0] += 1
    assert digest(X) != whole
