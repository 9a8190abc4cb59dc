"""Compiled loops of ``solvers.support`` that arrange columns: in the order they are solved, and as rows of weights.

Items are numbered by popularity here, most popular first.
"""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def close_gaps(who, share, ptr):
    """Close the gaps after short rows, in place: row i then starts at ptr[i] of the flattened arrays."""
    flat_who, flat_share = who.reshape(-1), share.reshape(-1)
    k = who.shape[1]
    for i in range(len(ptr) - 1):
        for a in range(ptr[i + 1] - ptr[i]):
            flat_who[ptr[i] + a] = flat_who[i * k + a]
            flat_share[ptr[i] + a] = flat_share[i * k + a]


@compiled
def family_order(parent, child, sibling, out):
    """Items ordered so that each comes after its parent and among its relatives; parents are more popular, -1: none."""
    child[:] = -1
    m = len(parent)
    for i in range(m - 1, -1, -1):  # backwards, so that popular children come first
        if parent[i] >= 0:
            sibling[i] = child[parent[i]]
            child[parent[i]] = i
    n = 0
    for root in range(m):
        if parent[root] >= 0:
            continue
        i = root
        while True:
            out[n] = i
            n += 1
            if child[i] >= 0:
                i = child[i]
                continue
            while i != root and sibling[i] < 0:
                i = parent[i]
            if i == root:
                break
            i = sibling[i]


@compiled
def cut_blocks(order, ptr, rows, n_head, room, most_room, most_items, ends, sizes):
    """Cut the order where the rows needed since the last cut (of the items and their supports) would exceed the limit.

    room[j] is the size of the row of item j, unless it is in the head. ends[b] is where block b ends, sizes[b]
    what it takes.
    """
    stamp = np.full(len(room), -1, np.int64)
    blocks, taken, begun = 0, 0, 0
    for n in range(len(order)):
        i = order[n]
        fresh = 0
        for again in range(2):
            fresh = room[i] if i >= n_head and stamp[i] != blocks else 0
            for p in range(ptr[i], ptr[i + 1]):
                j = rows[p]
                if j >= n_head and stamp[j] != blocks:
                    fresh += room[j]
            if again or n == begun or (taken + fresh <= most_room and n - begun < most_items):
                break
            ends[blocks], sizes[blocks] = n, taken
            blocks, taken, begun = blocks + 1, 0, n
        taken += fresh
        stamp[i] = blocks
        for p in range(ptr[i], ptr[i + 1]):
            stamp[rows[p]] = blocks
    ends[blocks], sizes[blocks] = len(order), taken
    return blocks + 1


@compiled
def count_holders(begin, size, rows, holder_ptr):
    """holder_ptr[j] = how many of these supports have an item before j; support t is rows[begin[t] :][: size[t]]."""
    for t in range(len(begin)):
        for p in range(begin[t], begin[t] + size[t]):
            holder_ptr[rows[p] + 1] += 1
    for j in range(len(holder_ptr) - 1):
        holder_ptr[j + 1] += holder_ptr[j]


@compiled
def fill_holders(begin, size, rows, cursor, holders, places):
    """The supports that hold item j, and where, from cursor[j] on."""
    for t in range(len(begin)):
        for a in range(size[t]):
            j = rows[begin[t] + a]
            holders[cursor[j]] = t
            places[cursor[j]] = a
            cursor[j] += 1


@compiled
def count_by_row(rows, values, counts):
    for p in range(len(rows)):
        if values[p] != 0:
            counts[rows[p]] += 1


@compiled
def columns_to_rows(order, rank, ptr, rows, values, power, scale, cursor, indices, out):
    """Columns by popularity to rows by catalogue order, sign(β)·|β|^power·scale[i]; cursor[j] is where row j begins.

    order[r] is the item of rank r. Columns are visited in catalogue order, so each row is ascending.
    """
    for i in range(len(rank)):
        r = rank[i]
        for p in range(ptr[r], ptr[r + 1]):
            if values[p] != 0:
                j = order[rows[p]]
                indices[cursor[j]] = i
                value = values[p]
                if power != 1.0:
                    value = np.sign(value) * np.abs(value) ** power
                out[cursor[j]] = value * scale[i]
                cursor[j] += 1
