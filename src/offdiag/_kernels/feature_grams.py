"""Inner products of a few sparse rows with each other, for many small sets of rows."""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def grams(indptr, indices, data, width, sets, first, last, out):
    """out[s, a, b] = row sets[s, a] · row sets[s, b] for the sets first..last; −1 in a set is an empty row."""
    dense = np.zeros(width, dtype=out.dtype)
    for s in range(first, last):
        for a in range(sets.shape[1]):
            one = sets[s, a]
            if one < 0:
                out[s, a, :] = 0
                out[s, :, a] = 0
                continue
            for p in range(indptr[one], indptr[one + 1]):
                dense[indices[p]] = data[p]
            for b in range(a + 1):
                other = sets[s, b]
                total = 0.0
                if other >= 0:
                    for p in range(indptr[other], indptr[other + 1]):
                        total += data[p] * dense[indices[p]]
                out[s, a, b] = total
                out[s, b, a] = total
            for p in range(indptr[one], indptr[one + 1]):
                dense[indices[p]] = 0
