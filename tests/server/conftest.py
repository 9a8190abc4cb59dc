"""Models that the service tests swap for each other."""

import numpy as np
import pytest

import offdiag as od


@pytest.fixture(scope="session")
def model_files(tmp_path_factory):
    """Two models of the same items that rank differently, and a third with fewer items."""
    place = tmp_path_factory.mktemp("models")
    inter = od.synthetic.interactions(500, 90, 9_000, seed=4)
    numbered = od.Interactions(inter.matrix, inter.user_ids, np.arange(500, 500 + inter.n_items))
    od.EASE(l2=20.0, storage="dense").fit(numbered).save(place / "old.od")
    od.EASE(l2=2000.0, storage="dense").fit(numbered).save(place / "new.od")
    od.SparseEDLAE(neighbours=5).fit(numbered.select_users(np.arange(250))).save(place / "sparse.od")
    return place
