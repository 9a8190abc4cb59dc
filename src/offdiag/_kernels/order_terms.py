"""What one event adds to Σ sᵀs and Σ sᵀy together with the other events of its user, one number for each of them.

In an example the source s is what a user has chosen so far, weighted by age, and the target y is what comes next. The
weight w(k, j) of event j in the source that ends with event k depends on the places, powers[k − j], or on the times,
factor[j]·factor[j+1]·…·factor[k]; it never grows with k.

Every term is rounded to a whole number of units. Sums of whole numbers are exact, so they depend neither on the order
of users nor on the threads, and terms below half a unit, those of distant events, need not be computed. ``mine`` is the
weight of the user in units, ``begin`` the first event of the user, ``last`` the last one that is in a source. Terms with
later events are at the beginning of ``out``, those with earlier ones at its end; the functions return how many there
are. The tables are those of ``gramian.order.Tables``; some are stored backwards, because loops over ascending places are
several times faster, and they are not passed as tuples, whose parts would be counted by every call.
"""

from offdiag._kernels.parallel import compiled, inlined

MAGIC = 6755399441055744.0  # 1.5·2^52: a double this large has no fraction, so adding it rounds


@inlined
def whole(x):
    """The nearest whole number, for |x| < 2^51; much faster than rint."""
    return (x + MAGIC) - MAGIC


@compiled
def tails(indptr, step, out):
    """out[k] = Σ_{l ≥ k} (step[k+1]·…·step[l])² over the sources of a user that end with event k or later."""
    for u in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[u + 1] - 2, indptr[u] - 1, -1):
            following = step[k + 1] if k < indptr[u + 1] - 2 else 0.0
            total = 1.0 + following * following * total
            out[k] = total


@compiled
def own_source_by_time(factor, tail, window, mine, at, last):
    """The term of event ``at`` with itself in Σ sᵀs; by place it is the sum of the squares of all powers."""
    end = min(last, at + window - 1)  # the last source that the event is in
    total = tail[at] if end == last else 1.0
    for k in range(end if end < last else at, at, -1):
        total = 1.0 + factor[k] * factor[k] * total
    return whole(mine * factor[at] * factor[at] * total)


@compiled
def sources_after_by_place(powers, falling, window, mine, at, last, out):
    """The terms of event ``at`` with later events in Σ sᵀs."""
    far = min(last - at, window - 1)
    n = max(min(far, len(powers) - 1), 0)
    p, terms = powers[1 : n + 1], out[:n]
    s = falling[len(falling) - far : len(falling) - far + n]  # sums of squares from each event on
    for t in range(n):
        terms[t] = whole(mine * p[t] * s[t])
    return n


@compiled
def sources_after_by_time(factor, tail, window, mine, at, last, out):
    """The same by time."""
    end = min(last, at + window - 1)
    age, least = mine * factor[at], 0.5 / max(last - at + 1, 1)  # a tail is at most the number of events left
    n = 0
    while at + 1 + n <= end and age * factor[at + 1 + n] >= least:
        age *= factor[at + 1 + n]
        out[n] = age * factor[at + 1 + n]
        n += 1
    total = 1.0
    if end < last:  # tails end there, too
        for k in range(end, at, -1):
            if k - at <= n:
                out[k - at - 1] = whole(out[k - at - 1] * total)
            total = 1.0 + factor[k] * factor[k] * total
    else:
        for t in range(n):
            out[t] = whole(out[t] * tail[at + 1 + t])
    return n


@compiled
def sources_before_by_place(fading, sums, window, mine, begin, at, last, out):
    """The terms of event ``at`` with earlier events in Σ sᵀs."""
    left = last - at
    n = min(at - begin, window - 1, len(fading) - 1) if left >= 0 else 0
    p, terms = fading[len(fading) - 1 - n : len(fading) - 1], out[len(out) - n :]
    if n and left <= window - 1 - n:  # every source that has this event has the earliest one too
        both = mine * sums[left]
        for t in range(n):
            terms[t] = whole(both * p[t])
    else:
        for t in range(n):
            terms[t] = whole(mine * p[t] * sums[min(left, window - 1 - n + t)])
    return n


@compiled
def sources_before_by_time(factor, tail, window, mine, begin, at, last, out):
    """The same by time."""
    left, size = last - at, len(out)
    n = min(at - begin, window - 1) if left >= 0 else 0
    if n and window - 1 - n < left:
        _sums_within(factor, tail, window, at, left, n, out)
    else:
        for d in range(1, n + 1):
            out[size - d] = tail[at]
    age, least = mine * factor[at], 0.5 / max(left + 1, 1)
    for d in range(1, n + 1):
        age *= factor[at - d]
        if age < least:
            return d - 1
        out[size - d] = whole(age * factor[at] * out[size - d])
    return n


@compiled
def _sums_within(factor, tail, window, at, left, n, out):
    """out[-d] = Σ (factor[at+1]·…·factor[l])² over the sources that end with an event l ≥ at and have event at - d."""
    size, total, product = len(out), 0.0, 1.0
    for r in range(min(left, window - 2) + 1):
        product *= factor[at + r] if r else 1.0
        total += product * product
        d = window - 1 - r
        if d <= n:
            out[size - d] = total
    for d in range(1, window - 1 - left):
        out[size - d] = tail[at]


@compiled
def targets_after_by_place(values, mine, at, last, out):
    """The terms of event ``at`` as source of later ones in Σ sᵀy."""
    n = max(min(last + 1 - at, len(values)), 0)
    v, terms = values[:n], out[:n]
    for t in range(n):
        terms[t] = whole(mine * v[t])
    return n


@compiled
def targets_before_by_place(backwards, mine, begin, at, out):
    """The terms of event ``at`` as target of earlier ones in Σ sᵀy."""
    n = min(at - begin, len(backwards))
    v, terms = backwards[len(backwards) - n :], out[len(out) - n :]
    for t in range(n):
        terms[t] = whole(mine * v[t])
    return n


@compiled
def targets_after_by_time(factor, window, later, mine, at, last, out):
    """The same by time; ``later``: of all that follow, else of the next."""
    left = max(last + 1 - at, 0)
    n = min(left, 2 * window - 1 if later else window)
    age, least = mine, 0.5 / max(left, 1)
    for t in range(n):
        age *= factor[at + t]
        if age < least:
            return t
        out[t] = whole(age * examples_between(t, window) if later else age)
    return n


@compiled
def targets_before_by_time(factor, window, later, mine, begin, at, out):
    """The same by time."""
    left, size = at - begin, len(out)
    n = min(left, 2 * window - 1 if later else window)
    age, least = mine, 0.5 / max(left, 1)
    for d in range(1, n + 1):
        age *= factor[at - d]
        if age < least:
            return d - 1
        out[size - d] = whole(age * examples_between(d - 1, window) if later else age)
    return n


@compiled
def examples_between(d, window):
    """How many examples have event j in the source and event j + d + 1 among the later targets, within the window.

    In each of them the two weights have the same product: w(j + d, j).
    """
    return min(d, window - 1) - max(0, d + 1 - window) + 1
