import numpy as np
import polars as pl
from hypothesis import given

import offdiag as od
from offdiag.data.held_out import held_out_part
from tests.laws.strategies import ordered


@given(data=ordered())
def test_random_splits_keep_the_order_of_what_stays(data):
    events, _ = data
    if sum(map(len, events)) < 4:
        return
    rows = [(u, item, time) for u, user in enumerate(events) for item, time in user]
    log = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    inter = od.read(log, time="time", keep="events")
    split = od.split.weak(inter, held_out=0.4)
    for row in range(inter.n_users):
        left = set(split.test.histories[[row]].indices.tolist())
        assert split.test.ordered.events.of(row).tolist() == [i for i in inter.events.of(row).tolist() if i in left]


def test_pairs_with_times_are_held_out_with_their_order():
    X = od.synthetic.interactions(50, 20, 400, times=True, seed=0)
    part = od.split.last_out(X).test
    assert part.ordered.matrix is part.histories
    assert part.ordered.times.shape == part.histories.data.shape
    assert part.ordered.history(3) == X.history(3)[:-1]
    assert np.array_equal(part.ordered.user_ids, part.user_ids)


def test_users_whose_history_is_later_than_a_target_are_counted():
    table = {"user": [0, 0, 1, 1, 2, 2], "item": [0, 1, 0, 1, 0, 1], "time": [1, 2, 2, 1, 3, 3]}
    inter = od.read(table, time="time")
    is_target = inter.matrix.indices == 1
    assert held_out_part(inter, is_target).users_with_later_history() == 1  # equal times are no proof
    events = od.read(table, time="time", keep="events")
    assert held_out_part(events, is_target).users_with_later_history() == 1
    untimed = od.read({"user": table["user"], "item": table["item"]})
    assert held_out_part(untimed, is_target).users_with_later_history() == 0
