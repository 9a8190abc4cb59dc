"""Lists chosen one item at a time: relevant, unlike what is chosen already, and at most some of each category."""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def choose(first, last, pool, relevance, diversity, indptr, indices, values, category, at_most, out):
    """out[u] = positions in pool[u] of the chosen items in order, -1 after the last.

    The next item maximises (1 − diversity)·relevance − diversity·(largest similarity to a chosen one); equal ones go
    to the earlier. ``category`` is -1 for items without one, which no quota limits. ``at_most`` 0: no quota.
    """
    n_pool, k = pool.shape[1], out.shape[1]
    similar = np.zeros(len(category), np.float64)  # of each item to the one just chosen
    penalty = np.empty(n_pool, np.float64)
    free = np.empty(n_pool, np.bool_)
    for u in range(first, last):
        penalty[:] = 0
        for p in range(n_pool):
            free[p] = pool[u, p] >= 0
        for t in range(k):
            best, most = -1, -np.inf
            for p in range(n_pool):
                if free[p]:
                    value = (1 - diversity) * relevance[u, p] - diversity * penalty[p]
                    if value > most:
                        best, most = p, value
            out[u, t] = best
            if best < 0:
                out[u, t:] = -1
                break
            free[best] = False
            item = pool[u, best]
            if at_most > 0 and category[item] >= 0:
                used = 0
                for s in range(t + 1):
                    used += category[pool[u, out[u, s]]] == category[item]
                if used >= at_most:
                    for p in range(n_pool):
                        if free[p] and category[pool[u, p]] == category[item]:
                            free[p] = False
            if diversity > 0:
                for e in range(indptr[item], indptr[item + 1]):
                    similar[indices[e]] = values[e]
                for p in range(n_pool):
                    if free[p]:
                        penalty[p] = max(penalty[p], similar[pool[u, p]])
                for e in range(indptr[item], indptr[item + 1]):
                    similar[indices[e]] = 0
