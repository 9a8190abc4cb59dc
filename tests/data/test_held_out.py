import numpy as np
import polars as pl
from hypothesis import given

import offdiag as od
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
