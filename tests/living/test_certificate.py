"""The certificate of a change: what it compares, what may be kept of it, how it is printed."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.living import exact_change
from offdiag.living import sparse as sparse_living
from offdiag.living.certificate import Certificate
from offdiag.models.recommender import Recommender
from tests.fixtures.changed_models import rows_of


@pytest.mark.parametrize("public", [Certificate, od.Gram, Recommender.update, Recommender.forget])
def test_the_examples_run(public):
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder().find(public, globs={}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries


def test_a_printed_certificate_shows_few_of_many_items():
    X = od.synthetic.interactions(30, 40, 300, seed=0)
    done = od.EASE(l2=1.0).fit(X).forget(X.select_users([0]))
    shown = repr(replace(done, new_items=["a", "b"], gone_items=list(range(100))))
    assert "new_items=['a', 'b'], gone_items=[0, 1, 2 and 97 more], method=" in shown
    assert shown.startswith("Certificate(action='forget', users=1, interactions=")


def test_certificates_distinguish_models(always_woodbury, X):
    model = od.EDLAE(dropout=0.4, l2=3.0).fit(X)
    first = model.forget(rows_of(X, [3]))
    second = model.forget(rows_of(X, [4]))
    assert second.matches(model)
    assert not first.matches(model)
    assert not second.matches(od.EDLAE(dropout=0.4, l2=3.0).fit(X))
    assert len({first.before, first.after, second.before, second.after}) == 4  # each under its own nonce
    assert set(first.to_dict()) >= {"residual", "weight_error", "proof", "before", "after", "nonce"}
    assert not set(first.to_dict()) & {"interactions", "new_items", "gone_items", "method", "seconds"}


def test_a_kept_certificate_rounds_errors_up_to_a_power_of_ten():
    X = sparse.csr_array((np.random.default_rng(1).random((60, 15)) < 0.3).astype(np.float32))
    change = od.EDLAE(dropout=0.4, l2=3.0).fit(X).forget(rows_of(X, [3]))
    for error, kept in ((3.1e-3, 1e-2), (1e-2, 1e-2), (3.1e-7, 1e-5), (0.0, 1e-5), (None, None)):
        assert replace(change, proof=error).to_dict()["proof"] == pytest.approx(kept)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: od.EDLAE(dropout=0.4, l2=3.0, dtype=dtype),
        lambda dtype: od.EDLAE(dropout=0.4, l2=3.0, propensity_power=0.5, dtype=dtype),
        lambda dtype: od.SparseEDLAE(neighbours=5, dropout=0.4, l2=3.0, user_power=0.0, dtype=dtype),
        lambda dtype: od.LowRankDLAE(rank=3, dropout=0.4, l2=3.0, user_power=0.0, dtype=dtype),
        lambda dtype: od.Popularity(),
    ],
    ids=["EDLAE", "EDLAE with propensities", "SparseEDLAE", "LowRankDLAE", "Popularity"],
)
def test_a_kept_certificate_is_the_same_whether_or_not_it_took_a_refit(make, dtype, monkeypatch, always_woodbury, rng):
    """A long history makes a refit more likely, so the certificate would reveal how long it was."""
    X = sparse.csr_array((rng.random((400, 60)) < 0.1).astype(np.float32))
    monkeypatch.setattr(sparse_living, "WORTH", 2.0)
    kept = []
    for least in (exact_change.LARGE, 0):  # number of changed items from which everything is fitted again
        monkeypatch.setattr(exact_change, "SMALL", least)
        monkeypatch.setattr(exact_change, "LARGE", least)
        done = make(dtype).fit(X).forget(rows_of(X, [3]), prove=True)
        assert (done.method == "refit") == (least == 0)
        about = done.to_dict()
        for name in ("nonce", "before", "after"):
            about.pop(name)
        kept.append(about)
    assert kept[0] == kept[1]
