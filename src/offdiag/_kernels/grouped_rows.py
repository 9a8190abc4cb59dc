"""Compiled loop over a packed symmetric matrix times a block diagonal one: tiles of the weights of grouped items."""

import numpy as np

from offdiag._kernels.packed_rows import entry
from offdiag._kernels.parallel import compiled


@compiled
def grouped_tile(
    P, h, e, rows, places, lo, hi, scale, group, starts, inside, block_starts, blocks, wanted, where, out, first, last
):
    """out[places[r]] = W[rows[r], lo:hi] for r in first..last: −C·D·scale between groups, 0 within them.

    ``wanted`` are the items whose columns of C are needed, and where[p] the place among them of the p-th item in the
    order of the groups. ``inside`` is the place of an item in its group. Sums are in double precision: the entries of a
    block may be large and of both signs.
    """
    block = 64
    T = np.empty((block, len(wanted)), out.dtype)
    for start in range(first, last, block):
        mine = rows[start : min(start + block, last)]
        for t in range(len(wanted)):  # rows inside: consecutive numbers of a packed row
            i = wanted[t]
            for r in range(len(mine)):
                T[r, t] = entry(P, h, e, mine[r], i)
        for r in range(len(mine)):
            own, mine_group = out[places[start + r]], group[mine[r]]
            for i in range(lo, hi):
                g = group[i]
                if g == mine_group:
                    own[i - lo] = 0
                    continue
                size = starts[g + 1] - starts[g]
                at, total = block_starts[g] + inside[i] * size, 0.0
                for a in range(size):
                    total += np.float64(T[r, where[starts[g] + a]]) * np.float64(blocks[at + a])
                own[i - lo] = -out.dtype.type(total) * scale[i]
