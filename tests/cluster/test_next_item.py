"""NextItem of a cluster: the sums of one machine bit for bit, and the weights that are solved from them."""

from functools import partial

import numpy as np
import polars as pl
import pytest

import offdiag as od
from offdiag.cluster import next_item
from tests.fixtures.ordered_histories import SMALL, chains, inter_log
from tests.fixtures.partitions import cut, same_arrays, same_bytes, write_parts

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")

NEAR = {"float32": 2e-6, "float64": 1e-12}
KINDS = [
    {"dtype": "float32"},
    {"dtype": "float64", "mix": 0.0, "user_power": 0.5},
    {"dtype": "float32", "user_power": 1.0, "targets": "later", "window": 2, "repeats": True},
    {"dtype": "float64", "decay": "auto", "half_life": 2.5, "mix": 0.7},
    {"dtype": "float64", "history_decay": "auto", "history_half_life": 2.0, "mix": 1.0},
    dict.fromkeys(SMALL, "auto"),
]


def check_same(there, inter, model):
    """Bit for bit what its sums give on one machine; a fit counts in its own precision."""
    here = od.NextItem(**model.get_params()).fit(inter)
    solved = here._refit(here.gram_)
    np.testing.assert_array_equal(there.weights_.toarray(), solved.weights_.toarray())
    np.testing.assert_allclose(there.weights_.toarray(), here.weights_.toarray(), rtol=0, atol=NEAR[model.dtype])
    assert (there.settings_, there.n_users_) == (here.settings_, here.n_users_)
    same_arrays(there, here, "popularity_ item_ids_")
    assert there.counts_users_ == here.counts_users_


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_model_is_that_of_one_machine(client, kind):
    inter, model = chains(), od.NextItem(**SMALL | kind)
    there = od.cluster.fit_next_item(od.NextItem(**model.get_params()), inter, client=client)
    check_same(there, inter, model)
    histories = [inter.history(user) for user in inter.user_ids[:5]]
    assert there.recommend([[(item, at) for at, item in enumerate(h)] for h in histories], k=3).items.shape == (5, 3)


@pytest.mark.parametrize("by", ["rows", "users"])
def test_users_spread_over_partitions_keep_their_order(client, tmp_path, by):
    """Events of one user in several files, at equal times too, are in the order of the files."""
    log = inter_log(chains()).with_columns(time=pl.col("time") // 2, value=pl.lit(2.0))
    log = log.sample(fraction=1.0, shuffle=True, seed=0) if by == "rows" else log
    files = write_parts(tmp_path / "parts", cut(log, 5))
    inter = od.read(files, time="time", value="value", keep="events")
    parts = od.cluster.read(files, time="time", value="value", keep="events", client=client)
    found = parts.gather()
    same_bytes(found, inter)
    same_arrays(found.events, inter.events, "indptr items times")
    there = od.cluster.fit_next_item(od.NextItem(**SMALL), parts, client=client)
    check_same(there, inter, od.NextItem(**SMALL))


def test_filters_keep_events_and_pairs_together(client):
    log = inter_log(chains()).with_columns(value=pl.col("item") % 3)
    inter = od.read(log, time="time", value="value", keep="events")
    parts = od.cluster.prepare(
        od.cluster.read(inter, keep="events", client=client), at_least=2, min_users=2, min_items=1
    )
    expected = od.prepare.min_counts(od.prepare.binarize(inter, at_least=2), users=2)
    found = parts.gather()
    same_bytes(found, expected)
    same_arrays(found.events, expected.events, "indptr items times")


def test_the_counts_do_not_depend_on_the_parts(client):
    inter, used = chains(), od.NextItem(**SMALL | {"user_power": 0.5})._validate()
    sums = []
    for pieces in (1, 3):
        users = np.array_split(np.arange(inter.n_users), pieces)
        tables = [inter_log(inter.select_users(positions=some)) for some in users]
        spread = od.cluster.read(_frames(tables), time="time", keep="events", client=client)
        assert len(spread.futures) == pieces
        sums.append(next_item.count(spread, used)[0])
    same_arrays(sums[0], sums[1], "A K")


def _frames(tables):
    dask = pytest.importorskip("dask.dataframe")
    return dask.concat([dask.from_pandas(table.to_pandas(), npartitions=1) for table in tables])


def test_a_worker_killed_while_counting_changes_nothing(client, killing):
    inter = chains()
    for more in ({}, {"neighbours": 5}):
        model = partial(od.NextItem, **SMALL | more)
        calm, disturbed = killing(
            "counting histories", lambda model=model: od.cluster.fit_next_item(model(), inter, client=client)
        )
        np.testing.assert_array_equal(disturbed.weights_.toarray(), calm.weights_.toarray())


def test_features_are_those_of_one_machine(client):
    inter = chains()
    features = od.read_features({"item": inter.item_ids, "kind": [f"k{i % 3}" for i in range(inter.n_items)]})
    for weight in (0.5, "auto"):
        model = od.NextItem(**SMALL | {"feature_weight": weight, "dtype": "float64"})
        here = od.NextItem(**model.get_params()).fit(inter, item_features=features)
        there = od.cluster.fit_next_item(model, inter, item_features=features, client=client)
        assert there.settings_ == here.settings_
        np.testing.assert_allclose(there.weights_.toarray(), here.weights_.toarray(), rtol=0, atol=1e-12)


def test_mistakes_are_one_line(client, mistake):
    inter, fit = chains(), od.cluster.fit_next_item
    untimed = od.read(inter_log(inter).drop("time"), keep="events")
    short = od.read({"user": [1, 2], "item": [3, 4], "time": [0, 1]}, time="time", keep="events")
    pairs = od.cluster.read(inter, client=client)
    half_life = {"decay": "auto", "half_life": 3.0}
    for model, data, words in (
        (od.EASE(), inter, "fit_next_item takes NextItem, received EASE"),
        (od.NextItem(**SMALL | {"half_life": 3.0}), inter, "expected decay or half_life, received both"),
        (od.NextItem(**SMALL), pairs, "received pairs; read them with keep='events'"),
        (od.NextItem(**SMALL), inter.matrix, "received some without an order"),
        (od.NextItem(**SMALL | half_life), untimed, "a half-life needs times"),
        (od.NextItem(**SMALL), short, "expected a user with two events or more"),
    ):
        assert words in mistake(fit, model, data, client=client)
