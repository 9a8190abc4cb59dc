"""Sizes of new items from their features and from how many of each kind they have."""

import numpy as np
from scipy import sparse

from offdiag.solvers import new_sizes


def test_sizes_are_those_of_a_dense_ridge_regression():
    rng = np.random.default_rng(0)
    F, f = (sparse.csr_array(rng.random((n, 6)) * (rng.random((n, 6)) < 0.5)) for n in (40, 5))
    kinds, log = np.array([0, 0, 0, 1, 1, 1]), rng.standard_normal(40)
    counts = [np.log1p(np.stack([(A.toarray()[:, kinds == one] != 0).sum(1) for one in (0, 1)], 1)) for A in (F, f)]
    mean, spread = counts[0].mean(axis=0), counts[0].std(axis=0)
    A, a = (np.hstack([B.toarray(), (c - mean) / spread]) for B, c in zip((F, f), counts, strict=True))
    beta = np.linalg.solve(A.T @ A + new_sizes.RIDGE * np.eye(8), A.T @ (log - log.mean()))
    np.testing.assert_allclose(new_sizes.fit(F, kinds, log).of(f, kinds), a @ beta, atol=1e-3)


def test_items_of_which_more_is_known_are_larger_where_that_was_so():
    many = np.arange(30) % 3 + 1
    F = sparse.csr_array((np.arange(6) < many[:, None]) * 0.01)  # what it is hardly matters
    kinds = np.zeros(6, dtype=np.int64)
    found = new_sizes.fit(F, kinds, np.log(many)).of(F, kinds)
    np.testing.assert_allclose(found, np.log(many) - np.log(many).mean(), atol=0.1)


def test_counts_that_are_all_the_same_say_nothing():
    one_kind = np.zeros(3, dtype=np.int64)
    same = new_sizes.fit(sparse.csr_array(np.eye(3)), one_kind, np.array([0.0, 0.0, 3.0]))
    assert not same.counts.any()
    assert same.of(sparse.csr_array(np.eye(3)), one_kind)[2] > 0.9
    nothing = new_sizes.fit(sparse.csr_array((0, 3)), one_kind, np.empty(0))
    assert not nothing.of(sparse.csr_array(np.eye(3)), one_kind).any()
