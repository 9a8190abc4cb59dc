"""What one event adds to Σ sᵀs and Σ sᵀy together with the other events of its user, one number for each of them.

In an example the source s is what a user has chosen so far, weighted by age, and the target y is what comes next. The
weight w(k, j) of event j in the source that ends with event k depends on the places, powers[k − j], or on the times,
factor[j]·factor[j+1]·…·factor[k]; it never grows with k.

Every term is rounded to a whole number of units. Sums of whole numbers are exact, so they depend neither on the order
of users nor on the threads, and terms below half a unit, those of distant events, need not be computed.

The functions for all terms of an event write them to ``out`` by place, ``also`` added to each, and return the range of
places that they wrote. ``mine`` is the weight of the user in units, p the place of the event, ``last`` that of the last
event in a source, ``begin`` where the history of the user begins. The tables are those of ``gramian.order.Tables``,
some backwards, so that the loops run over ascending places. They are passed as they are, not
as slices or tuples: Numba would count the references to each in every call, and the threads would share the counters.
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
    """The term of an event with itself in Σ sᵀs; ``at`` and ``last`` are positions, not places."""
    end = min(last, at + window - 1)  # the last source that the event is in
    total = tail[at] if end == last else 1.0
    for k in range(end if end < last else at, at, -1):
        total = 1.0 + factor[k] * factor[k] * total
    return whole(mine * factor[at] * factor[at] * total)


@compiled
def sources_by_place(powers, fading, sums, falling, window, mine, p, last, also, out):
    """All terms of an event with others in Σ sᵀs; ``fading`` and ``falling`` are powers and sums backwards."""
    left = last - p
    far = min(left, window - 1)
    after = max(min(far, len(powers) - 1), 0)
    before = min(p, window - 1, len(powers) - 1) if left >= 0 else 0
    out[p] = also
    w, s = powers[1 : after + 1], falling[len(falling) - far : len(falling) - far + after]
    later = out[p + 1 : p + 1 + after]
    for t in range(after):
        later[t] = also + whole(mine * w[t] * s[t])
    aged, earlier = fading[len(fading) - 1 - before : len(fading) - 1], out[p - before : p]
    both = mine * sums[max(left, 0)]
    same = before if left <= window - 1 - before else 0  # if every source that has this event has the earliest one too
    for t in range(same):
        earlier[t] = also + whole(both * aged[t])
    for t in range(same, before):
        earlier[t] = also + whole(mine * aged[t] * sums[min(left, window - 1 - before + t)])
    return p - before, p + 1 + after


@compiled
def sources_by_time(factor, tail, window, mine, begin, p, last, also, out):
    """The same by time."""
    at, left = begin + p, last - p
    end = min(left, window - 1)
    least = 0.5 / max(left + 1, 1)  # a tail is at most the number of events that are left
    age, after = mine * factor[at], 0
    out[p] = also
    while after < end and age * factor[at + after + 1] >= least:
        after += 1
        age *= factor[at + after]
        out[p + after] = age * factor[at + after]
    if end == left:
        for d in range(1, after + 1):
            out[p + d] = also + whole(out[p + d] * tail[at + d])
    total = 1.0  # of squares, from the last source that has this event
    for d in range(end if end < left else 0, 0, -1):
        if d <= after:
            out[p + d] = also + whole(out[p + d] * total)
        total = 1.0 + factor[at + d] * factor[at + d] * total
    most, before = min(p, window - 1) if left >= 0 else 0, 0
    if window - 1 - most < left:
        _sums_within(factor, tail[at], window, at, p, left, most, out)
    else:
        for d in range(1, most + 1):
            out[p - d] = tail[at]
    age = mine * factor[at]
    while before < most and age * factor[at - before - 1] >= least:
        before += 1
        age *= factor[at - before]
        out[p - before] = also + whole(age * factor[at] * out[p - before])
    for d in range(before + 1, most + 1):  # too old to count: only what the pair counts for is left
        out[p - d] = also
    return p - before, p + after + 1


@compiled
def _sums_within(factor, whole_tail, window, at, p, left, before, out):
    """out[p - d] = Σ (factor[at+1]·…·factor[l])² over the sources that end with l ≥ at and have the event d before."""
    total, product = 0.0, 1.0
    for r in range(min(left, window - 2) + 1):
        product *= factor[at + r] if r else 1.0
        total += product * product
        d = window - 1 - r
        if d <= before:
            out[p - d] = total
    for d in range(1, min(window - 1 - left, before + 1)):
        out[p - d] = whole_tail


@compiled
def targets_by_place(backwards, mine, p, also, out):
    """All terms of an event, as target of earlier ones, in Σ sᵀy; ``backwards`` are the values."""
    n = min(p, len(backwards))
    out[p] = also
    v, terms = backwards[len(backwards) - n :], out[p - n : p]
    for t in range(n):
        terms[t] = also + whole(mine * v[t])
    return p - n, p + 1


@compiled
def targets_by_time(factor, window, later, mine, begin, p, also, out):
    """The same by time; ``later``: the sources are those of all that follows, else of what comes next."""
    most, n = min(p, 2 * window - 1 if later else window), 0
    age, least = mine, 0.5 / max(p, 1)
    out[p] = also
    while n < most and age * factor[begin + p - n - 1] >= least:
        n += 1
        age *= factor[begin + p - n]
        out[p - n] = also + whole(age * examples_between(n - 1, window) if later else age)
    return p - n, p + 1


@compiled
def examples_between(d, window):
    """How many examples have event j in the source and event j + d + 1 among the later targets, within the window.

    In each of them the two weights have the same product: w(j + d, j).
    """
    return min(d, window - 1) - max(0, d + 1 - window) + 1
