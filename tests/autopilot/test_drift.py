"""The order of rows without times: by time, sorted by item, or none."""

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot.drift import drift_of
from offdiag.autopilot.holding_out import hold_out
from offdiag.autopilot.sight import look


def rows_in(order, n=600, m=80, each=15, seed=0):
    """Users who choose by taste, and later by fashion; their rows in order of time, shuffled, or sorted by item."""
    rng = np.random.default_rng(seed)
    taste, fashion = rng.random((n, m)), rng.random((n, m)) * (np.arange(m) % 4 == 0)
    table = []
    for user in range(n):
        early = np.argsort(-taste[user])[:each]
        late = [item for item in np.argsort(-fashion[user]) if item not in early][: each // 3]
        items = np.array([*early, *late])
        items = {"time": items, "shuffled": rng.permutation(items), "sorted": np.sort(items)}[order]
        table += [(f"u{user}", item) for item in items.tolist()]
    return od.read({"user": [user for user, _ in table], "item": [item for _, item in table]})


@pytest.mark.parametrize(("order", "in_time"), [("time", True), ("shuffled", False), ("sorted", False)])
def test_only_rows_in_order_of_time_are_taken_for_such(order, in_time):
    assert drift_of(rows_in(order)).in_time == in_time


def test_chance_has_a_ratio_of_one_and_sorted_rows_a_correlation():
    shuffled, by_item = drift_of(rows_in("shuffled", n=3_000)), drift_of(rows_in("sorted"))
    assert abs(shuffled.ratio - 1) < 4 * shuffled.error
    assert by_item.fixed > 0.8
    assert drift_of(od.read(np.eye(3))).ratio == 1


def test_rows_in_order_of_time_are_judged_by_their_end():
    X = rows_in("time")
    held = hold_out(X, look(X), None, 0)
    assert held.serve == "known"
    assert "last fifth" in held.sentence
    assert (X.item_ids[held.split.test.targets.indices] % 4 == 0).mean() > 0.9
    mixed = rows_in("shuffled")
    assert "random fifth" in hold_out(mixed, look(mixed), "known", 0).sentence
