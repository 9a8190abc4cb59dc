import numpy as np
import pytest
from scipy import sparse

from offdiag.gramian import item_bands


@pytest.mark.parametrize("small_band", [8, 1 << 20])
def test_every_entry_of_an_item_is_in_one_task(monkeypatch, small_band):
    monkeypatch.setattr(item_bands, "SMALL_BAND", small_band)
    X = sparse.csr_array((np.random.default_rng(0).random((30, 17)) < 0.3).astype(np.float32))
    X.data[:] = np.arange(X.nnz)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.uint32)
    counts = np.bincount(X.indices, minlength=17).astype(np.int64)
    found = [[] for _ in range(17)]
    reported = []

    def work(col_ptr, users, positions, lo, hi):
        for i in range(lo, hi):
            part = slice(col_ptr[i - lo], col_ptr[i - lo + 1])
            found[i] += list(zip(users[part].tolist(), positions[part].tolist(), strict=True))

    item_bands.run_by_item(indptr, indices, counts, counts, work, max_bytes=0, report=reported.append)
    for i, entries in enumerate(found):
        column = X[:, [i]].tocoo()
        assert entries == list(zip(column.row.tolist(), column.data.astype(int).tolist(), strict=True))
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
