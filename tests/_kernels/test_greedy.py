"""The greedy choice against its definition, written as plain loops."""

import numpy as np
import pytest
from scipy import sparse

from offdiag._kernels import greedy


def by_definition(pool, relevance, diversity, S, category, at_most, k):
    chosen = []
    while len(chosen) < k:
        best, most = None, -np.inf
        for p, item in enumerate(pool):
            kin = [q for q in chosen if category[pool[q]] == category[item]]
            full = at_most and category[item] >= 0 and len(kin) >= at_most
            if item < 0 or p in chosen or full:
                continue
            near = max((S[pool[q], item] for q in chosen), default=0.0)
            value = (1 - diversity) * relevance[p] - diversity * max(near, 0.0)
            if value > most:
                best, most = p, value
        if best is None:
            break
        chosen.append(best)
    return chosen + [-1] * (k - len(chosen))


@pytest.mark.parametrize("diversity", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("at_most", [0, 1, 2])
def test_the_choice_is_the_one_of_the_definition(diversity, at_most):
    rng = np.random.default_rng(7)
    m, n, n_pool, k = 30, 12, 15, 8
    S = np.round(rng.random((m, m)) * (rng.random((m, m)) < 0.4), 2)
    S = np.maximum(S, S.T)
    near = sparse.csr_array(S)
    category = rng.integers(-1, 4, m)
    pool = np.array([rng.permutation(m)[:n_pool] for _ in range(n)])
    pool[3, 10:] = -1  # a short list
    pool[4] = -1  # an empty one
    relevance = -np.sort(-rng.random((n, n_pool)), axis=1)
    found = np.full((n, k), -1)
    greedy.choose(
        0, n, pool, relevance, diversity, near.indptr.astype(np.int64), near.indices.astype(np.int64), near.data,
        category, at_most, found,
    )  # fmt: skip
    expected = [by_definition(pool[u], relevance[u], diversity, S, category, at_most, k) for u in range(n)]
    assert found.tolist() == expected
