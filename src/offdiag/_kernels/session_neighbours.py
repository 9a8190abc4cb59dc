"""Scores from the sessions nearest to a history."""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def score_rows(ends, items, ptr, members, where, sessions, sample, neighbours, first, last, out):
    """out[u] = Σ over the nearest sessions of user first + u of similarity / step, at their items.

    The history of a user is items[ends[u]:ends[u + 1]], latest first. Session s holds members[ptr[s]:ptr[s + 1]],
    and item i occurs in sessions[where[i]:where[i + 1]]; a session with a higher number is more recent.
    """
    n = len(ptr) - 1
    similarity, step = np.zeros(n), np.zeros(n, np.int64)
    stamp, touched = np.full(n, -1, np.int64), np.empty(n, np.int64)
    for u in range(first, last):
        row = out[u - first]
        row[:] = 0
        length, found = ends[u + 1] - ends[u], 0
        for place in range(length):
            i = items[ends[u] + place]
            weight = (length - place) / length  # falls linearly from 1 for the latest item
            for q in range(where[i], where[i + 1]):
                s = sessions[q]
                if stamp[s] != u:
                    stamp[s] = u
                    similarity[s] = 0.0
                    step[s] = place + 1  # of the latest item that both have
                    touched[found] = s
                    found += 1
                similarity[s] += weight
        near = touched[:found]
        if found > sample:  # the most recent ones
            near = np.partition(near, found - sample)[found - sample :]
        near = np.sort(near)[::-1]
        order = np.argsort(-similarity[near], kind="mergesort")  # stable: among equals the more recent session
        for at in order[:neighbours]:
            s = near[at]
            worth = similarity[s] / step[s]
            for p in range(ptr[s], ptr[s + 1]):
                row[members[p]] += worth
