"""Sums over ordered histories that users are added to: other catalogues, files, and sums that no longer fit."""

import numpy as np
import pytest

import offdiag as od
from offdiag.gramian import layout
from offdiag.gramian.order import Ageing, OrderSums, count_units, unit_of
from offdiag.gramian.order_gram import OrderGram
from tests.fixtures.ordered_histories import as_sequences, chains, small


def example(**words):
    return small(**words).fit(chains()).gram_


def test_another_catalogue_keeps_the_sums_of_its_items():
    G = example()
    m = G.n_items
    at = np.array([3, -1, 0, 7])
    moved = G.moved(at)
    A, other = layout.unpack(G.sources, m), layout.unpack(moved.sources, 4)
    for i, a in enumerate(at):
        for j, b in enumerate(at):
            known = a >= 0 and b >= 0
            assert other[i, j] == (A[a, b] if known else 0)
            assert moved.targets[i, j] == (G.targets[a, b] if known else 0)
            assert moved.toarray()[i, j] == (G.toarray()[a, b] if known else 0)
    assert moved.item_sums.tolist() == [G.item_sums[a] if a >= 0 else 0 for a in at]


def test_sums_of_parts_are_exact():
    plain = [[0, 1, 2, 0], [2, 1], [], [1], [0, 0, 1]]
    whole = as_sequences(plain)
    ageing, unit = Ageing(0.3), unit_of(whole, 0.5)
    parts = [count_units(as_sequences(part), 3, ageing, unit, user_power=0.5) for part in (plain[:2], plain[2:])]
    both = count_units(whole, 3, ageing, unit, user_power=0.5)
    assert (sum(part.A for part in parts) == both.A).all()
    assert (sum(part.K for part in parts) == both.K).all()
    assert (np.rint(both.A) == both.A).all()


@pytest.mark.parametrize("later", [False, True])
def test_a_part_does_not_depend_on_the_histories_beside_it(later):
    """Distant events are skipped where they round to nothing; where that is, is up to the weight of the user alone."""
    rng = np.random.default_rng(0)
    long, short = rng.integers(0, 9, 400).tolist(), rng.integers(0, 9, 60).tolist()
    ageing, unit = Ageing(0.6), unit_of(as_sequences([long]), 1.0)
    parts = [count_units(as_sequences([x]), 9, ageing, unit, later=later, user_power=1.0) for x in (long, short)]
    both = count_units(as_sequences([long, short]), 9, ageing, unit, later=later, user_power=1.0)
    assert (parts[0].A + parts[1].A == both.A).all()
    assert (parts[0].K + parts[1].K == both.K).all()


def test_a_file_is_checked_against_its_items():
    G = example()
    arrays, about = G.arrays(), {"user_power": 0.0}
    again = OrderGram.from_arrays(arrays, about)
    assert again.targets is G.targets
    wrong = {
        "sources": G.sources[1:], "targets": G.targets[1:], "unit": np.zeros(1), "examples": G.examples.astype(float)
    }  # fmt: skip
    for name, array in wrong.items():
        with pytest.raises(ValueError, match="sums"):
            OrderGram.from_arrays(arrays | {name: array}, about)


def test_sums_beyond_whole_numbers_are_refused():
    G = example()
    more = OrderSums(G.sources, np.full_like(G.targets, 2.0**53))
    with pytest.raises(od.OffdiagError, match="without rounding"):
        G.with_users(G, more, G.examples, 1)


def test_histories_that_weigh_too_much_for_the_unit_are_refused():
    few, many = as_sequences([[0, 1]]), as_sequences([list(range(2)) * 5000])
    unit = unit_of(many, 5.0)
    with pytest.raises(od.OffdiagError, match="weigh too much, at user_power=5"):
        count_units(few, 2, Ageing(), unit, user_power=5.0)
