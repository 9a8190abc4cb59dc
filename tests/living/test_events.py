"""The event log against a plain Python book of every user's items."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.columns import Roles
from offdiag.data.table import Table
from offdiag.errors import OffdiagError
from offdiag.living import events, log_rows
from offdiag.living.ledger import Ledger, Recipe

ROW = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))
KINDS = [
    {},
    {"value": True},
    {"value": True, "time": True},
    {"value": True, "duplicates": "once", "time": True},
    {"value": True, "at_least": 2.0},
    {"value": True, "at_least": 3.0, "event": True},
    {"event": True},
    {"time": True},
    {"duplicates": "sum"},
]


def table(rows, kind, names=str):
    """Rows (user, item, value, time), and event ids by their number."""
    user, item, value, time = ([row[i] for row in rows] for i in range(4))
    return Table(
        pl.Series([names(u) for u in user], dtype=pl.String if names is str else pl.Int64),
        pl.Series(item, dtype=pl.Int64),
        pl.Series(value, dtype=pl.Int64) if kind.get("value") else None,
        pl.Series(time, dtype=pl.Int64) if kind.get("time") else None,
        "the log",
        event=pl.Series([f"e{row[4]}" for row in rows], dtype=pl.String) if kind.get("event") else None,
    )


def recipe(rows, kind):
    return log_rows.recipe_of(table(rows, kind), None, kind.get("duplicates"), kind.get("at_least"))


def expected(rows, kind):
    """{user: {item: value}} as it should be, computed slowly."""
    rule = kind.get("duplicates") or ("sum" if kind.get("value") else "once")
    seen, book, latest = set(), {}, {}
    for user, item, value, time, number in rows:
        if kind.get("event"):
            if number in seen:
                continue
            seen.add(number)
        held = book.setdefault(str(user), {})
        if rule == "once" and kind.get("value"):
            if kind.get("time") and latest.get((user, item), -1) > time:
                continue
            latest[user, item] = time
            held[item] = value
        elif kind.get("value"):
            held[item] = held.get(item, 0) + value
        else:
            held[item] = held.get(item, 0) + 1 if rule == "sum" else 1
    least = kind.get("at_least")
    for user, held in list(book.items()):
        kept = {i: v if least is None else 1 for i, v in held.items() if v > 0 and (least is None or v >= least)}
        book[user] = kept
        if not kept:
            del book[user]
    return book


def as_book(inter):
    if inter is None:
        return {}
    rows = [inter.matrix[[i]].tocoo() for i in range(inter.n_users)]
    return {
        str(user): dict(zip(inter.item_ids[row.col].tolist(), row.data.tolist(), strict=True))
        for user, row in zip(inter.user_ids.tolist(), rows, strict=True)
    }


def apply_plan(book, plan):
    """The book after a plan; removed rows must match the book, added users must not be in it."""
    book = dict(book)
    for user, row in as_book(plan.remove).items():
        assert book.pop(user) == row
    for user, row in as_book(plan.add).items():
        assert user not in book
        book[user] = row
    return book


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=25)
@given(st.lists(ROW, min_size=1, max_size=14), st.lists(st.integers(1, 14), max_size=4), st.randoms())
def test_a_growing_log_gives_the_histories_of_the_whole_log(kind, rows, cuts, random):
    rows = [(*row, number) for number, row in enumerate(rows)]
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    first = rows[: ends[0]]
    if not expected(first, kind):
        return
    inter, ledger = events.read_first(table(first, kind), recipe(first, kind))
    book = as_book(inter)
    assert book == expected(first, kind)
    for end in ends[1:]:
        plan = events.plan_update(ledger, table(rows[:end], kind))
        book, ledger = apply_plan(book, plan), plan.ledger
        assert book == expected(rows[:end], kind)
        again = events.plan_update(ledger, table(rows[:end], kind))
        assert (again.new_events, again.add, again.remove) == (0, None, None)
    users = sorted({str(row[0]) for row in rows[: ends[-1]]})
    gone = random.sample(users, random.randint(1, len(users)))
    plan = events.plan_forget(ledger, table(rows[: ends[-1]], kind), np.array(gone))
    left = apply_plan(book, plan)
    assert left == {user: row for user, row in book.items() if user not in gone}
    same_as = Ledger(ledger.hashes, ledger.recipe, Ledger.empty(ledger.recipe).entries)
    others = [row for row in rows[: ends[-1]] if str(row[0]) not in gone]
    if others:
        same_as = events.plan_update(same_as, table(others, kind)).ledger
    for name, part in plan.ledger.entries.arrays().items():  # no trace of them
        assert np.array_equal(part, same_as.entries.arrays()[name]), name
    with pytest.raises(OffdiagError, match="never there, or forgotten already"):
        events.plan_forget(plan.ledger, table(rows[: ends[-1]], kind), np.array(gone[:1]))


LOG = [(1, 10, 1, 0, 0), (1, 11, 1, 1, 1), (2, 10, 1, 2, 2), (2, 12, 1, 3, 3), (3, 11, 1, 4, 4)]


def fitted(kind=None, rows=LOG):
    kind = kind or {}
    return events.read_first(table(rows, kind), recipe(rows, kind))[1]


def test_new_events_of_new_users_need_no_old_ones():
    plan = events.plan_update(fitted(), table([(7, 10, 1, 9, 9), (7, 99, 1, 9, 10)], {}))
    assert as_book(plan.add) == {"7": {10: 1.0, 99: 1.0}}
    assert plan.remove is None
    assert (plan.new_users, plan.changed_users, plan.new_events, plan.old_events) == (1, 0, 2, 0)


def test_new_events_of_a_known_user_need_all_old_ones():
    ledger = fitted()
    with pytest.raises(OffdiagError, match="of 1 users who are in the model already .*'2'.*nothing was changed"):
        events.plan_update(ledger, table([(2, 13, 1, 9, 9), (2, 10, 1, 9, 10)], {}))
    plan = events.plan_update(ledger, table([*LOG[2:4], (2, 13, 1, 9, 9)], {}))
    assert as_book(plan.remove) == {"2": {10: 1.0, 12: 1.0}}
    assert as_book(plan.add) == {"2": {10: 1.0, 12: 1.0, 13: 1.0}}


def test_an_edited_past_is_noticed():
    ledger = fitted({"event": True})
    edited = [(*LOG[2][:1], 99, *LOG[2][2:]), LOG[3], (2, 13, 1, 9, 9)]
    with pytest.raises(OffdiagError, match="stay as they are.*'2'"):
        events.plan_update(ledger, table(edited, {"event": True}))


@pytest.mark.parametrize("others", [0, 40])
def test_an_event_id_belongs_to_one_user(others):
    """Otherwise an event repeated under another name of its user would count twice."""
    kind = {"event": True}
    rows = [*LOG, *[(100 + n, 10, 1, 5, 100 + n) for n in range(others)]]
    with pytest.raises(OffdiagError, match="'e3' of the users '1' and '9' in the log.*nothing was changed"):
        events.read_first(table([(1, 10, 1, 5, 3), (9, 10, 1, 5, 3)], kind), recipe(rows, kind))
    ledger = events.read_first(table(rows, kind), recipe(rows, kind))[1]
    _, item, value, time, number = rows[2]
    another = rows[3]  # of the same user
    for come in (
        [(9, item, value, time, number)],
        [(9, 10, 1, 5, 999), (8, item, value, time, number)],
        [another, (9, item, value, time, number)],  # next to an event of its own user
        [another, (9, 10, 1, 5, 999), (8, item, value, time, number)],
        [rows[0], another, (1, item, value, time, number)],  # of a known user
    ):
        with pytest.raises(OffdiagError, match=f"'e{number}' of the user '{come[-1][0]}', counted before for another"):
            events.plan_update(ledger, table(come, kind))
    assert events.plan_update(ledger, table([(9, 10, 1, 5, 999)], kind)).new_events == 1
    assert events.plan_update(ledger, table(rows, kind)).new_events == 0
    assert (
        events.plan_update(fitted({}), table([(9, item, value, time, number)], {})).new_events == 1
    )  # no ids, no clash


def test_users_with_the_same_event_id_can_still_be_forgotten():
    kind = {"event": True}
    ledger = fitted(kind)
    uncounted = [(1, 13, 1, 5, 77), (2, 13, 1, 5, 77), (1, 13, 1, 5, LOG[2][4])]
    plan = events.plan_forget(ledger, table([*LOG, *uncounted], kind), np.array(["1", "2"]))
    assert as_book(plan.remove) == {"1": {10: 1.0, 11: 1.0}, "2": {10: 1.0, 12: 1.0}}


def test_an_event_delivered_twice_counts_once():
    kind = {"event": True, "duplicates": "sum"}
    inter, ledger = events.read_first(table([LOG[0], LOG[0], LOG[1]], kind), recipe(LOG, kind))
    assert as_book(inter) == {"1": {10: 1.0, 11: 1.0}}
    assert ledger.n_events == 2


def test_equal_rows_without_ids_add_up_where_rows_add_up():
    rows = [LOG[0], LOG[0], LOG[1]]
    inter, ledger = events.read_first(table(rows, {"duplicates": "sum"}), recipe(rows, {"duplicates": "sum"}))
    assert as_book(inter) == {"1": {10: 2.0, 11: 1.0}}
    assert events.plan_update(ledger, table(rows[::-1], {"duplicates": "sum"})).new_events == 0
    plan = events.plan_update(ledger, table([*rows, LOG[0]], {"duplicates": "sum"}))
    assert as_book(plan.add) == {"1": {10: 3.0, 11: 1.0}}
    inter, ledger = events.read_first(table(rows, {}), recipe(rows, {}))
    assert ledger.n_events == 2


def test_an_event_that_changes_no_history_changes_no_model():
    rows = LOG[:2]
    ledger = fitted({"time": True}, rows)
    plan = events.plan_update(ledger, table([*rows, (1, 10, 1, 55, 9)], {"time": True}))
    assert (plan.new_events, plan.add, plan.remove) == (1, None, None)
    assert plan.ledger.n_events == 3


def test_a_user_below_the_threshold_is_known_and_can_be_forgotten():
    kind = {"value": True, "at_least": 4.0}
    rows = [(1, 10, 5, 0, 0), (2, 10, 1, 0, 1)]
    inter, ledger = events.read_first(table(rows, kind), recipe(rows, kind))
    assert inter.user_ids.tolist() == ["1"]
    assert ledger.n_users == 2
    plan = events.plan_forget(ledger, table(rows[:1], kind), np.array(["2"]))
    assert (plan.add, plan.remove, plan.ledger.n_users) == (None, None, 1)


def test_forgetting_needs_the_rows_as_they_were_counted():
    ledger = fitted()
    for rows in (LOG[2:3], [*LOG[2:4], (2, 99, 1, 1, 1)][1:], LOG[:1]):
        with pytest.raises(OffdiagError, match="1 of 1 users .*'2'.*nothing was changed"):
            events.plan_forget(ledger, table(rows, {}), np.array(["2"]))
    later = [*LOG, (2, 77, 1, 1, 1)]  # the log has moved on: only counted events are removed
    assert as_book(events.plan_forget(ledger, table(later, {}), np.array(["2"])).remove) == {"2": {10: 1.0, 12: 1.0}}


def test_forgetting_some_with_new_events_and_some_without():
    later = [*LOG, (2, 77, 1, 1, 1)]
    plan = events.plan_forget(fitted(), table(later, {}), np.array(["2", "1"]))
    assert as_book(plan.remove) == {"1": {10: 1.0, 11: 1.0}, "2": {10: 1.0, 12: 1.0}}


def test_rows_without_times_and_event_ids_are_enough_to_forget():
    ledger = fitted({"time": True, "event": True})
    assert as_book(events.plan_forget(ledger, table(LOG[:2], {})).remove) == {"1": {10: 1.0, 11: 1.0}}


def test_one_unknown_user_among_several_is_an_error():
    with pytest.raises(OffdiagError, match="1 who are not in it .*'zoe'"):
        events.plan_forget(fitted(), table(LOG, {}), np.array(["1", "zoe"]))


def test_an_empty_log_is_refused():
    with pytest.raises(OffdiagError, match="at least one event"):
        events.plan_update(fitted(), table([], {}))
    with pytest.raises(OffdiagError, match="at least one user to forget"):
        events.plan_forget(fitted(), table([], {}))


def test_the_ledger_of_interactions_is_that_of_their_rows():
    inter = od.synthetic.interactions(30, 12, 150, seed=3)
    ledger = events.ledger_of_data(inter)
    assert (ledger.n_users, ledger.n_events) == (30, 150)
    rows = log_rows.table_of(inter.select_users(np.array([4, 9])))
    gone = events.plan_forget(ledger, rows).remove
    assert np.array_equal(gone.user_ids, inter.user_ids[[4, 9]])
    assert gone.nnz == inter.select_users(np.array([4, 9])).nnz
    assert ledger.recipe == Recipe(False, True, "once", None, Roles())
