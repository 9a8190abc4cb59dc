"""The elastic net, column by column: coordinate descent on the items that matter, until a duality gap is reached.

Each loop works on a range without the interpreter lock, and has a slow twin in the tests.
"""

import numpy as np

from offdiag._kernels.parallel import compiled
from offdiag._kernels.topk import sift_down, worse


@compiled
def _certificate(z, beta, c, yy, by, l1, l2, non_negative):
    """(duality gap, primal value) of one column from z = Aᵀ(y − Aβ), for the first c numbers of z and β.

    Two dual points each certify a gap; the smaller one is returned. With l2 in the penalty the gap is a sum of
    Fenchel-Young terms, one per item; with l2 in the data (√l2·I below A) the residual is scaled to be feasible.
    """
    young, norm1, norm2, bz, worst = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(c):
        b, s = beta[j], z[j]
        t = s - l2 * b
        if not non_negative:
            s, t = abs(s), abs(t)
        worst = max(worst, t)
        over = s - l1
        if over > 0.0:
            young += over * over
        if b != 0.0:
            norm1 += abs(b)
            norm2 += b * b
            bz += b * z[j]
    fit = max(yy - by - bz, 0.0)  # ‖y − Aβ‖²
    primal = 0.5 * (fit + l2 * norm2) + l1 * norm1
    rr = fit + l2 * norm2
    ry = max(yy - by, 0.0)
    scale = ry / rr if rr > 0.0 else 0.0
    if worst * scale > l1:
        scale = l1 / worst
    gap = primal - scale * ry + 0.5 * scale * scale * rr
    if l2 > 0.0:
        gap = min(gap, l1 * norm1 + 0.5 * l2 * norm2 + young / (2.0 * l2) - bz)
    return max(gap, 0.0), primal


@compiled
def _correlations(G, i, w, beta, p, z):
    """z = G[i] − Σ beta[a]·G[w[a]] over the a with beta[a] ≠ 0, in float64; four rows at a time."""
    m = len(z)
    g = G[i]
    for j in range(m):
        z[j] = g[j]
    a = 0
    while a < p:
        if a + 4 <= p:
            g0, g1, g2, g3 = G[w[a]], G[w[a + 1]], G[w[a + 2]], G[w[a + 3]]
            b0, b1, b2, b3 = beta[a], beta[a + 1], beta[a + 2], beta[a + 3]
            for j in range(m):
                z[j] -= (b0 * g0[j] + b1 * g1[j]) + (b2 * g2[j] + b3 * g3[j])
            a += 4
        else:
            g0, b0 = G[w[a]], beta[a]
            for j in range(m):
                z[j] -= b0 * g0[j]
            a += 1


@compiled
def _threshold(value, l1, non_negative):
    if value > l1:
        return value - l1
    if not non_negative and value < -l1:
        return value + l1
    return 0.0


@compiled
def _descend(S, z, beta, p, yy, y, l1, l2, non_negative, target, most):
    """Cyclic coordinate descent on p items until their own gap is at most ``target``; returns the sweeps made.

    S is their Gram, z their correlation with the residual (kept up to date), y their correlation with the item itself.
    """
    for sweep in range(most):
        for a in range(p):
            own = S[a, a]
            if own + l2 <= 0.0:
                continue
            new = _threshold(z[a] + own * beta[a], l1, non_negative) / (own + l2)
            step = new - beta[a]
            if step != 0.0:
                beta[a] = new
                row = S[a]
                for b in range(p):
                    z[b] -= step * row[b]
        by = 0.0
        for a in range(p):
            by += beta[a] * y[a]
        gap, _ = _certificate(z, beta, p, yy, by, l1, l2, non_negative)
        if gap <= target:
            return sweep + 1
    return most


@compiled
def _descend_rows(G, w, z, beta, p, l1, l2, non_negative, sweeps):
    """The same for a very large working set: reads whole rows of G, gathers nothing; z covers all items."""
    m = len(z)
    for _ in range(sweeps):
        for a in range(p):
            row = G[w[a]]
            own = np.float64(row[w[a]])
            if own + l2 <= 0.0:
                continue
            new = _threshold(z[w[a]] + own * beta[a], l1, non_negative) / (own + l2)
            step = new - beta[a]
            if step != 0.0:
                beta[a] = new
                for j in range(m):
                    z[j] -= step * row[j]


@compiled
def keep_best(value, item, best, who, size):
    """Put (value, item) into a heap of at most len(best); returns how many it holds."""
    if size < len(best):
        hole = size  # sift up
        while hole > 0 and worse(value, item, best[(hole - 1) // 2], who[(hole - 1) // 2]):
            best[hole], who[hole] = best[(hole - 1) // 2], who[(hole - 1) // 2]
            hole = (hole - 1) // 2
        best[hole], who[hole] = value, item
        return size + 1
    if worse(best[0], who[0], value, item):
        sift_down(best, who, 0, size, value, item)
    return size


@compiled
def _add_violators(z, i, diagonal, l1, l2, non_negative, member, w, p, room, gains, candidates):
    """Append to w up to ``room`` items whose own step would lower the objective most; returns the new size."""
    best, who, size = gains[:room], candidates[:room], 0
    for j in range(len(z)):
        over = (z[j] if non_negative else abs(z[j])) - l1
        if over > 0.0 and member[j] == 0 and j != i and diagonal[j] + l2 > 0.0:
            size = keep_best(over * over / (diagonal[j] + l2), j, best, who, size)
    for at in range(size):
        w[p] = who[at]
        member[who[at]] = 1
        p += 1
    return p


@compiled
def _gather(G, w, old, p, S):
    """S[a, b] = G[w[a], w[b]] for the new rows and columns old..p; G is symmetric."""
    for a in range(old, p):
        row = G[w[a]]
        for b in range(a + 1):
            S[a, b] = row[w[b]]
            S[b, a] = S[a, b]


@compiled
def _drop_zeros(w, beta, member, p, S):
    """Keep only the items with a weight, in S as well; returns how many."""
    kept = 0
    for a in range(p):
        if beta[a] == 0.0:
            member[w[a]] = 0
            continue
        if p <= len(S):
            q = 0
            for b in range(p):
                if beta[b] != 0.0:
                    S[kept, q] = S[a, b]  # never overwrites an entry that is still to be read
                    q += 1
        kept += 1
    q = 0
    for a in range(p):
        if beta[a] != 0.0:
            w[q] = w[a]
            beta[q] = beta[a]
            q += 1
    return kept


@compiled
def elastic_net_columns(G, diagonal, lo, hi, l1, l2, non_negative, tolerance, most, limit, ptr, rows, start, facts):
    """Columns lo..hi of B; returns (entries per column, their rows, their values), rows ascending in each column.

    Per column: solve on a working set of items, check all items against the residual, add those that would
    gain most, until the duality gap over all items is at most tolerance·½‖x_i‖². ``start`` (with ``ptr`` and ``rows``)
    holds the initial columns; beyond ``limit`` items no part of G is copied out.
    facts[i] = (primal value, gap, passes over all items).
    """
    m = len(G)
    z, gains = np.empty(m), np.empty(m)
    w, candidates, member = np.empty(m, np.int64), np.empty(m, np.int64), np.zeros(m, np.uint8)
    beta, full, inner, y = np.zeros(m), np.zeros(m), np.empty(m), np.empty(m)
    S = np.empty((min(m, 128), min(m, 128)))
    counts = np.zeros(hi - lo, np.int64)
    out_rows, out_values, filled = np.empty(64 * (hi - lo), np.int64), np.empty(64 * (hi - lo), G.dtype), 0
    for i in range(lo, hi):
        yy = np.float64(diagonal[i])
        goal = tolerance * 0.5 * yy
        p, gathered, gap, primal, passes, stalled, before = 0, 0, 0.0, 0.0, 0, 0, np.inf
        for q in range(ptr[i], ptr[i + 1]):
            if rows[q] != i and (start[q] > 0.0 or (start[q] != 0.0 and not non_negative)):
                w[p], beta[p] = rows[q], start[q]
                member[w[p]] = 1
                p += 1
        while yy > 0.0:
            _correlations(G, i, w, beta, p, z)
            z[i], by = 0.0, 0.0  # an item never predicts itself
            for a in range(p):
                full[w[a]] = beta[a]
                by += beta[a] * np.float64(G[i, w[a]])
            gap, primal = _certificate(z, full, m, yy, by, l1, l2, non_negative)
            for a in range(p):
                full[w[a]] = 0.0
            passes += 1
            stalled = 0 if primal < before - 1e-15 * yy else stalled + 1  # only rounding is left
            before = min(primal, before)
            if gap <= goal or passes > most or stalled == 3:
                break
            whole = gathered == p
            p = _drop_zeros(w, beta, member, p, S)
            gathered = p if whole else 0
            first = p
            p = _add_violators(z, i, diagonal, l1, l2, non_negative, member, w, p, max(48, p), gains, candidates)
            for a in range(first, p):
                beta[a] = 0.0
            if p <= limit:
                if p > len(S):
                    size = min(m, max(p, 2 * len(S)))
                    bigger = np.empty((size, size))
                    bigger[:gathered, :gathered] = S[:gathered, :gathered]
                    S = bigger
                _gather(G, w, gathered, p, S)
                gathered = p
                for a in range(p):
                    inner[a] = z[w[a]]
                    y[a] = G[i, w[a]]
                _descend(S, inner, beta, p, yy, y, l1, l2, non_negative, max(0.3 * goal, 0.1 * gap), 1000)
            else:
                gathered = 0
                _descend_rows(G, w, z, beta, p, l1, l2, non_negative, 10)
        facts[i, 0], facts[i, 1], facts[i, 2] = primal, gap, passes
        if filled + p > len(out_rows):
            size = max(2 * len(out_rows), filled + p)
            more_rows, more_values = np.empty(size, np.int64), np.empty(size, G.dtype)
            more_rows[:filled], more_values[:filled] = out_rows[:filled], out_values[:filled]
            out_rows, out_values = more_rows, more_values
        for a in range(p):
            full[w[a]] = beta[a]
            member[w[a]] = 0
        for j in range(m if p else 0):  # in ascending order
            if full[j] != 0.0:
                out_rows[filled], out_values[filled] = j, full[j]
                full[j] = 0.0
                filled += 1
                counts[i - lo] += 1
    return counts, out_rows[:filled], out_values[:filled]
