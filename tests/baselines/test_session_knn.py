"""V-SkNN against its definition in plain Python [Ludewig18]."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from tests.fixtures.ordered_logs import HISTORIES, events


def by_definition(sessions, history, items, neighbours, sample, window):
    """Sessions are in order of time; each item of the history is where it occurred last."""
    latest_first = list(dict.fromkeys(reversed(history)))[:window]
    weight = {item: (len(latest_first) - at) / len(latest_first) for at, item in enumerate(latest_first)}
    sharing = [(at, set(one)) for at, one in enumerate(sessions) if len(set(one)) > 1 and set(one) & set(weight)]
    recent = sharing[-sample:]
    similar = [(sum(weight[i] for i in latest_first if i in one), at, one) for at, one in recent]
    nearest = sorted(similar, key=lambda entry: (-entry[0], -entry[1]))[:neighbours]
    scores = dict.fromkeys(items, 0.0)
    for similarity, _, one in nearest:
        step = next(place for place, item in enumerate(latest_first, 1) if item in one)
        for item in one:
            scores[item] += similarity / step
    return [scores[item] for item in items]


@given(
    HISTORIES,
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), min_size=1, max_size=4),
    st.integers(1, 4), st.integers(1, 5), st.integers(1, 5),
)  # fmt: skip
def test_scores_are_those_of_the_definition(sessions, asked, neighbours, sample, window):
    model = od.SessionKNN(neighbours=neighbours, sample=sample, window=window).fit(events(sessions))
    items = model.item_ids_.tolist()
    asked = [[item for item in one if item in items] for one in asked]
    expected = [by_definition(sessions, one, items, neighbours, sample, window) for one in asked]
    np.testing.assert_allclose(model.predict(asked), expected, rtol=1e-6)


def test_recent_sessions_are_those_with_the_latest_end():
    table = {"user": [1, 1, 0, 0], "item": ["a", "b", "a", "c"], "time": [10, 40, 20, 30]}
    model = od.SessionKNN(sample=1).fit(od.read(table, time="time", keep="events"))
    assert model.recommend([["a"]], k=1).items[0, 0] == "b"


def test_the_order_of_a_long_history_with_repeats_is_kept():
    history = [0, 1] * 200 + [2]
    model = od.SessionKNN(window=2, sample=1).fit(events([[1, 3], [0, 4]]))
    np.testing.assert_allclose(
        model.predict([history[:-1]])[0],
        by_definition([[1, 3], [0, 4]], history[:-1], [0, 1, 3, 4], 100, 1, 2),
        rtol=1e-6,
    )


def test_rows_of_users_go_into_no_file(tmp_path):
    model = od.SessionKNN().fit(events([[0, 1], [1, 2]]))
    with pytest.raises(od.OffdiagError, match="SessionKNN is made of the rows of users"):
        model.save(tmp_path / "model.od")
    with pytest.raises(od.OffdiagError, match="no file of offdiag ever does"):
        pickle.dumps(model)
    assert not list(tmp_path.iterdir())
    assert copy.deepcopy(model).recommend([[0]], k=1).items.tolist() == [[1]]


def test_what_needs_a_matrix_is_refused():
    model = od.SessionKNN().fit(events([[0, 1], [1, 2]]))
    for ask in (model.weights_.toarray, lambda: model.explain([0], 1), lambda: model.recommend([[0]], reasons=True)):
        with pytest.raises(od.OffdiagError):
            ask()
    with pytest.raises(od.OffdiagError, match="window"):
        od.SessionKNN(window=501).fit(events([[0, 1]]))


def test_sessions_of_single_items_recommend_nothing_and_do_not_fail():
    model = od.SessionKNN().fit(events([[0, 0], [1], [2]]))
    assert not model.predict([[0], [2]]).any()
