"""Times that are typed next to a history."""

import pytest

import offdiag as od
from offdiag.cli.recency_options import with_times


def test_times_are_numbers_where_they_can_be():
    assert with_times(["a", "b"], "1, 2e3") == [("a", 1.0), ("b", 2000.0)]
    assert with_times(["a"], "2026-01-05") == [("a", "2026-01-05")]
    assert with_times(["a", "b"], None) == ["a", "b"]
    assert with_times([], "") == []


@pytest.mark.parametrize("times", ["", "1", "1,2,3"])
def test_as_many_times_as_items_are_needed(times):
    with pytest.raises(od.OffdiagError, match="one for each item of the history .2., received"):
        with_times(["a", "b"], times)
