"""Independent programs give our numbers: ranx, and ir_measures, which calls trec_eval."""

import numpy as np
import pytest
from scipy import sparse

from offdiag import metrics

USERS, ITEMS, WIDTH = 60, 400, 100

pytestmark = [
    pytest.mark.slow,  # ranx compiles
    pytest.mark.filterwarnings("ignore"),  # of these packages and what they import
]


@pytest.fixture(scope="module")
def lists():
    """Ranked lists, and targets: of a few users none, of some more than a list is long."""
    rng = np.random.default_rng(7)
    indices = np.array([rng.permutation(ITEMS)[:WIDTH] for _ in range(USERS)])
    few = [rng.choice(ITEMS, size=n, replace=False) for n in rng.integers(1, 150, USERS)]
    few[0] = np.setdiff1d(np.arange(ITEMS), indices[0])[:5]  # no hit at all
    few[1] = indices[1][:30]  # a perfect list
    return indices, few


def ours(lists, name, k):
    indices, targets = lists
    wanted = sparse.csr_array(
        (
            np.ones(sum(map(len, targets))),
            np.concatenate([np.sort(t) for t in targets]),
            np.cumsum([0, *map(len, targets)]),
        ),
        shape=(USERS, ITEMS),
    )
    hits = metrics.find_hits(indices, wanted)
    return getattr(metrics, name)(hits, np.array([len(t) for t in targets]), k)


def runs(lists):
    """The same lists in the form of TREC: falling scores, so that nothing is tied."""
    indices, targets = lists
    wanted = {f"u{n:03}": {f"i{t}": 1 for t in items} for n, items in enumerate(targets)}
    ranked = {
        f"u{n:03}": {f"i{i}": float(WIDTH - place) for place, i in enumerate(row)} for n, row in enumerate(indices)
    }
    return wanted, ranked


PAIRS = [  # ours, ranx, ir_measures
    ("ndcg", 100, "ndcg@100", "nDCG@100"),
    ("ndcg", 20, "ndcg@20", "nDCG@20"),
    ("recall_all", 20, "recall@20", "R@20"),
    ("precision", 20, "precision@20", "P@20"),
    ("reciprocal_rank", 100, "mrr@100", "RR@100"),
    ("hit", 5, "hit_rate@5", "Success@5"),
]


@pytest.mark.parametrize(("name", "k", "theirs", "_"), PAIRS)
def test_ranx_gives_the_same_number_for_every_user(lists, name, k, theirs, _):
    ranx = pytest.importorskip("ranx")
    wanted, ranked = runs(lists)
    found = ranx.evaluate(ranx.Qrels(wanted), ranx.Run(ranked), theirs, return_mean=False)
    np.testing.assert_allclose(found, ours(lists, name, k), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "k", "_", "theirs"), PAIRS)
def test_ir_measures_gives_the_same_number_for_every_user(lists, name, k, _, theirs):
    ir_measures = pytest.importorskip("ir_measures")
    wanted, ranked = runs(lists)
    rows = ir_measures.iter_calc([ir_measures.parse_measure(theirs)], wanted, ranked)
    found = {row.query_id: row.value for row in rows}
    np.testing.assert_allclose([found[user] for user in sorted(found)], ours(lists, name, k), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("package", ["ranx", "ir_measures"])
def test_map_and_recall_differ_only_where_targets_exceed_k(lists, package):
    """Theirs divide by all targets, ours by min(k, targets), so that a perfect list scores 1."""
    other = pytest.importorskip(package)
    k, counts = 100, np.array([len(t) for t in lists[1]])
    wanted, ranked = runs(lists)
    if package == "ranx":
        found = other.evaluate(other.Qrels(wanted), other.Run(ranked), f"map@{k}", return_mean=False)
    else:
        rows = {row.query_id: row.value for row in other.iter_calc([other.parse_measure(f"AP@{k}")], wanted, ranked)}
        found = np.array([rows[user] for user in sorted(rows)])
    share = np.minimum(counts, k) / counts
    assert (share < 1).any()
    np.testing.assert_allclose(found, ours(lists, "average_precision", k) * share, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours(lists, "recall_all", k), ours(lists, "recall", k) * share, rtol=1e-12)
