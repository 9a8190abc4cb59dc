"""Interactions stay on the workers that hold them, and their digest tells tables apart."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cluster import shards
from offdiag.cluster.parts import Part
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Stage

pytest.importorskip("distributed", reason="needs the extra 'cluster'")


def part(rows, values=None):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate(rows).astype(np.int32)
    data = None if values is None else np.asarray(values, dtype=np.float32)
    return Part(data, indices, indptr, np.arange(len(rows)))


def digest(*parts):
    return sum(int(shards.contents(one.indices, one.indptr, one.data)) for one in parts) % 2**64


def test_a_digest_depends_on_the_users_and_not_on_their_order():
    a, b, c = [0, 3], [1], [0, 1, 2]
    assert digest(part([a, b, c])) == digest(part([c]), part([b, a]))
    for other in ([[0, 3, 1], [], c], [[0, 1], [3], c], [a, b], [a, b, c, b]):
        assert digest(part([np.array(row, int) for row in other])) != digest(part([a, b, c]))
    assert digest(part([a], [1, 2])) != digest(part([a], [2, 1])) != digest(part([a]))


@pytest.mark.slow
def test_users_stay_where_they_are_unless_one_worker_has_them_all(client):
    homes = Homes.of(client)
    inter = od.synthetic.interactions(400, 30, 4_000, seed=0)
    work = Stage(client, "placing")

    def parts_on(workers):
        parts = od.cluster.read(inter, client=client)
        futures = [
            client.submit(lambda one: one, parts.futures[at], workers=[homes.workers[home]], pure=False)
            for at, home in enumerate(workers)
        ]
        work.wait(futures)
        parts.futures[:] = futures
        return parts

    spread = shards.groups_by_home(parts_on([1, 0]), homes)
    assert spread == {0: [1], 1: [0]}
    assert sorted(shards.groups_by_home(parts_on([0, 0]), homes).values()) == [[0], [1]]


@pytest.mark.slow
def test_popularity_is_that_of_all_users(client):
    inter = od.synthetic.interactions(400, 30, 4_000, seed=0)
    parts = od.cluster.read(inter, client=client)
    known = shards.popularity(Stage(client, "counting"), parts, 0.5)
    n_u = np.diff(inter.matrix.indptr)
    order = np.argsort(known.rank)
    np.testing.assert_array_equal(known.counts, inter.matrix.sum(axis=0)[order])
    assert (np.diff(known.counts) <= 0).all()
    np.testing.assert_array_equal(known.cost, (inter.matrix.T @ n_u)[order])
    np.testing.assert_array_equal(known.sums[order], known.counts)


def test_facts_of_a_part_do_not_depend_on_how_much_is_read_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    some = part([rng.choice(9, rng.integers(0, 8), replace=False) for _ in range(40)], None)
    some = some._replace(data=rng.integers(1, 5, len(some.indices)).astype(np.float32))
    whole = shards.facts(some, 9)
    monkeypatch.setattr(shards, "ENTRIES_AT_ONCE", 1)
    for ours, theirs in zip(shards.facts(some, 9), whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert whole[-1] == digest(some)
