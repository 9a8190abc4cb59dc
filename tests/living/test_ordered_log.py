"""The event log of models of order, against a plain Python book of every user's events in order."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.sequences import sequences_of
from offdiag.data.table import Table
from offdiag.errors import OffdiagError
from offdiag.living import events, log_rows
from offdiag.living.ledger import Ledger, Recipe, read_recipe
from offdiag.living.order import order_of

ROW = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
KINDS = [
    {"keep": "events"},
    {"keep": "events", "time": True},
    {"keep": "events", "time": True, "order": "time"},
    {"keep": "events", "time": True, "event": True},
    {"keep": "pairs", "time": True},
    {"keep": "pairs", "time": True, "order": "time"},
]


def table(rows, kind):
    """Rows (user, item, time, number), the number as event id."""
    user, item, time, number = ([row[i] for row in rows] for i in range(4))
    return Table(
        pl.Series([f"u{u}" for u in user]),
        pl.Series(item, dtype=pl.Int64),
        None,
        pl.Series(time, dtype=pl.Int64) if kind.get("time") else None,
        "the log",
        event=pl.Series([f"e{n}" for n in number]) if kind.get("event") else None,
    )


def recipe(rows, kind):
    return log_rows.recipe_of(table(rows, kind), keep=kind["keep"], order=kind.get("order", "place"))


def expected(rows, kind):
    """{user: [(item, time), …]} in order, computed slowly."""
    book = {}
    for user, item, time, _ in rows:
        book.setdefault(f"u{user}", []).append((item, time if kind.get("time") else None))
    for user, held in book.items():
        if kind["keep"] == "pairs":  # each item once, at its latest time, in the order of its first row
            held = [(item, max(t for i, t in held if i == item)) for item in dict.fromkeys(item for item, _ in held)]
        held = sorted(held, key=lambda event: event[1]) if kind.get("time") else held
        book[user] = held if kind.get("order") == "time" else [(item, None) for item, _ in held]
    return book


def as_book(inter, kind):
    if inter is None:
        return {}
    all_of = sequences_of(inter)
    users = all_of.users
    times = all_of.times.tolist() if kind.get("order") == "time" else [None] * all_of.n_events
    book = {str(user): [] for user in inter.user_ids}
    for user, item, time in zip(users, inter.item_ids[all_of.items].tolist(), times, strict=True):
        book[str(inter.user_ids[user])].append((item, time))
    return book


def apply_plan(book, plan, kind):
    book = dict(book)
    for user, history in as_book(plan.remove, kind).items():
        assert book.pop(user) == history
    for user, history in as_book(plan.add, kind).items():
        assert user not in book
        book[user] = history
    return book


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=25, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=14), st.lists(st.integers(1, 14), max_size=4), st.randoms())
def test_a_growing_log_gives_the_histories_of_the_whole_log(kind, rows, cuts, random):
    rows = [(*row, number) for number, row in enumerate(rows)]
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    inter, ledger = events.read_first(table(rows[: ends[0]], kind), recipe(rows[: ends[0]], kind))
    book = as_book(inter, kind)
    assert book == expected(rows[: ends[0]], kind)
    for end in ends[1:]:
        plan = events.plan_update(ledger, table(rows[:end], kind))
        book, ledger = apply_plan(book, plan, kind), plan.ledger
        assert book == expected(rows[:end], kind)
        again = events.plan_update(ledger, table(rows[:end], kind))
        assert (again.new_events, again.add, again.remove) == (0, None, None)
    users = sorted(book)
    gone = random.sample(users, random.randint(1, len(users)))
    plan = events.plan_forget(ledger, table(rows, kind), np.array(gone))
    assert apply_plan(book, plan, kind) == {user: held for user, held in book.items() if user not in gone}
    same_as = Ledger(ledger.hashes, ledger.recipe, Ledger.empty(ledger.recipe).entries)
    if others := [row for row in rows if f"u{row[0]}" not in gone]:
        same_as = events.plan_update(same_as, table(others, kind)).ledger
    for name, part in plan.ledger.entries.arrays().items():  # no trace of them
        assert np.array_equal(part, same_as.entries.arrays()[name]), name


LOG = [(1, 10, 0, 0), (1, 11, 1, 1), (1, 10, 2, 2), (2, 10, 2, 3), (2, 12, 3, 4)]
BY_ROW, BY_TIME = {"keep": "events"}, {"keep": "events", "time": True, "order": "time"}


def fitted(kind):
    return events.read_first(table(LOG, kind), recipe(LOG, kind))[1]


def test_a_repeated_row_is_another_event():
    inter, ledger = events.read_first(table(LOG, BY_ROW), recipe(LOG, BY_ROW))
    assert as_book(inter, BY_ROW)["u1"] == [(10, None), (11, None), (10, None)]
    assert ledger.n_events == 5


def test_later_events_of_a_known_user_need_the_earlier_ones():
    with pytest.raises(OffdiagError, match="only new events of 1 users who are in the model already .*'u2'"):
        events.plan_update(fitted(BY_TIME), table([(2, 11, 9, 9)], BY_TIME))
    plan = events.plan_update(fitted(BY_TIME), table([*LOG[3:], (2, 11, 9, 9)], BY_TIME))
    assert as_book(plan.remove, BY_TIME) == {"u2": [(10, 2), (12, 3)]}
    assert as_book(plan.add, BY_TIME) == {"u2": [(10, 2), (12, 3), (11, 9)]}


def test_counted_rows_in_another_order_are_refused():
    """The same events, so nothing is new; but the model would have learned something else."""
    with pytest.raises(OffdiagError, match="in another order of 1 users .*'u1'.*nothing was changed"):
        events.plan_update(fitted(BY_ROW), table([LOG[1], LOG[0], *LOG[2:]], BY_ROW))
    with pytest.raises(OffdiagError, match="received other rows than the model has counted"):
        events.plan_forget(fitted(BY_ROW), table([LOG[1], LOG[0], LOG[2]], BY_ROW))


def test_a_part_of_the_counted_events_is_nothing_new():
    plan = events.plan_update(fitted(BY_TIME), table(LOG[1:3], BY_TIME))
    assert (plan.new_events, plan.old_events) == (0, 2)


def test_a_recipe_is_read_back_and_checked():
    ledger = fitted(BY_TIME)
    assert read_recipe(ledger.about()) == ledger.recipe
    assert not {"keep", "order"} & set(Ledger.empty(Recipe()).about())
    for wrong in ({"keep": "some"}, {"order": "age"}):
        with pytest.raises(ValueError, match="in order"):
            read_recipe(ledger.about() | wrong)


def test_what_identifies_a_history_depends_on_the_model():
    assert order_of(od.EASE()) is None
    assert order_of(od.MarkovChain()) is None  # it cannot be changed
    assert order_of(od.NextItem()) == "place"
    assert order_of(od.NextItem(half_life=3.0)) == "time"
