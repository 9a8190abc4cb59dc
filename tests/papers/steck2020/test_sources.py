"""Data sets by name: their preparation, and the rank of the table."""

import pytest

from offdiag.papers.steck2020 import sources

pytestmark = pytest.mark.slow


def test_the_rank_is_that_of_the_paper_or_a_twentieth_of_the_items():
    assert [sources.choose_rank("ml-20m", 20_108, None), sources.choose_rank("msd", 41_140, None)] == [1000, 1000]
    small = {name: sources.choose_rank("x", n, None) for name, n in (("ml-1m", 3706), ("k", 1447), ("cul", 7849))}
    assert small == {"ml-1m": 190, "k": 70, "cul": 390}
    assert sources.choose_rank("x", 60, None) == 10
    assert sources.choose_rank("x", 5, None) == 4


@pytest.mark.parametrize(
    ("name", "folder", "users", "items"),
    [
        ("ml-100k", "ml-100k", 754, 1447),
        ("lastfm", "lastfm-hetrec2011", 1505, 2828),
        ("citeulike-a", "citeulike-a", 4426, 7849),
        ("ml-1m", "ml-1m", 4832, 3706),
    ],
)
def test_the_smaller_sets_are_prepared_as_their_title_says(name, folder, users, items, shared_data):
    data = sources.load(sources.Source(name, shared_data(folder)), 0)
    assert (data.split.train.n_users, data.split.train.n_items) == (users, items)
    assert (data.split.train.matrix.data == 1).all()
    assert data.split.validation is not None


def test_the_stand_in_has_the_published_shape_and_the_rank_of_the_paper():
    source = sources.stand_in()
    assert (source.users, source.items, source.interactions) == (136_677, 20_108, 10_000_000)
    assert sources.choose_rank(source.name, source.items, None) == 1000


def test_a_stand_in_says_that_its_accuracies_mean_nothing():
    data = sources.load(sources.Source(sources.STAND_IN, users=300, items=60, interactions=4000), 0)
    assert data.stand_in
    assert "accuracies mean nothing" in data.notes[0]
    assert data.split.train.n_users == 300 - 2 * len(data.split.test.user_ids) == 240
