"""Of the parts of a score, the largest and its share."""

from offdiag._kernels.parallel import compiled


@compiled
def strongest(first, last, places, k, listed, lo, columns, indptr, indices, data, best, share):
    """For places[first:last] of lists of length k: the entry of the history that adds most to the listed item.

    ``columns[p, j]`` is column lo + j of weights p, and ``data[p]`` are the values of the histories for them. Where
    nothing adds to the score, ``best`` and ``share`` stay as they are; between equal parts the earlier column is taken.
    """
    for n in range(first, last):
        place = places[n]
        user, column = place // k, listed[place] - lo
        most, total, at = 0.0, 0.0, -1
        for e in range(indptr[user], indptr[user + 1]):
            added = 0.0
            for p in range(len(columns)):
                added += float(data[p, e]) * float(columns[p, column, indices[e]])
            if added > 0:
                total += added
                if added > most:
                    most, at = added, indices[e]
        if at >= 0:
            best[place], share[place] = at, most / total
