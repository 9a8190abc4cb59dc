"""What a choice counts for by its age: against plain loops, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.sequences import Sequences
from offdiag.ranking.histories import encode
from offdiag.ranking.recency import Recency, checked_recency

CATALOGUE = np.array(["a", "b", "c", "d"])
EVENT = st.tuples(st.sampled_from(["a", "b", "c", "d", "new"]), st.integers(-20, 20))
LEARNED = Recency(0.3)


def by_hand(history, weigh):
    """A row by a plain loop over the known choices; ``weigh(choices after it, time before the last)``."""
    known = sorted((event for event in history if event[0] != "new"), key=lambda event: event[1])  # stable
    row = dict.fromkeys(CATALOGUE.tolist(), 0.0)
    for place, (item, at) in enumerate(known):
        row[item] += weigh(len(known) - 1 - place, known[-1][1] - at)
    return list(row.values())


@given(st.lists(st.lists(EVENT, max_size=7), max_size=4))
def test_pairs_with_times_become_rows_by_age(histories):
    X, unknown = encode(histories, CATALOGUE, Recency(half_life=2.5))
    expected = [by_hand(history, lambda _, age: 0.5 ** (age / 2.5)) for history in histories]
    np.testing.assert_allclose(X.toarray(), np.reshape(expected, (-1, 4)), rtol=2**-22)  # of float32
    assert unknown == [tuple(item for item, _ in history if item == "new") for history in histories]
    assert X.has_canonical_format


@given(st.lists(st.lists(EVENT, max_size=7), max_size=4))
def test_with_times_the_order_is_that_of_time(histories):
    X, _ = encode(histories, CATALOGUE, Recency(0.5))
    expected = [by_hand(history, lambda after, _: 0.5**after) for history in histories]
    np.testing.assert_array_equal(X.toarray(), np.reshape(expected, (-1, 4)))


@given(st.lists(st.lists(EVENT, max_size=7), max_size=4))
def test_without_recency_times_are_not_used(histories):
    X, unknown = encode(histories, CATALOGUE)
    plain, same = encode([[item for item, _ in history] for history in histories], CATALOGUE)
    np.testing.assert_array_equal(X.toarray(), plain.toarray())
    assert unknown == same


@given(st.lists(st.lists(EVENT, min_size=1, max_size=7), min_size=1, max_size=4))
def test_interactions_and_pairs_give_the_same_rows(histories):
    rows = [(u, item, at) for u, history in enumerate(histories) for item, at in history]
    log = dict(zip(("user", "item", "time"), map(list, zip(*rows, strict=True)), strict=True))
    events = od.read(log, time="time", keep="events")
    for recency in (Recency(0.5), Recency(half_life=3.0)):
        ours, theirs = (encode(one, CATALOGUE, recency)[0].toarray() for one in (events, histories))
        np.testing.assert_allclose(ours, theirs, rtol=2**-22)  # of float32


@given(st.lists(EVENT, min_size=1, max_size=6), st.integers(-1000, 1000))
def test_another_origin_of_time_changes_nothing(history, shift):
    later = [(item, at + shift) for item, at in history]
    one, other = (encode([h], CATALOGUE, Recency(half_life=3.0))[0].toarray() for h in (history, later))
    np.testing.assert_array_equal(one, other)


def test_a_choice_long_ago_counts_for_nothing_but_is_still_seen():
    X, _ = encode([[("a", -1e308), ("b", 1e308)]], CATALOGUE, Recency(half_life=1e-300))
    assert X.indices.tolist() == [0, 1]
    assert X.data.tolist() == [0.0, 1.0]


def test_ages_are_counted_from_the_last_event_of_the_user():
    events = Sequences(np.array([0, 2, 2, 3]), np.array([1, 0, 1], np.int32), np.array([-(2**62), 2**62, 5]))
    assert events.ages().tolist() == [2.0**63, 0.0, 0.0]


@pytest.mark.parametrize("times", [None, np.array(["2024-01-01"], "datetime64[s]")])
def test_ages_need_times_as_numbers(times):
    with pytest.raises(od.OffdiagError, match="with times as numbers, received"):
        Sequences(np.array([0, 1]), np.array([1], np.int32), times).ages()


def test_the_caller_decides_and_else_the_model():
    assert checked_recency(None, None, LEARNED) == LEARNED
    assert checked_recency(0.8, None, LEARNED) == Recency(0.8)
    assert checked_recency(None, 5, LEARNED) == Recency(1.0, 5.0)
    assert checked_recency(1, None, LEARNED) is None  # the whole history counts alike


@pytest.mark.parametrize(
    ("decay", "half_life", "message"),
    [
        (0, None, r"history_decay must be a number in \(0, 1\], received 0"),
        (1.5, None, r"history_decay must be a number in \(0, 1\], received 1.5"),
        ("auto", None, r"history_decay must be a number in \(0, 1\], received 'auto'"),
        (None, 0, r"history_half_life must be a number in \(0, inf\), received 0"),
        (None, -3, r"history_half_life must be"),
        (None, np.inf, r"history_half_life must be"),
        (0.5, 3, r"received both \(0.5, 3\)"),
    ],
)
def test_bad_numbers_are_refused(decay, half_life, message):
    with pytest.raises(od.OffdiagError, match=message):
        checked_recency(decay, half_life, None)


@pytest.mark.parametrize(
    ("histories", "message"),
    [
        ([["a", "b"]], "needs the time of each choice"),
        ([[("a", 1), "b"]], "mix .id, time. pairs and ids, such as 'b'"),
        ([[("a", 1), ("b", "2024-01-01")]], "all numbers or all dates"),
        ([[("a", "soon")]], "expected a number or an ISO date"),
        ([[("a", "2999-01-01")]], "in the future"),
        ([{"a"}], "but received a set"),
        (np.eye(4), "but received a matrix"),
        (od.read({"user": [1], "item": ["a"]}, keep="events"), "needs the time of each choice"),
    ],
)
def test_histories_without_usable_times_are_refused(histories, message):
    with pytest.raises(od.OffdiagError, match=message):
        encode(histories, CATALOGUE, Recency(half_life=1.0))


def test_an_empty_history_needs_no_times():
    assert encode([[], ["new"]], CATALOGUE, Recency(half_life=1.0))[0].nnz == 0
