"""Compiled loops of ``solvers.changed_columns``: the supports of known columns, and which of them a change leaves.

Items are numbered by popularity here, as in ``column_solves``; rows of the Gram and of the weights by the catalogue.
"""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def rows_to_columns(indptr, indices, data, order, rank, at, place, cursor, members, weights):
    """The weights by column, least popular item first; column c begins at cursor[c].

    Row ``at[i]`` of the weights belongs to item i, -1: none; its column p to item place[p], -1: dropped.
    """
    for r in range(len(order) - 1, -1, -1):
        row = at[order[r]]
        if row < 0:
            continue
        for p in range(indptr[row], indptr[row + 1]):
            i = place[indices[p]]
            if i >= 0:
                q = cursor[rank[i]]
                members[q] = r
                weights[q] = data[p]
                cursor[rank[i]] = q + 1


@compiled
def compare_columns(
    ptr, indices, values, order, col_ptr, members, weights, changed, listed, before, after, k, power, scale,
    lo, hi, state, share, explained,
):  # fmt: skip
    """For columns lo..hi: share = G_Si, explained = G_iS·β, and the state of the column after G changed.

    0: its problem is the same. 1: its support is the same, but has changed items, which are ``listed``. 2: the support
    has to be chosen again. ``before`` and ``after`` are 1/H_jj; W_ji = sign(β)·|β|^power·scale[i].

    Unchanged items keep their order, so the support stays if no changed item that is outside comes up to the weakest of
    it, and none that is inside falls down to it.
    """
    row, inside = np.zeros(len(order)), np.full(len(order), -1, np.int32)
    margin = 1e-12  # rounding must not mark a column as unchanged
    for c in range(lo, hi):
        state[c] = 2
        if changed[c]:
            continue
        begin, end = ptr[order[c]], ptr[order[c] + 1]
        for p in range(begin, end):
            row[indices[p]] = values[p]
        others = end - begin - (row[order[c]] != 0)
        whole = col_ptr[c + 1] - col_ptr[c] == min(k, others)  # weights of exactly 0 are not stored
        weakest, falls, holds, total = np.inf, np.inf, False, 0.0
        for q in range(col_ptr[c], col_ptr[c + 1]):
            j = members[q]
            inside[j] = c
            value = row[order[j]]
            share[q] = value
            beta = np.float64(weights[q]) / scale[c]
            if power != 1.0:
                beta = np.sign(beta) * np.abs(beta) ** (1 / power)
            total += value * beta
            merit = value * (value * before[j])
            weakest = min(weakest, merit)
            if changed[j]:
                holds = True
                if after[j] <= before[j]:
                    falls = min(falls, value * (value * after[j]))
            whole &= value != 0
        whole &= not falls <= weakest * (1 + margin)
        for j in listed:
            value = row[order[j]]
            if value != 0 and inside[j] != c and not value * (value * after[j]) < weakest * (1 - margin):
                whole = False
        explained[c] = total
        if whole:
            state[c] = 1 if holds else 0
        for p in range(begin, end):
            row[indices[p]] = 0.0
