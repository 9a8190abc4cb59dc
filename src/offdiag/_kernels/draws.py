"""The compiled loop of the synthetic data: draw distinct items for every user."""

import numpy as np

from offdiag._kernels.parallel import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_TRIES = 40


@compiled
def _mix(state):
    # splitmix64: one multiply-xorshift of a counter gives 64 well-mixed bits, the same on every machine.
    z = (state ^ (state >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@compiled
def _below(bits, n):
    return np.int64(((bits >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compiled
def draw_items(indptr, tickets, ticket_start, tastes, saga_of, saga_start, from_saga, from_taste, seed):
    """Items of each user in the order they were drawn; no item twice in a user's row.

    A draw comes from the saga of an earlier item, from a community the user likes, or from popular items;
    `tickets` repeats item i in proportion to its popularity, sorted by community, so each is one uniform draw.
    """
    n_users, n_items = len(indptr) - 1, len(saga_of)
    items = np.empty(indptr[-1], dtype=np.int32)
    mark = np.full(n_items, -1, dtype=np.int64)
    scale = 1.0 / 4294967296.0
    for user in range(n_users):
        state = _mix(np.uint64(seed) * _MIX2 + np.uint64(user + 1) * _STEP)
        begin, end = indptr[user], indptr[user + 1]
        for place in range(begin, end):
            item = np.int64(-1)
            for _ in range(_TRIES):
                state += _STEP
                bits = _mix(state)
                how = np.float64(bits & np.uint64(0xFFFFFFFF)) * scale
                if how < from_saga and place > begin:
                    saga = saga_of[items[begin + _below(bits, place - begin)]]
                    state += _STEP
                    low = saga_start[saga]
                    item = low + _below(_mix(state), saga_start[saga + 1] - low)
                elif how < from_saga + from_taste:
                    # The first taste is chosen twice as often as the second.
                    taste = tastes[user, 1] if _below(bits, 3) == 2 else tastes[user, 0]
                    state += _STEP
                    low = ticket_start[taste]
                    item = np.int64(tickets[low + _below(_mix(state), ticket_start[taste + 1] - low)])
                else:
                    item = np.int64(tickets[_below(bits, len(tickets))])
                if mark[item] != user:
                    break
            if mark[item] == user:
                # All likely items are taken: use the next free item after a random position.
                state += _STEP
                item = _below(_mix(state), n_items)
                while mark[item] == user:
                    item = np.int64((item + 1) % n_items)
            mark[item] = user
            items[place] = np.int32(item)
    return items
