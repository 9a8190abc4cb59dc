"""Synthetic interactions have the shape they promise."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.data import split, synthetic
from tests.fixtures.mistakes import rejects


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 40), st.data())
def test_any_size_is_generated_exactly_and_without_repeats(n_users, n_items, data):
    nnz = data.draw(st.integers(n_users, n_users * max(1, n_items // 2)))
    communities = data.draw(st.integers(1, n_items))
    named, timed = data.draw(st.booleans()), data.draw(st.booleans())
    inter = synthetic.interactions(n_users, n_items, nnz, communities=communities, names=named, times=timed)
    assert inter.matrix.shape == (n_users, n_items)
    assert inter.nnz == nnz
    assert np.diff(inter.matrix.indptr).min() >= 1
    copy = inter.matrix.copy()
    copy.has_canonical_format = False
    copy.sum_duplicates()
    assert copy.nnz == nnz
    assert np.array_equal(copy.indices, inter.matrix.indices)
    assert (inter.matrix.data == 1).all()
    assert len(set(inter.item_ids.tolist())) == n_items
    assert inter.item_ids.tolist() == sorted(inter.item_ids.tolist())
    assert (inter.times is not None) == timed


def test_a_seed_gives_the_same_data_and_another_seed_other_data():
    one, two, other = (synthetic.catalogue(300, 100, 3000, seed=s) for s in (5, 5, 6))
    assert np.array_equal(one.interactions.matrix.indices, two.interactions.matrix.indices)
    assert np.array_equal(one.interactions.times, two.interactions.times)
    assert one.genres.tolist() == two.genres.tolist()
    assert not np.array_equal(one.interactions.matrix.indices, other.interactions.matrix.indices)


def test_popularity_is_heavy_tailed_and_activity_skewed():
    inter = synthetic.interactions(20_000, 3_000, 600_000)
    popularity = np.sort(np.bincount(inter.matrix.indices, minlength=inter.n_items))[::-1]
    assert popularity[:30].sum() > 0.08 * inter.nnz  # 1 % of the items
    assert popularity[:300].sum() > 0.4 * inter.nnz
    assert popularity[-1500:].sum() < 0.25 * inter.nnz
    activity = np.sort(np.diff(inter.matrix.indptr))[::-1]
    assert activity[:2000].sum() > 0.3 * inter.nnz
    assert activity.mean() > 1.3 * np.median(activity)


def within_one_community(catalogue):
    """How often two random interactions of a user are in the same genre, and how often by chance."""
    _, genre = np.unique(catalogue.genres, return_inverse=True)
    inter = catalogue.interactions
    users = np.repeat(np.arange(inter.n_users), np.diff(inter.matrix.indptr))
    table = np.zeros((inter.n_users, genre.max() + 1))
    np.add.at(table, (users, genre[inter.matrix.indices]), 1)
    n = table.sum(axis=1)
    many = n >= 10
    together = ((table * (table - 1)).sum(axis=1) / (n * (n - 1)).clip(1))[many].mean()
    return together, ((table.sum(axis=0) / table.sum()) ** 2).sum()


def test_the_planted_communities_can_be_measured():
    together, chance = within_one_community(synthetic.catalogue())
    assert together > 1.7 * chance


def test_titles_name_saga_and_genre():
    catalogue = synthetic.catalogue(100, 200, 1000)
    titles = catalogue.interactions.item_ids.tolist()
    assert all(
        title.startswith("The ") and title.endswith(f"({genre})")
        for title, genre in zip(titles, catalogue.genres, strict=True)
    )
    assert len(set(catalogue.genres)) == 12
    big = synthetic.interactions(100, 9_000, 2_000, communities=60)  # more sagas than pairs of words
    assert len(set(big.item_ids.tolist())) == 9_000
    assert synthetic.interactions(100, 20_001, 2_000).item_ids.dtype == np.int64


def test_times_follow_the_order_of_choice_and_serve_the_time_splits():
    inter = synthetic.catalogue(200, 100, 3000).interactions
    in_table = np.argsort(inter.table_order)
    users = np.repeat(np.arange(inter.n_users), np.diff(inter.matrix.indptr))[in_table]
    times = inter.times[in_table]
    assert (np.diff(users) >= 0).all()
    assert (np.diff(times)[np.diff(users) == 0] >= 0).all()
    assert split.last_out(inter).test.targets.nnz > 150
    assert split.by_time(inter, "2024-06-01").test.targets.nnz > 100


def test_there_is_more_to_learn_than_popularity():
    parts = split.strong(synthetic.catalogue().interactions, seed=1)
    models = od.Popularity(), od.EASE(l2=1.0, user_power=0.0), od.EASE(l2=200.0, user_power=0.0)
    results = [od.evaluate(model.fit(parts.train), parts.test, "recall@20") for model in models]
    popular, weak, right = (result.mean["recall@20"] for result in results)
    assert right > 1.15 * popular
    assert right > 1.08 * weak


def test_a_million_interactions_are_exactly_that_many():
    assert synthetic.interactions(14_000, 5_000, 1_000_000, names=False).nnz == 1_000_000


test_an_impossible_size_is_rejected = rejects(
    (lambda: synthetic.interactions(0, 5, 5), "n_users must be a whole number of at least 1, received 0"),
    (lambda: synthetic.interactions(5, 0, 5), "n_items must be a whole number of at least 1, received 0"),
    (lambda: synthetic.interactions(5, 5, 4), r"nnz between 5 \(one per user\) and 10 .*, received 4"),
    (lambda: synthetic.interactions(5, 5, 11), r"nnz between 5 \(one per user\) and 10 .*, received 11"),
    (lambda: synthetic.interactions(5, 5, 10, communities=6), "communities must be .* from 1 to 5, received 6"),
    (lambda: synthetic.interactions(5, 5, 10, communities=0), "communities must be .* from 1 to 5, received 0"),
    (lambda: synthetic.interactions(5, 5, 10, structure=1.5), r"structure must be a number in \[0, 1\], received 1.5"),
    (lambda: synthetic.interactions(5, 5, 10, seed=-1), "seed must be a whole number of at least 0, received -1"),
)
