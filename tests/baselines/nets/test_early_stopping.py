"""The users that decide which epoch is kept: given ones, or some that are set aside."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.baselines.nets import early_stopping
from tests.fixtures.nets import SMALL, data


def test_a_twentieth_is_set_aside_and_not_trained_on(split):
    X = split.train.matrix
    rest, watched = early_stopping.set_aside(X, 0)
    n = (np.diff(X.indptr) > 0).sum()
    assert watched.histories.shape[0] == n // 20
    assert rest.shape[0] == X.shape[0] - n // 20
    together = (watched.histories + watched.targets).tocsr()
    assert together.nnz == watched.histories.nnz + watched.targets.nnz
    assert rest.nnz + together.nnz == X.nnz
    lengths = np.diff(together.indptr)
    assert lengths.min() >= 5
    np.testing.assert_array_equal(np.diff(watched.targets.indptr), lengths // 5)
    rows = {row.tobytes() for row in X.toarray()}
    assert all(row.tobytes() in rows for row in together.toarray().astype(np.float32))
    other = early_stopping.set_aside(X, 1)[1]
    assert not np.array_equal(other.targets.toarray(), watched.targets.toarray())


def test_with_few_users_none_is_set_aside_and_the_last_epoch_is_kept():
    model = od.MultDAE(rank=2, epochs=3).fit(data(12, 6))
    assert (model.validation_, model.epochs_, model.best_epoch_) == ([], 3, 3)


@pytest.mark.parametrize("held_out", [0.05, 0.3])
def test_the_ndcg_watched_is_the_one_evaluate_reports(held_out):
    split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=2), held_out=held_out)
    model = od.EASE(l2=10.0).fit(split.train)
    watched = early_stopping.given(split.validation, split.train.item_ids)
    expected = od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"]
    assert watched.ndcg(model.weights_) == pytest.approx(expected, abs=1e-12)


def test_validation_of_other_columns_is_refused(split):
    make = SMALL["MultDAE"]
    other = od.split.strong(od.synthetic.interactions(100, 50, 2_000, seed=1), held_out=0.2)
    with pytest.raises(od.OffdiagError, match="columns of the training data"):
        make().fit(split.train, validation=other.validation)
    backwards = split.train.select_items(np.arange(split.train.n_items)[::-1])
    with pytest.raises(od.OffdiagError, match="in another order"):
        make().fit(backwards, validation=split.validation)
    nothing = replace(split.validation, targets=sparse.csr_array(split.validation.targets.shape))
    with pytest.raises(od.OffdiagError, match="no user with targets"):
        make().fit(split.train, validation=nothing)
