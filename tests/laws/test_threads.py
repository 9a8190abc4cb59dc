"""The number of threads changes no byte: of a fit, of what is compressed, or of a list.

Only dense inverses depend on the threads of BLAS, which divides a factorisation by their number: there BLAS has one.
"""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import offdiag as od
from offdiag._kernels import parallel
from offdiag.weights import byte_copy
from tests.fixtures.ordered_histories import chains

THREADS = (1, 2, 3, 8)


@pytest.fixture(scope="module")
def data():
    return od.synthetic.interactions(400, 150, 6_000, seed=0)


def bytes_of(weights):
    return {name: array.tobytes() for name, array in weights.arrays().items()}


def results(monkeypatch, make, blas=None):
    """What ``make`` returns with each number of threads, ours and those of BLAS."""
    found = []
    for n in THREADS:
        monkeypatch.setattr(parallel, "n_threads", lambda n=n: n)
        with threadpool_limits(blas or n, user_api="blas"):
            found.append(make())
    return found


def all_equal(found):
    return all(one == found[0] for one in found)


@pytest.mark.parametrize("cls", [od.EDLAE, od.NextItem])
def test_a_dense_fit_is_the_same_with_any_number_of_our_threads(cls, data, monkeypatch):
    X = chains(n_users=300, m=40) if cls is od.NextItem else data
    assert all_equal(results(monkeypatch, lambda: bytes_of(cls(l2=20.0).fit(X).weights_), blas=1))


@pytest.mark.parametrize("cls", [od.SparseEDLAE, od.NextItem])
def test_a_sparse_fit_is_the_same_with_any_number_of_threads(cls, data, monkeypatch):
    X = chains(n_users=300, m=40) if cls is od.NextItem else data
    assert all_equal(results(monkeypatch, lambda: bytes_of(cls(l2=20.0, neighbours=10).fit(X).weights_)))


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("storage", ["packed", "dense"])
def test_lists_are_the_same_with_any_number_of_threads(storage, copied, data, monkeypatch):
    for name in ("FEWEST_ITEMS", "LEAST_SHARE", "OF_MANY"):
        monkeypatch.setattr(byte_copy, name, 1)
    monkeypatch.setenv("OFFDIAG_BYTE_COPY", str(int(copied)))
    model = od.EDLAE(l2=20.0, storage=storage).fit(data)

    def lists():
        vars(model.weights_).pop("byte_copy", None)
        assert model.weights_.prepare_lists() is copied
        found = model.recommend(data, k=20)
        return found.indices.tobytes(), np.asarray(found.scores).tobytes()

    assert all_equal(results(monkeypatch, lists))


def test_compressed_weights_are_the_same_with_any_number_of_threads(data, monkeypatch):
    model = od.EDLAE(l2=20.0).fit(data)
    assert all_equal(results(monkeypatch, lambda: bytes_of(od.compress(model, keep=20).weights_)))
