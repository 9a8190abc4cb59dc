"""NumPy arrays: a reader of twenty lines, which knows nothing of offdiag, gives the same lists."""

import numpy as np
import pytest

import offdiag as od
from tests.export.conftest import MAKE, assert_same_lists


def rank(path, histories, k):
    """The scorer of docs/export.md."""
    found = np.load(path)
    ids, m = found["item_ids"], len(found["item_ids"])
    place = {item: at for at, item in enumerate(ids.tolist())}
    lists = []
    for history in histories:
        seen = np.array(sorted({place[item] for item in history if item in place}), dtype=int)
        if not len(seen):
            scores = found["popularity"] / found["popularity"].sum()
        elif "U" in found:
            scores = found["U"][seen].sum(axis=0) @ found["V"].T
        elif "W" in found:
            scores = found["W"][seen].sum(axis=0)
        else:
            scores = np.zeros(m, dtype=found["data"].dtype)
            for row in seen:
                part = slice(found["indptr"][row], found["indptr"][row + 1])
                scores[found["indices"][part]] += found["data"][part]
        scores = scores.astype(float)
        scores[seen] = -np.inf
        best = np.argsort(-scores, kind="stable")[:k]
        lists.append((ids[best].tolist(), scores[best]))
    return lists


@pytest.mark.parametrize("name", MAKE)
def test_twenty_lines_of_numpy_give_the_same_lists(fitted, histories, tmp_path, name):
    model = fitted[name]
    names = od.export.write_arrays(model, tmp_path / "m.npz")
    assert names[:2] == ["item_ids", "popularity"]
    lists = rank(tmp_path / "m.npz", histories[:-1], 10)
    assert_same_lists(model, histories[:-1], [items for items, _ in lists], [scores for _, scores in lists])
    ((popular, _),) = rank(tmp_path / "m.npz", [[]], 10)
    assert popular == model.recommend([[]], k=10).items[0].tolist()


def test_models_without_a_matrix_are_refused(inter, tmp_path):
    with pytest.raises(od.OffdiagError, match="expected a linear model, received Popularity"):
        od.export.write_arrays(od.Popularity().fit(inter), tmp_path / "m.npz")
    with pytest.raises(od.OffdiagError, match="received EASE without weights; call fit"):
        od.export.write_arrays(od.EASE(), tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())
