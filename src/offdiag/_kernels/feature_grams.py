"""Inner products of a few sparse rows with each other, for many small sets of rows."""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def grams(indptr, indices, data, width, sets, first, last, out):
    """out[s, a, b] = row sets[s, a] · row sets[s, b] for the sets first..last; −1 in a set is an empty row.

    Rows share few of their features, so each entry of a row meets only the earlier rows that have the same feature:
    they are a chain, from the latest to the first.
    """
    chain = np.full(width, -1, dtype=np.int64)  # the latest entry of each feature
    size, longest = sets.shape[1], 0
    for s in range(first, last):
        entries = 0
        for a in range(size):
            if sets[s, a] >= 0:
                entries += indptr[sets[s, a] + 1] - indptr[sets[s, a]]
        longest = max(longest, entries)
    before, owner = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    value = np.empty(longest, dtype=out.dtype)
    for s in range(first, last):
        out[s] = 0
        n = 0
        for a in range(size):
            one = sets[s, a]
            if one < 0:
                continue
            for p in range(indptr[one], indptr[one + 1]):
                feature = indices[p]
                before[n], owner[n], value[n] = chain[feature], a, data[p]
                chain[feature] = n
                q = n
                while q >= 0:
                    out[s, a, owner[q]] += data[p] * value[q]
                    q = before[q]
                n += 1
        for a in range(size):
            for b in range(a):
                out[s, b, a] = out[s, a, b]
            if sets[s, a] >= 0:
                for p in range(indptr[sets[s, a]], indptr[sets[s, a] + 1]):
                    chain[indices[p]] = -1
